"""``POST /traces/query`` by ``settled_at``: order, cursor, filter, bounds, waiting, limits (contract §3.6, ADR 0049)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson
import pytest
from multidict import CIMultiDict

from common.clickhouse.store import ColumnStore
from common.errors import DeadlineExceeded, InvalidCursor, InvalidInput
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.pool import Database
from query_api.analytics.groups_models import GroupsQuery
from query_api.pages.spans import SpansQuery
from query_api.pages.trace_search import FoundTrace
from query_api.pages.traces import Trace, TracesInProgress, TracesQuery
from query_api.queries.saved import query_groups, query_spans, query_summaries, query_traces
from query_api.request.json_body import read_body
from query_api.request.route import Request
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans
from tests.support.settling import START_NS, SettlingWorld, span_in
from tests.support.span_pages import SpanPages

OTHER = UUID(int=77)
LARGE = {"text": "x" * 20_000}


@pytest.fixture
def world(store: ColumnStore, database: Database) -> SettlingWorld:
    return SettlingWorld(store, database)


class SettledReader:
    """Reads the feed of one project from page to page."""

    def __init__(self, world: SettlingWorld, *, project_id: UUID = DEFAULT_PROJECT_ID, **settings: Any) -> None:
        context = SpanPages.over(world.store, **settings).context
        self.context = replace(context, database=world.database)
        self.project_id = project_id
        self.next: str | None = None

    async def ask(self, handler: Any = query_traces, kind: Any = TracesQuery, **body: Any) -> dict[str, Any]:
        query = read_body(kind, json.dumps(body).encode(), content_type=None, required=False)
        response = await handler(Request(self.context, self.project_id, {}, None, query, CIMultiDict()))
        answer: dict[str, Any] = orjson.loads(response.body)
        return answer

    async def page(self, *, windowing: Mapping[str, Any] | None = None, **body: Any) -> dict[str, Any]:
        """The next page; remembers where it ends."""
        at = {} if self.next is None else {"next": self.next}
        answer = await self.ask(**body, windowing={"by": "settled_at", **at, **(windowing or {})})
        assert answer["count"] == len(answer["traces"])
        self.next = answer["windowing"]["next"]
        return answer

    async def rest(self, **body: Any) -> list[tuple[int, int, str, int]]:
        """From here to the end: trace, generation, reason and number of spans."""
        seen: list[tuple[int, int, str, int]] = []
        while (page := await self.page(**body))["count"] or "complete" in page:
            seen += [shown(trace) for trace in page["traces"]]
        return seen


def shown(trace: dict[str, Any]) -> tuple[int, int, str, int]:
    settled = trace["settled"]
    return int(trace["trace_id"], 16), settled["generation"], settled["reason"], spans_count(trace)


def spans_count(node: dict[str, Any]) -> int:
    """How many spans are below."""
    count = 0
    for child in node.get("spans", {}).values():
        for each in child if isinstance(child, list) else [child]:
            count += 1 + spans_count(each)
    return count


async def test_each_trace_comes_whole_and_once_for_each_time_it_settled(world: SettlingWorld) -> None:
    reader = SettledReader(world)
    assert (await reader.page())["traces"] == []
    await world.send(span_in(1, 1), span_in(1, 2, 1), span_in(2, 1))
    await world.run(31.0)
    assert await reader.rest() == [(1, 1, "complete", 2), (2, 1, "complete", 1)]
    assert await reader.rest() == []
    await world.send(span_in(1, 3, 1), span_in(3, 1, 9))
    await world.run(31.0)
    assert await reader.rest() == [(1, 2, "complete", 3)]
    await world.run(900.0)
    assert await reader.rest() == [(3, 1, "incomplete", 1)]


async def test_trace_has_the_members_of_settling_and_of_other_pages(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(31.0)
    reader = SettledReader(world)
    [trace] = (await reader.page())["traces"]
    settled = trace.pop("settled")
    assert settled == {"at": settled["at"], "reason": "complete", "generation": 1}
    assert settled["at"].startswith("2025-10-09T08:53:51")
    assert [trace] == (await reader.ask())["traces"]


async def test_late_reader_sees_the_last_settling_alone(world: SettlingWorld) -> None:
    for number in range(3):
        await world.send(span_in(1, number + 1, 1 if number else None))
        await world.run(31.0)
    assert await SettledReader(world).rest() == [(1, 3, "complete", 3)]


async def test_run_that_is_not_inserted_yet_is_not_shown(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(31.0)
    await world.database.fetch_all("UPDATE settling SET pending = 'x'")
    reader = SettledReader(world)
    assert await reader.rest() == []
    await world.database.fetch_all("UPDATE settling SET pending = NULL")
    assert await reader.rest() == [(1, 1, "complete", 1)]


async def test_deleted_trace_is_silent(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1), span_in(2, 1))
    await world.run(31.0)
    spans = ProjectSpans(world.store, DEFAULT_PROJECT_ID, clock=world.clock, budget_s=60.0)
    await delete_trace(spans, (1).to_bytes(16, "big"))
    assert await SettledReader(world).rest() == [(2, 1, "complete", 1)]


async def test_filter_bounds_and_sample_choose_traces(world: SettlingWorld) -> None:
    late = START_NS + 60_000_000_000
    await world.send(span_in(1, 1, name="a"), span_in(1, 2, 1, name="b", start_ns=late), span_in(2, 1, name="a"))
    await world.run(31.0)
    named = {"conditions": [{"field": "span_name", "value": "b"}]}
    assert await SettledReader(world).rest(filtering=named) == [(1, 1, "complete", 2)]
    bounds = {"oldest": "2025-10-09T08:54:00Z"}
    page = await SettledReader(world).page(windowing=bounds)
    assert [shown(trace)[0] for trace in page["traces"]] == [1]
    page = await SettledReader(world).page(windowing={**bounds, "newest": "2025-10-09T08:54:01Z"})
    assert page["traces"] == []
    page = await SettledReader(world).page(windowing={"rate": 0.0})
    assert page["traces"] == []


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_of_any_size_hold_every_trace_once(world: SettlingWorld, limit: int) -> None:
    source = random.Random(limit)
    sent = [
        span_in(trace, span, 1 if span > 1 else None, name=source.choice("ab"))
        for trace in range(1, 21)
        for span in range(1, 4)
    ]
    for span in sent:
        await world.send(span, partition_id=f"cluster/spans/{source.randrange(3)}")
    await world.run(31.0)
    for filtering in ({}, {"conditions": [{"field": "span_name", "value": "a"}]}):
        reader, seen = SettledReader(world), []
        while (page := await reader.page(windowing={"limit": limit}, filtering=filtering))["count"]:
            assert page["count"] <= limit
            seen += [shown(trace)[0] for trace in page["traces"]]
        expected = {int.from_bytes(span.trace_id, "big") for span in sent if not filtering or span.name == "a"}
        assert seen == sorted(expected)


async def test_page_ends_at_its_bytes_and_a_large_trace_fits_alone(world: SettlingWorld) -> None:
    await world.send(*(span_in(trace, span, 1 if span > 1 else None) for trace in (1, 2) for span in range(1, 30)))
    await world.run(31.0)
    reader = SettledReader(world, page_bytes_max=1_000)
    assert [len((await reader.page())["traces"]) for _ in range(3)] == [1, 1, 0]


async def test_feed_begins_where_from_says(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(31.0)
    [first] = (await SettledReader(world).page())["traces"]
    now = SettledReader(world)
    assert (await now.page(windowing={"from": "now"}))["traces"] == []
    await world.send(span_in(2, 1))
    await world.run(31.0)
    assert await now.rest() == [(2, 1, "complete", 1)]
    later = await SettledReader(world).page(windowing={"from": first["settled"]["at"]})
    assert [shown(trace)[0] for trace in later["traces"]] == [2]
    assert (await SettledReader(world).page(windowing={"from": "2100-01-01T00:00:00Z"}))["traces"] == []


async def test_request_waits_until_a_trace_settles(world: SettlingWorld) -> None:
    reader = SettledReader(world)
    await reader.page()
    waiting = asyncio.create_task(reader.page(windowing={"wait_s": 30}))
    await world.send(span_in(1, 1))
    await world.run(31.0)
    assert [shown(trace) for trace in (await waiting)["traces"]] == [(1, 1, "complete", 1)]
    assert (await reader.page(windowing={"wait_s": 0.1}))["traces"] == []


async def test_projects_do_not_see_each_other(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.send(span_in(1, 1), span_in(1, 2, 1), project_id=OTHER)
    await world.run(31.0)
    assert await SettledReader(world).rest() == [(1, 1, "complete", 1)]
    assert await SettledReader(world, project_id=OTHER).rest() == [(1, 1, "complete", 2)]


@pytest.mark.parametrize(
    "windowing",
    [
        {"order": "descending"},
        {"sort": {"by": "cost"}},
        {"next": "x" * 60},
    ],
)
async def test_what_the_feed_does_not_take_is_refused(world: SettlingWorld, windowing: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, InvalidCursor)):
        await SettledReader(world).page(windowing=windowing)


async def test_cursor_belongs_to_its_query(world: SettlingWorld) -> None:
    reader = SettledReader(world)
    await reader.page()
    for body in ({"filtering": {"conditions": [{"field": "span_name", "value": "b"}]}}, {"windowing": {"rate": 0.5}}):
        with pytest.raises(InvalidCursor):
            await reader.page(**body)
    with pytest.raises(InvalidCursor):
        await reader.ask(windowing={"next": reader.next})
    reader.project_id = OTHER
    with pytest.raises(InvalidCursor):
        await reader.page()


@pytest.mark.parametrize(("handler", "kind"), [(query_spans, SpansQuery), (query_summaries, TracesQuery)])
async def test_other_routes_have_no_such_feed(world: SettlingWorld, handler: Any, kind: Any) -> None:
    with pytest.raises(InvalidInput, match="settled_at"):
        await SettledReader(world).ask(handler, kind, windowing={"by": "settled_at"})


async def test_large_trace_and_many_partitions(world: SettlingWorld) -> None:
    for part in range(10):
        spans = [
            span_in(1, number, number - 1 if number > 1 else None)
            for number in range(part * 1_000 + 1, part * 1_000 + 1_001)
        ]
        await world.send(*spans, partition_id=f"cluster/spans/{part}")
    await world.run(31.0)
    [(trace, generation, reason, _)] = await SettledReader(world).rest()
    assert (trace, generation, reason) == (1, 1, "complete")


async def test_trace_that_is_too_large_is_a_page_of_its_own_without_spans(
    world: SettlingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("query_api.pages.settled_feed.SPANS_PER_READ", 1)  # each trace is read alone, as large ones are
    large = [span_in(2, number, 1 if number > 1 else None)._replace(attributes=LARGE) for number in range(1, 5)]
    await world.send(span_in(1, 1), *large, span_in(3, 1), span_in(4, 1))
    await world.run(31.0)

    reader = SettledReader(world, trace_bytes_max=50_000)
    pages = [await reader.page() for _ in range(4)]

    assert [[shown(trace) for trace in page["traces"]] for page in pages] == [
        [(1, 1, "complete", 1)],
        [(2, 1, "complete", 0)],
        [(3, 1, "complete", 1), (4, 1, "complete", 1)],
        [],
    ]
    assert [trace.get("spans_left_out") for page in pages for trace in page["traces"]] == [None, 4, None, None]


async def test_budget_that_ends_inside_a_page_returns_no_generation_twice(
    world: SettlingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.send(span_in(1, 1), span_in(2, 1), span_in(3, 1))
    await world.run(31.0)
    taking = TracesInProgress._read
    is_failing = True

    async def read(page: TracesInProgress, part: Sequence[FoundTrace]) -> list[Trace] | None:
        if len(part) > 1:
            return None
        if is_failing and part[0].position.trace_id == (2).to_bytes(16, "big"):
            raise DeadlineExceeded("The budget is used up.")
        return await taking(page, part)

    monkeypatch.setattr(TracesInProgress, "_read", read)
    reader = SettledReader(world)
    first = await reader.page()
    with pytest.raises(DeadlineExceeded):
        await reader.page()
    is_failing = False

    assert ([shown(trace) for trace in first["traces"]], first["complete"]) == ([(1, 1, "complete", 1)], False)
    assert await reader.rest() == [(2, 1, "complete", 1), (3, 1, "complete", 1)]


async def test_explanation_names_the_statements(world: SettlingWorld) -> None:
    await world.send(span_in(1, 1))
    await world.run(31.0)
    named = {"conditions": [{"field": "span_name", "value": "s"}]}
    page = await SettledReader(world).page(filtering=named, explain=True)
    steps = [statement["step"] for statement in page["explain"]["statements"]]
    assert {"settled traces", "last settlings", "latest versions", "spans that match"} <= set(steps)


COUNTED: Final = {
    "group_by": [{"field": "settled"}],
    "measures": [{"of": "count"}],
    "windowing": {"oldest": "2000-01-01T00:00:00Z"},
}


async def test_spans_are_found_by_how_their_trace_settled(world: SettlingWorld) -> None:
    await check_spans_are_found_by_how_their_trace_settled(world)


async def check_spans_are_found_by_how_their_trace_settled(world: SettlingWorld) -> None:
    """All spans of a trace are. A trace that changes keeps how it settled until it settles again."""
    await world.send(span_in(1, 1), span_in(1, 2, 1), span_in(2, 1))
    await world.send(span_in(3, 3, 9), span_in(4, 3, 9), project_id=DEFAULT_PROJECT_ID)
    await world.send(span_in(1, 3, 9), project_id=OTHER)
    await world.run(31.0)
    await world.run(900.0)
    await world.send(span_in(5, 1), span_in(1, 4, 9), span_in(4, 9))
    await world.run()
    pages = SpanPages(SettledReader(world).context)

    async def traces(operator: str, value: object = None) -> list[int]:
        condition = {"field": "settled", "operator": operator, "value": value}
        page = await pages.page(filtering={"conditions": [condition]})
        return sorted(int(span["trace_id"], 16) for span in page["spans"])

    assert await traces("is", "complete") == [1, 1, 1, 2]
    assert await traces("is", "incomplete") == [3, 4, 4]
    assert await traces("not_exists") == [5]
    await world.run(31.0)
    assert await traces("is", "complete") == [1, 1, 1, 2, 4, 4, 5]
    groups = await SettledReader(world).ask(query_groups, GroupsQuery, **COUNTED)
    assert {group["by"]["settled"]: group["values"]["count"] for group in groups["groups"]} == {
        "complete": 7,
        "incomplete": 1,
    }
    found = await SettledReader(world).page(
        filtering={"conditions": [{"field": "settled", "operator": "is", "value": "incomplete"}]}
    )
    assert [int(trace["trace_id"], 16) for trace in found["traces"]] == [3]
