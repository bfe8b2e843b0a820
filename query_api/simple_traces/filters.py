"""A question about simple traces as a filter of the one language (reference §1.6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common.filter.models import FilteringModel
from common.filter.operands import read_span_id, read_trace_id
from query_api.json_body import validated
from query_api.simple_traces.flags import wanted_flags
from query_api.simple_traces.models import (
    Json,
    QuerySimpleTraces,
    SimpleLink,
    SimpleLinks,
    SimpleReferences,
    SimpleTraceFilter,
)


def filtering_of(query: QuerySimpleTraces) -> FilteringModel:
    """The conditions on the span of a trace that fits."""
    conditions: list[Json] = []
    if query.links is not None:
        ids = [read_trace_id(link.trace_id, f"links[{index}].trace_id") for index, link in enumerate(query.links)]
        conditions.append(_condition("trace_id", "in", ids))
    conditions += _of_trace(query.trace or SimpleTraceFilter())
    return validated(FilteringModel, {"conditions": conditions}, at="body")


def _of_trace(trace: SimpleTraceFilter) -> Iterator[Json]:
    for flag, is_set in wanted_flags(trace.origin, trace.kind, trace.channel).items():
        yield _condition("attributes", "is" if is_set else "is_not", value=True, key=f"ag.flags.{flag}")
    for name, members in (("tags", trace.tags), ("meta", trace.meta)):
        if members:
            yield _condition("attributes", "is", members, key=f"ag.{name}")
    yield from _of_references(trace.references or SimpleReferences())
    yield from _of_links(trace.links)


def _of_references(references: SimpleReferences) -> Iterator[Json]:
    for name, reference in references.named.items():
        yield _condition("references", "in", [{**reference, "attributes.key": name}])
    if references.selector:
        yield _condition("attributes", "is", references.selector, key="ag.selector")


def _of_links(links: SimpleLinks | None) -> Iterator[Json]:
    if isinstance(links, dict):
        for name, link in links.items():
            yield _condition("links", "in", [{**_ids(link, f"trace.links.{name}"), "attributes.key": name}])
    elif links is not None:
        yield _condition("links", "in", [_ids(link, f"trace.links[{index}]") for index, link in enumerate(links)])


def _ids(link: SimpleLink, at: str) -> Json:
    """The ids of a link that stands ``at`` there. Raises ``InvalidFilter`` that names the place in the question."""
    return {
        "trace_id": read_trace_id(link.trace_id, f"{at}.trace_id"),
        "span_id": read_span_id(link.span_id, f"{at}.span_id"),
    }


def _condition(field: str, operator: str, value: Any, *, key: str | None = None) -> Json:
    return {"field": field, "operator": operator, "value": value, **({} if key is None else {"key": key})}
