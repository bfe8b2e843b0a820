"""The queries that are measured, over the set ``plain`` of ``bench/varied.py``. Each call draws other values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bench.records import SPANS_PER_TRACE
from bench.varied import ROUTES, SERVICES, STEP_NS, USERS, WORDS
from common.times import format_us

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored: spans that start between two times, and the ids of some of their traces."""

    spans_count: int
    oldest_us: int
    newest_us: int
    trace_ids: Sequence[str]


class Call(NamedTuple):
    """A request: POST with a body, or GET without."""

    path: str
    body: Body | None


MakeCall = Callable[[random.Random, Stored], Call]


def user_of(draw: random.Random) -> str:
    """Return one of the values of ``user.id`` in the set."""
    return f"user-{draw.randrange(USERS):03d}"


def _attribute(draw: random.Random) -> Body:
    return {"field": "attributes", "key": "user.id", "value": user_of(draw)}


def _page(path: str, limit: int, *conditions: Body, operator: str = "and") -> Call:
    filtering = {"operator": operator, "conditions": list(conditions)}
    return Call(path, {"filtering": filtering, "windowing": {"limit": limit}})


def _before(draw: random.Random, stored: Stored) -> str:
    return format_us(draw.randrange(stored.oldest_us, stored.newest_us))


def _newest(path: str, limit: int) -> MakeCall:
    return lambda draw, stored: Call(path, {"windowing": {"newest": _before(draw, stored), "limit": limit}})


def _by_attribute(path: str, limit: int, *, count: int = 1, operator: str = "and") -> MakeCall:
    return lambda draw, _: _page(path, limit, *(_attribute(draw) for _ in range(count)), operator=operator)


def _regex(draw: random.Random, _stored: Stored) -> Call:
    pattern = rf"/resource{draw.randrange(ROUTES)}/\d*{draw.randrange(10, 100)}\?"
    return _page(
        "/spans/query", 50, {"field": "attributes", "key": "http.url", "operator": "matches", "value": pattern}
    )


def _text(draw: random.Random, _stored: Stored) -> Call:
    return _page("/spans/query", 50, {"field": "content", "operator": "contains", "value": draw.choice(WORDS)})


def _trace(draw: random.Random, stored: Stored) -> Call:
    return Call(f"/traces/{draw.choice(stored.trace_ids)}", None)


def service_of(draw: random.Random) -> str:
    """Return one of the services of the set."""
    return f"service-{draw.randrange(SERVICES)}"


def operation_of(draw: random.Random) -> str:
    """Return one of the names of spans of the set."""
    return f"operation-{draw.randrange(SPANS_PER_TRACE)}"


def _service(draw: random.Random) -> Body:
    return {"field": "service", "value": service_of(draw)}


def _operation(draw: random.Random, _stored: Stored) -> Call:
    return _page("/spans/query", 50, _service(draw), {"field": "span_name", "value": operation_of(draw)})


def _facets(draw: random.Random, stored: Stored) -> Call:
    return Call("/spans/facets/query", {"windowing": {"newest": _before(draw, stored)}})


def _facet_values(draw: random.Random, stored: Stored) -> Call:
    body = {"windowing": {"newest": _before(draw, stored)}, "keys": [draw.choice(("http.route", "user.id"))]}
    return Call("/spans/facets/query", body)


TRACE: Final = "trace by id"
ATTRIBUTE_TRACES: Final = "traces by attribute, 20"
OPERATION: Final = "service and operation, 50 spans"
QUERIES: Final[Mapping[str, MakeCall]] = {
    "newest page of 100": _newest("/spans/query", 100),
    "attribute, page of 50": _by_attribute("/spans/query", 50),
    "text, page of 50": _text,
    TRACE: _trace,
    ATTRIBUTE_TRACES: _by_attribute("/traces/query", 20),
    OPERATION: _operation,
    "newest traces of a service, 20": lambda draw, _: _page("/traces/query", 20, _service(draw)),
    "or of three attributes, 50": _by_attribute("/spans/query", 50, count=3, operator="or"),
    "not, page of 50": _by_attribute("/spans/query", 50, operator="not"),
    "regex, page of 50": _regex,
    "traces by attribute, 50": _by_attribute("/traces/query", 50),
    "newest traces, 50": _newest("/traces/query", 50),
    "facets: attribute paths": _facets,
    "facets: values of a key": _facet_values,
}

MIXED: Final = tuple(QUERIES)[:7]
"""The queries that clients mix under load."""


def stored_of(spans_count: int, end_ns: int, trace_ids: Sequence[str]) -> Stored:
    """Return what a set of that many spans that ends at a time has stored."""
    return Stored(spans_count, (end_ns - spans_count * STEP_NS) // 1000, end_ns // 1000, trace_ids)
