"""Relative times over HTTP and the real engine: a walk has the times of its first page, whatever the clock does
(contract §3.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import format_us
from tests.fakes.clock import ManualClock
from tests.support.api import context_of, serving
from tests.support.feed import settle
from tests.support.span_corpus import START_NS, store_record

START_US = START_NS // 1000
SECOND_US = 1_000_000
SPANS_COUNT = 40
AGO_S = {"now": 0, "-0h": 0, "-3s": 3, "-10s": 10, "-15s": 15, "-30s": 30, "-1m": 60}
"""Relative times, and the seconds that they are before now. A span starts every second from 30 s before now on."""

MEMBERS = {
    "/spans/query": "spans",
    "/traces/query": "traces",
    "/traces/summaries/query": "summaries",
    "/spans/sessions/query": "session_ids",
}


def span(number: int) -> Span:
    start_ns = START_NS + number * 1_000_000_000
    return Span(
        trace_id=(1 + number // 2).to_bytes(16, "big"),
        span_id=(1 + number).to_bytes(8, "big") * 2,
        parent_id=None,
        name=f"s{number}",
        kind=1,
        start_ns=start_ns,
        end_ns=start_ns + 2_000_000_000,
        status_code=0,
        status_message=None,
        attributes={"ag.session.id": f"session {number // 3}"},
    )


@dataclass(frozen=True)
class Api:
    """Asks the API at a time of the test."""

    runner: asyncio.Runner
    client: aiohttp.ClientSession
    clock: ManualClock

    @property
    def now_us(self) -> int:
        return self.clock.now_ns() // 1000

    def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        async def sent() -> Any:
            async with self.client.post(path, json=body) as response:
                assert response.status == status, await response.text()
                return await response.json()

        return self.runner.run(sent())

    def walk(self, path: str, body: dict[str, Any], *, waits_s: list[int], is_verbatim: bool = False) -> list[Any]:
        """Return what all pages hold; the clock moves after each. ``is_verbatim``: send the returned windowing back."""
        found: list[Any] = []
        windowing = body["windowing"]
        for wait_s in [*waits_s, *[1] * 200]:
            page = self.post(path, {**body, "windowing": windowing})
            found += page[MEMBERS[path]]
            if "windowing" not in page or (windowing.get("by") == "created_at" and not page["count"]):
                return found
            following = page["windowing"]
            windowing = following if is_verbatim else {**body["windowing"], "next": following["next"]}
            self.clock.advance(wait_s)
        raise AssertionError("the walk has no end")


@pytest.fixture(scope="module")
def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[Api]:
    configured, clock = chdb_settings(), ManualClock()
    with asyncio.Runner() as runner:
        runner.run(migrate(configured, data_dir=chdb_dir))
        store = open_store(configured, data_dir=chdb_dir)
        runner.run(store_record(store, [span(number) for number in range(SPANS_COUNT)], offset=5))
        runner.run(settle(store, offset=5))
        served = serving(context_of(store=store, clock=clock))
        yield Api(runner, runner.run(served.__aenter__()), clock)
        runner.run(served.__aexit__(None, None, None))
        runner.run(store.close())


@pytest.fixture
def at_start(api: Api) -> Api:
    """The API 30 seconds after the start of the first span."""
    set_clock(api)
    return api


def set_clock(api: Api) -> None:
    api.clock.advance((START_US + 30 * SECOND_US - api.now_us) // SECOND_US)


def absolute(value: Any, now_us: int) -> Any:
    """Return a body with the times that its relative times mean."""
    if isinstance(value, dict):
        return {name: absolute(member, now_us) for name, member in value.items()}
    if isinstance(value, list):
        return [absolute(member, now_us) for member in value]
    return format_us(now_us - AGO_S[value] * SECOND_US) if isinstance(value, str) and value in AGO_S else value


RELATIVE = st.sampled_from(list(AGO_S))
BOUNDS = st.fixed_dictionaries({}, optional={"oldest": RELATIVE, "newest": RELATIVE})
CONDITIONS = st.one_of(
    st.builds(
        lambda field, operator, value: {"field": field, "operator": operator, "value": value},
        st.sampled_from(["start_time", "end_time"]),
        st.sampled_from(["is", "is_not", "eq", "neq", "gt", "gte", "lt", "lte"]),
        RELATIVE,
    ),
    st.builds(
        lambda operator, values: {"field": "start_time", "operator": operator, "value": values},
        st.sampled_from(["btwn", "in", "not_in"]),
        st.lists(RELATIVE, min_size=2, max_size=2),
    ),
)
FILTERS = st.builds(
    lambda operator, conditions: {"operator": operator, "conditions": conditions},
    st.sampled_from(["and", "or", "nor"]),
    st.lists(CONDITIONS, max_size=2),
)


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.sampled_from([*MEMBERS, "feed"]),
    BOUNDS,
    FILTERS,
    st.sampled_from(["ascending", "descending"]),
    st.integers(3, 9),
    st.lists(st.integers(0, 20), min_size=1, max_size=4),
    st.booleans(),
)
def test_walk_has_the_times_of_its_first_page(
    api: Api, path: str, bounds: Any, filtering: Any, order: str, limit: int, waits_s: list[int], is_verbatim: bool
) -> None:
    set_clock(api)
    windowing: dict[str, Any] = {**bounds, "order": order, "limit": limit}
    if path == "feed":
        path, windowing = "/spans/query", {**bounds, "by": "created_at", "limit": limit}
    body = {"filtering": filtering, "windowing": windowing}
    whole = absolute(body, api.now_us)
    whole["windowing"]["limit"] = 1_000

    found = api.walk(path, body, waits_s=waits_s, is_verbatim=is_verbatim and path == "/spans/sessions/query")

    assert found == api.walk(path, whole, waits_s=[])


def test_relative_bounds_follow_the_clock_from_walk_to_walk(at_start: Api) -> None:
    body = {"windowing": {"oldest": "-10s"}}

    first = at_start.walk("/spans/query", body, waits_s=[])
    at_start.clock.advance(3)
    second = at_start.walk("/spans/query", body, waits_s=[])

    names = [[shown["span_name"] for shown in found] for found in (first, second)]
    assert names == [[f"s{number}" for number in range(39, last - 1, -1)] for last in (20, 23)]


@pytest.mark.parametrize("path", list(MEMBERS))
def test_cursor_belongs_to_the_text_of_a_relative_time(at_start: Api, path: str) -> None:
    windowing = {"oldest": "-30s", "limit": 2}
    condition = {"field": "start_time", "operator": "gte", "value": "-30s"}
    body = {"windowing": windowing, "filtering": {"conditions": [condition]}}
    following = at_start.post(path, body)["windowing"]["next"]
    resolved = absolute("-30s", at_start.now_us)

    for oldest in ("-15s", resolved):
        other = {**body, "windowing": {**windowing, "oldest": oldest, "next": following}}
        assert "another query" in at_start.post(path, other, status=400)["detail"]
    changed = {"conditions": [{**condition, "value": resolved}]}
    other = {"filtering": changed, "windowing": {**windowing, "next": following}}
    assert "another query" in at_start.post(path, other, status=400)["detail"]


def test_cursor_that_is_an_id_needs_absolute_times(at_start: Api) -> None:
    windowing = {"oldest": "-30s", "newest": absolute("-3s", at_start.now_us), "next": "0" * 32}

    refused = at_start.post("/spans/query", {"windowing": windowing}, status=400)

    assert refused["detail"] == ("windowing.next is an id, which carries no time of a first page: give absolute times.")


ALLOWED = "allowed: now, or a time before now with a unit of s m h d w, such as -15m."


@pytest.mark.parametrize(
    "path", [*MEMBERS, "/spans/analytics/query", "/tracing/spans/analytics", "/spans/groups/query"]
)
def test_malformed_relative_bound_is_refused(at_start: Api, path: str) -> None:
    for text in ("-15y", "-15 m", "now-15m", "NOW", "-1.5h", "-1000000000s", "-999999999w"):
        refused = at_start.post(path, {"windowing": {"oldest": text}}, status=400)

        assert refused["detail"] == f"windowing.oldest: '{text}' is not a relative time; {ALLOWED}"


def test_malformed_relative_time_in_a_condition_is_refused(at_start: Api) -> None:
    condition = {"field": "start_time", "operator": "in", "value": ["now", "-15y"]}

    refused = at_start.post("/spans/query", {"filtering": {"conditions": [condition]}}, status=400)

    assert refused["detail"].startswith("filtering.conditions[0].value[1]: Timestamp “-15y” cannot be read: allowed")
    assert refused["detail"].endswith(f"also {ALLOWED}")


def test_flat_routes_take_relative_times(at_start: Api) -> None:
    condition = {"field": "start_time", "operator": "lt", "value": "-3s"}
    body = {"focus": "span", "oldest": "-10s", "filter": {"conditions": [condition]}, "limit": 4}
    names = []
    for _ in range(2):
        page = at_start.post("/tracing/spans/query", body)
        names += [shown["span_name"] for shown in page["spans"]]
        body["next"] = page.get("windowing", {}).get("next")
        at_start.clock.advance(5)

    assert names == [f"s{number}" for number in range(26, 19, -1)]
    refused = at_start.post("/tracing/spans/query", {"oldest": "-1y"}, status=400)
    assert refused["detail"] == f"oldest: '-1y' is not a relative time; {ALLOWED}"


@pytest.mark.parametrize(
    "window", [{"oldest": "-10s", "newest": "now"}, {"windowing": {"oldest": "-10s", "newest": "now"}}]
)
def test_analytics_take_relative_times(at_start: Api, window: dict[str, Any]) -> None:
    condition = {"field": "start_time", "operator": "gte", "value": "-3s"}
    body = {"focus": "span", "filtering": {"conditions": [condition]}, **window}

    counts = at_start.post("/tracing/spans/analytics", body)
    metrics = at_start.post("/spans/analytics/query", body)

    assert [bucket["total"]["count"] for bucket in counts["buckets"]] == [3]
    assert metrics["query"]["windowing"]["oldest"] == absolute("-10s", at_start.now_us)
    assert metrics["query"]["filtering"]["conditions"] == [condition]


def test_groups_take_relative_times(at_start: Api) -> None:
    condition = {"field": "start_time", "operator": "gte", "value": "-3s"}
    window = {"oldest": "-10s", "newest": "now"}

    counts = [
        at_start.post("/spans/groups/query", body)["groups"][0]["values"]["count"]
        for body in ({"windowing": window}, {"windowing": window, "filtering": {"conditions": [condition]}})
    ]

    assert counts == [10, 3]


@pytest.mark.parametrize(("path", "count"), [("/spans/query", 10), ("/traces/query", 5)])
def test_rankings_take_relative_times(at_start: Api, path: str, count: int) -> None:
    condition = {"field": "start_time", "operator": "lt", "value": "now"}
    windowing = {"oldest": "-10s", "sort": {"by": "duration"}}

    page = at_start.post(path, {"windowing": windowing, "filtering": {"conditions": [condition]}})

    assert page["count"] == count


def test_facets_take_relative_times(at_start: Api) -> None:
    condition = {"field": "start_time", "operator": "gte", "value": "-3s"}
    body = {"windowing": {"newest": "now"}, "filtering": {"conditions": [condition]}, "keys": ["ag.session.id"]}

    [facet] = at_start.post("/spans/facets/query", body)["facets"]

    assert facet["values"] == [{"value": "session 9", "count": 3}]


def test_explain_shows_the_times_that_were_compared(at_start: Api) -> None:
    condition = {"field": "start_time", "operator": "gte", "value": "-3s"}

    page = at_start.post("/spans/query", {"filtering": {"conditions": [condition]}, "explain": True})

    assert page["count"] == 13
    assert page["explain"]["statements"][0]["parameters"]["p1"] == at_start.now_us - 3 * SECOND_US


def test_feed_begins_and_stays_at_the_times_of_its_first_page(at_start: Api) -> None:
    windowing = {"by": "created_at", "oldest": "-10s", "newest": "now", "limit": 5}
    found = at_start.walk("/spans/query", {"windowing": windowing}, waits_s=[20, 20])

    assert [shown["span_name"] for shown in found] == [f"s{number}" for number in range(21, 31)]
