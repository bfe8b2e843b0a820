"""The filter of a query for simple traces: from its members to conditions on spans (reference ``spans-api`` §1.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from common.errors import InvalidFilter
from query_api.compat.simple_traces.families import TraceFamily
from query_api.compat.simple_traces.models import (
    Json,
    LinkFilter,
    LinksFilter,
    QuerySimpleTraces,
    ReferencesFilter,
    SimpleLink,
    SimpleTraceFilter,
)
from query_api.compat.simple_traces.spans import wanted_flags
from query_api.filter.language import Node
from query_api.filter.operands import read_span_id, read_trace_id
from query_api.filter.parse import FilteringModel, parse
from query_api.request.json_body import validated

_NUMBER_OF_CONDITION: Final = re.compile(r"filtering\.conditions\[(\d+)\]")


class _Condition(NamedTuple):
    """A condition, and the path of the member that it comes from."""

    at: str
    json: Json


def node_of(family: TraceFamily, query: QuerySimpleTraces) -> Node:
    """Return the filter of a query. Raises ``InvalidFilter`` with the path in the query."""
    conditions = [
        *(_Condition(family.one, condition) for condition in family.conditions),
        *_of_ids(query.links, family.own_ids),
        *_of_trace(query.trace or SimpleTraceFilter(), family.one),
    ]
    filtering = {"conditions": [condition.json for condition in conditions]}
    try:
        return parse(validated(FilteringModel, filtering, at="body"))
    except InvalidFilter as exc:
        number = _NUMBER_OF_CONDITION.match(exc.path)
        at = family.one if number is None else conditions[int(number[1])].at
        raise InvalidFilter(at, exc.detail.removeprefix(f"{exc.path}: ")) from exc


def _of_ids(links: list[LinkFilter] | None, at: str) -> Iterator[_Condition]:
    if links is not None:
        ids = [read_trace_id(link.trace_id, f"{at}[{index}].trace_id") for index, link in enumerate(links)]
        yield _condition(at, "trace_id", "in", ids)


def _of_trace(trace: SimpleTraceFilter, at: str) -> Iterator[_Condition]:
    for flag, is_set in wanted_flags(trace.origin, trace.kind, trace.channel).items():
        operator = "is" if is_set else "is_not"
        yield _condition(at, "attributes", operator, value=True, key=f"ag.flags.{flag}")
    for name, members in (("tags", trace.tags), ("meta", trace.meta)):
        if members:
            yield _condition(f"{at}.{name}", "attributes", "is", members, key=f"ag.{name}")
    yield from _of_references(trace.references or ReferencesFilter(), f"{at}.references")
    yield from _of_links(trace.links, f"{at}.links")


def _of_references(references: ReferencesFilter, at: str) -> Iterator[_Condition]:
    for name, reference in references.named.items():
        partial = {**reference, "attributes.key": name}
        yield _condition(f"{at}.{name}", "references", "in", [partial])
    if references.selector:
        yield _condition(f"{at}.selector", "attributes", "is", references.selector, key="ag.selector")


def _of_links(links: LinksFilter | None, at: str) -> Iterator[_Condition]:
    if isinstance(links, dict):
        for name, link in links.items():
            yield _condition(f"{at}.{name}", "links", "in", [{**_ids(link, f"{at}.{name}"), "attributes.key": name}])
    elif links is not None:
        ids = [_ids(link, f"{at}[{index}]") for index, link in enumerate(links)]
        yield _condition(at, "links", "in", ids)


def _ids(link: SimpleLink, at: str) -> Json:
    return {
        "trace_id": read_trace_id(link.trace_id, f"{at}.trace_id"),
        "span_id": read_span_id(link.span_id, f"{at}.span_id"),
    }


def _condition(at: str, field: str, operator: str, value: Any, *, key: str | None = None) -> _Condition:
    members = {"field": field, "operator": operator, "value": value}
    return _Condition(at, members if key is None else {**members, "key": key})
