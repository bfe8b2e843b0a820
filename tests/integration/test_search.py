"""Spans found over the real engine: pages, versions, windows, routes; by the handlers, as the API calls them."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
import pytest
from multidict import CIMultiDict, MultiDict

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.select import Table
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded, InvalidCursor, InvalidFilter, InvalidInput
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings, QuerySettings
from common.span import Event, Link, Resource, Scope, Span
from common.span_version import version_of
from common.times import SystemClock, format_us
from query_api.pages import by_ids
from query_api.pages import traces as traces_routes
from query_api.pages.by_ids import SpanIds
from query_api.pages.spans import SpansQuery
from query_api.pages.traces import TraceIds
from query_api.queries.saved import query_spans
from query_api.request.context import ApiContext
from query_api.request.errors import InvalidRequest, response_of
from query_api.request.json_body import read_body, read_query
from query_api.request.route import Request, Response
from tests.support.api import PATIENT, context_of
from tests.support.scale import rest_is_long
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, STORED_US, random_span, store_record

START = format_us(START_NS // 1000)


@dataclass(frozen=True)
class Api:
    """The routes of spans and traces, over a separate store."""

    context: ApiContext
    project_id: UUID = DEFAULT_PROJECT_ID

    @property
    def store(self) -> ColumnStore:
        return self.context.store

    def of(self, project_id: UUID) -> Api:
        return replace(self, project_id=project_id)

    def with_query_settings(self, **changed: Any) -> Api:
        settings = self.context.settings.model_copy(
            update={"query": QuerySettings(**{**PATIENT.model_dump(), **changed})}
        )
        return replace(self, context=replace(self.context, settings=settings))

    async def query(self, **body: Any) -> dict[str, Any]:
        model = read_body(SpansQuery, json.dumps(body).encode(), content_type=None, required=False)
        return _object(await query_spans(self._call(body=model)))

    async def ids(self, **body: Any) -> list[int]:
        return [int(span["span_id"], 16) for span in (await self.query(**body))["spans"]]

    async def list_spans(self, *query: tuple[str, str]) -> dict[str, Any]:
        model = read_query(SpanIds, MultiDict(query))
        return _object(await by_ids.list_spans(self._call(query=model)))

    async def span(self, trace_id: str, span_id: str) -> dict[str, Any]:
        request = self._call(path={"trace_id": trace_id, "span_id": span_id})
        return _object(await by_ids.get_span(request))

    async def trace(self, trace_id: str) -> dict[str, Any]:
        return _object(await traces_routes.get_trace(self._call(path={"trace_id": trace_id})))

    async def list_traces(self, *query: tuple[str, str]) -> dict[str, Any]:
        model = read_query(TraceIds, MultiDict(query))
        return _object(await traces_routes.list_traces(self._call(query=model)))

    async def read_pages(self, *, limit: int, **windowing: Any) -> list[tuple[str, str]]:
        """Return the spans of all pages, in order."""
        found: list[tuple[str, str]] = []
        following: dict[str, Any] = {}
        while True:
            page = await self.query(windowing={**windowing, "limit": limit, **following})
            assert page["count"] == len(page["spans"]) <= limit
            found += [(span["trace_id"], span["span_id"]) for span in page["spans"]]
            if "windowing" not in page:
                return found
            assert page["count"] > 0
            following = page["windowing"]

    def _call(self, *, path: dict[str, str] | None = None, query: Any = None, body: Any = None) -> Request:
        return Request(self.context, self.project_id, path or {}, query, body, CIMultiDict())


def _object(response: Response) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(response.body)
    return loaded


@pytest.fixture
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Api]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    yield Api(context_of(store=store, clock=SystemClock()))
    await store.close()


def span(number: int, *, trace: int = 1, parent: int | None = None, start_us: int = 0, **members: Any) -> Span:
    start_ns = START_NS + start_us * 1000
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big") * 2,
        parent_id=None if parent is None else parent.to_bytes(8, "big") * 2,
        start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
        **{"name": f"s{number}", "kind": 1, "status_code": 0, "status_message": None, "attributes": {}, **members},
    )


def hex_ids(spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.trace_id.hex(), span.span_id.hex()[16:]) for span in spans]


async def delete(store: ColumnStore, deleted: Span, *, partition_id: str, offset: int) -> None:
    sql = (
        f"INSERT INTO {Table.VERSIONS} (project_id, trace_id, span_id, partition_id, version, record_ms, start_us) "
        f"SELECT project_id, trace_id, span_id, partition_id, version + 1, record_ms, start_us FROM {Table.VERSIONS} "
        "WHERE project_id = {project:UUID} AND trace_id = unhex({trace:String}) AND span_id = unhex({span:String})"
        " AND partition_id = {partition_id:String} AND version = {version:UInt64} LIMIT 1"
    )
    values = {
        "trace": deleted.trace_id.hex(),
        "span": deleted.span_id.hex(),
        "partition_id": partition_id,
        "version": version_of(offset),
    }
    await store.execute(Statement(sql, {**values, "project": str(DEFAULT_PROJECT_ID)}), deadline_s=60.0)


async def test_project_without_spans_has_an_empty_page(api: Api) -> None:
    assert await api.query() == {"count": 0, "spans": []}


async def test_span_is_returned_with_all_its_members(api: Api) -> None:
    whole = span(
        2,
        parent=1,
        status_message='it\'s "so"',
        status_code=2,
        attributes={"a.b": 2**63, "ag.data.outputs": {"__default__": [1]}},
        events=(Event("e", START_NS + 1, {"k.l": None}),),
        links=(Link(b"\x01" * 16, b"\x02" * 16, {}),),
        trace_state="a=b",
        flags=1,
        dropped_events_count=3,
        resource=Resource({"service": {"name": "x"}}),
        scope=Scope("lib", "1"),
        session_id="é",
    )
    await store_record(api.store, [whole])

    [found] = (await api.query())["spans"]

    assert found == {
        "created_at": format_us(STORED_US),
        "trace_id": "0" * 31 + "1",
        "span_id": "0000000000000002",
        "parent_id": "0000000000000001",
        "trace_type": "annotation",
        "span_type": "task",
        "span_kind": "SPAN_KIND_INTERNAL",
        "span_name": "s2",
        "start_time": START,
        "end_time": format_us(START_NS // 1000 + 1000),
        "start_time_unix_nano": str(START_NS),
        "end_time_unix_nano": str(START_NS + 1_000_000),
        "status_code": "STATUS_CODE_ERROR",
        "status_message": 'it\'s "so"',
        "session_id": "é",
        "attributes": {
            "a": {"b": 2**63},
            "ag": {
                "type": {"trace": "annotation"},
                "data": {"outputs": [1]},
                "metrics": {"duration": {"cumulative": 1}, "errors": {"incremental": 0}, "tokens": {}, "costs": {}},
            },
        },
        "events": [{"name": "e", "timestamp": START, "time_unix_nano": str(START_NS + 1), "attributes": {"k.l": None}}],
        "links": [{"trace_id": "01" * 16, "span_id": "02" * 8}],
        "trace_state": "a=b",
        "flags": 1,
        "dropped_events_count": 3,
        "resource": {"attributes": {"service": {"name": "x"}}},
        "scope": {"name": "lib", "version": "1"},
    }


async def test_root_has_the_sums_of_its_trace(api: Api) -> None:
    used = {"ag.metrics.tokens.incremental.total": 5, "ag.metrics.costs.incremental.prompt": 0.5}
    await store_record(api.store, [span(2, parent=1, attributes=used), span(3, parent=1, attributes=used)])
    await store_record(api.store, [span(1, attributes=used)], offset=1)
    await store_record(api.store, [span(3, parent=1, attributes=used)], offset=2)  # sent again: counted once

    root = (await api.span("0" * 31 + "1", "0000000000000001"))["span"]

    metrics = root["attributes"]["ag"]["metrics"]
    assert metrics["tokens"]["cumulative"] == {"total": 15}
    assert metrics["costs"]["cumulative"] == {"prompt": 1.5, "total": 1.5}


async def test_deleted_span_is_not_returned_after_a_merge(api: Api) -> None:
    """After the merge only its deletion is left in ``span_versions``."""
    await store_record(api.store, [span(1), span(2)])
    await delete(api.store, span(1), partition_id="cluster/spans/0", offset=0)
    await api.store.execute(Statement("OPTIMIZE TABLE span_versions FINAL"), deadline_s=60.0)

    assert await api.ids() == [2]


async def test_root_keeps_its_sums_when_a_later_round_sees_its_trace(api: Api) -> None:
    used = {"ag.metrics.tokens.incremental.total": 5}
    for number in range(40):  # versions that fill the first rounds between the root and its last child
        resent = span(3, parent=1, start_us=10 + number, attributes=used)
        await store_record(api.store, [resent], partition_id=f"cluster/spans/{number}", record_ms=number)
    last = span(4, parent=1, start_us=99, attributes=used)
    another_root = span(9, trace=2, start_us=100)
    await store_record(api.store, [span(1), last, another_root], offset=1)

    page = await api.query(windowing={"order": "ascending", "limit": 3})

    assert [span["span_name"] for span in page["spans"]] == ["s1", "s3", "s4"]
    assert page["spans"][0]["attributes"]["ag"]["metrics"]["tokens"]["cumulative"]["total"] == 10


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ({"a": "foo=sbar", "b": 1}, "foo=sbar"),  # its item in the index is also that of a="bar" under "a=sfoo"
        ({"a": "x" * 62}, "x" * 62),
        ({"a": "x" * 63}, "x" * 63),  # with its type as long as an item's text can be
        ({"a": "é" * 31 + "x"}, "é" * 31 + "x"),
    ],
)
async def test_text_with_the_same_index_item_is_not_found(api: Api, stored: dict[str, Any], value: str) -> None:
    others: list[dict[str, Any]] = [{"a=sfoo": "bar"}, {"a": value + "y"}, {"a": value[:-1]}, {"b": value}]
    await store_record(api.store, [span(1, attributes=stored)])
    await store_record(api.store, [span(2 + i, attributes=other) for i, other in enumerate(others)], offset=1)

    condition = {"field": "attributes", "key": "a", "operator": "is", "value": value}

    assert await api.ids(filtering={"conditions": [condition]}) == [1]
    assert await api.ids(filtering={"operator": "not", "conditions": [condition]}) == [5, 4, 3, 2]


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_pages_return_every_span_exactly_once(api: Api, order: str) -> None:
    """200 spans of one instant at page size 7: unmerged duplicates, versions whose start moved, other partitions, deletions."""
    source = random.Random(11)
    visible = [span(1 + number % 61, trace=1 + number // 61) for number in range(200)]
    moved = [replace_start(span, source.choice((-5, 0, 3))) for span in visible[:60]]
    gone = visible[194:]
    await store_record(api.store, moved, offset=0)
    await store_record(api.store, visible, offset=1)
    await store_record(api.store, visible, offset=1)
    await store_record(api.store, moved[:40], partition_id="cluster/spans/1", offset=99, record_ms=0)
    await store_record(api.store, [span(9, trace=99)], project_id=OTHER_PROJECT_ID)
    for deleted in gone:
        await delete(api.store, deleted, partition_id="cluster/spans/0", offset=1)

    found = await api.read_pages(limit=7, order=order)

    expected = sorted(hex_ids(visible[:194]), key=lambda key: (key[1], key[0]), reverse=order == "descending")
    assert Counter(found).most_common(1)[0][1] == 1
    assert found == expected


def replace_start(moved: Span, by_us: int) -> Span:
    return moved._replace(start_ns=moved.start_ns + by_us * 1000)


@pytest.mark.parametrize("limit", rest_is_long([7, 1, 3, 50]))
async def test_pages_of_any_size_agree_while_others_ingest(api: Api, limit: int) -> None:
    source = random.Random(limit)
    stored = [random_span(source, number) for number in range(60)]
    await store_record(api.store, stored)
    page = await api.query(windowing={"limit": limit, "order": "ascending"})
    await store_record(api.store, [span(7_000, start_us=-10), span(7_001, start_us=10_000_000)], offset=5)

    found = [(span["trace_id"], span["span_id"]) for span in page["spans"]]
    while "windowing" in page:
        page = await api.query(windowing={"limit": limit, "order": "ascending", **page["windowing"]})
        found += [(span["trace_id"], span["span_id"]) for span in page["spans"]]

    assert [key for key in found if key[1] not in ("0000000000001b58", "0000000000001b59")] == hex_ids(
        sorted(stored, key=lambda span: (span.start_ns // 1000, span.span_id, span.trace_id))
    )


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_span_with_more_versions_than_a_round_is_returned(api: Api, order: str) -> None:
    await store_record(api.store, [span(1), span(3)])
    for number in range(40):
        await store_record(api.store, [span(2)], partition_id=f"cluster/spans/{number}", record_ms=number * 7 % 41)

    found = await api.read_pages(limit=1, order=order)

    assert found == hex_ids([span(1), span(2), span(3)])[:: 1 if order == "ascending" else -1]


async def test_the_reference_cursor_is_accepted_with_its_bound(api: Api) -> None:
    await store_record(api.store, [span(number, start_us=number // 3) for number in range(1, 10)])
    found: list[int] = []
    windowing: dict[str, Any] = {"limit": 2}
    while page := await api.query(windowing=windowing):
        found += [int(span["span_id"], 16) for span in page["spans"]]
        if page["count"] < 2:
            break
        last = page["spans"][-1]
        windowing = {"limit": 2, "newest": last["start_time"], "next": str(UUID(last["span_id"] * 2))}

    assert found == [9, 8, 7, 6, 5, 4, 3, 2, 1]


async def test_pages_after_a_reference_cursor_continue_with_ours(api: Api) -> None:
    await store_record(api.store, [span(number) for number in range(1, 10)])
    windowing = {"limit": 3, "newest": START, "next": str(UUID("0000000000000008" * 2))}

    page = await api.query(windowing=windowing)
    following = await api.query(windowing={**windowing, **page["windowing"]})

    assert [int(span["span_id"], 16) for span in (*page["spans"], *following["spans"])] == [7, 6, 5, 4, 3, 2]


@pytest.mark.parametrize("order", ["ascending", "descending"])
async def test_reference_cursor_without_its_bound_is_rejected(api: Api, order: str) -> None:
    other = "newest" if order == "ascending" else "oldest"

    with pytest.raises(InvalidCursor, match="needs windowing"):
        await api.query(windowing={"order": order, other: START, "next": str(UUID("00000000000000ab" * 2))})


@pytest.mark.parametrize(("order", "found"), [("descending", [3, 2]), ("ascending", [3, 4])])
async def test_bounds_are_half_open_on_the_side_where_pages_begin(api: Api, order: str, found: list[int]) -> None:
    await store_record(api.store, [span(number, start_us=number) for number in range(1, 6)])
    oldest, newest = (format_us(START_NS // 1000 + at) for at in (2, 4))

    assert await api.ids(windowing={"oldest": oldest, "newest": newest, "order": order}) == found


async def test_cursor_is_present_exactly_if_more_can_follow(api: Api) -> None:
    await store_record(api.store, [span(number) for number in range(1, 11)])

    assert "windowing" in await api.query(windowing={"limit": 9})
    assert "windowing" not in await api.query(windowing={"limit": 10})
    assert "windowing" not in await api.query(windowing={"limit": 11})


async def test_page_ends_at_its_bytes_but_has_a_span(api: Api) -> None:
    await store_record(api.store, [span(number, attributes={"x": "y" * 2_000}) for number in range(1, 6)])
    narrow = api.with_query_settings(page_bytes_max=6_000)

    page = await narrow.query()

    assert page["count"] == 2
    assert len(await narrow.read_pages(limit=100)) == 5
    assert len(await api.with_query_settings(page_bytes_max=1_000).read_pages(limit=100)) == 5


async def test_cursor_is_bound_to_its_query_but_not_to_the_limit(api: Api) -> None:
    await store_record(api.store, [span(number) for number in range(1, 6)])
    windowing = (await api.query(windowing={"limit": 2}))["windowing"]
    named = {"conditions": [{"field": "span_name", "operator": "exists"}]}

    assert await api.ids(windowing={**windowing, "limit": 3}) == [3, 2, 1]
    for changed in (
        {"windowing": {**windowing, "order": "ascending"}},
        {"windowing": {**windowing, "oldest": START}},
        {"windowing": {**windowing, "rate": 0.5}},
        {"windowing": windowing, "filtering": named},
    ):
        with pytest.raises(InvalidCursor, match="belongs to another query"):
            await api.query(**changed)
    with pytest.raises(InvalidCursor, match="belongs to another query"):
        await api.of(OTHER_PROJECT_ID).query(windowing=windowing)


async def test_rate_keeps_whole_traces(api: Api) -> None:
    traces = [(number << 96).to_bytes(16, "big") for number in (1, 28, 29, 130, 199)]
    await store_record(api.store, [span(1 + index)._replace(trace_id=trace) for index, trace in enumerate(traces)])

    assert await api.ids(windowing={"rate": 0.29, "order": "ascending"}) == [1]  # int(0.29 × 100) is 28
    assert await api.ids(windowing={"rate": 0.3, "order": "ascending"}) == [1, 2, 3]
    assert await api.ids(windowing={"rate": 0}) == []
    assert len(await api.ids(windowing={"rate": 1})) == 5


async def test_latest_version_within_and_across_partitions_is_returned(api: Api) -> None:
    def named(name: str) -> Span:
        return span(1, name=name)

    await store_record(api.store, [named("first")], offset=5, record_ms=10)
    await store_record(api.store, [named("stale")], offset=4, record_ms=99)
    assert [span["span_name"] for span in (await api.query())["spans"]] == ["first"]

    await store_record(api.store, [named("later log")], partition_id="cluster/spans/1", offset=1, record_ms=11)
    assert [span["span_name"] for span in (await api.query())["spans"]] == ["later log"]

    await delete(api.store, named("x"), partition_id="cluster/spans/1", offset=1)
    assert [span["span_name"] for span in (await api.query())["spans"]] == ["first"]

    await delete(api.store, named("x"), partition_id="cluster/spans/0", offset=5)
    await store_record(api.store, [named("first")], offset=5, record_ms=10)  # delivered again: stays deleted
    assert (await api.query())["count"] == 0

    await store_record(api.store, [named("back")], offset=6, record_ms=12)
    assert [span["span_name"] for span in (await api.query())["spans"]] == ["back"]


async def test_stale_version_that_matches_is_not_returned(api: Api) -> None:
    await store_record(api.store, [span(1, name="old")], offset=1)
    await store_record(api.store, [span(1, name="new")], offset=2)

    assert await api.ids(filtering={"conditions": [{"field": "span_name", "value": "old"}]}) == []


async def test_projects_do_not_see_each_other(api: Api) -> None:
    await store_record(api.store, [span(1)])
    await store_record(api.store, [span(2)], project_id=OTHER_PROJECT_ID)
    other = api.of(OTHER_PROJECT_ID)
    trace_id = "0" * 31 + "1"

    assert await api.ids() == [1]
    assert await other.ids(filtering={"operator": "nor", "conditions": [{"field": "span_name", "value": "x"}]}) == [2]
    assert await other.span(trace_id, "0000000000000001") == {"count": 0}
    assert list((await other.trace(trace_id))["trace"]["spans"]) == ["s2"]


async def test_a_span_replaced_while_it_is_read_is_still_found(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await store_record(api.store, [span(1, name="old")], offset=1)
    select = api.store.select

    async def select_then_replace(statement: Statement, /, *, deadline_s: float) -> pa.Table:
        response = await select(statement, deadline_s=deadline_s)
        monkeypatch.setattr(api.store, "select", select)
        await store_record(api.store, [span(1, name="new")], offset=2)
        return response

    monkeypatch.setattr(api.store, "select", select_then_replace)

    found = await api.span("0" * 31 + "1", "0000000000000001")

    assert found["span"]["span_name"] == "old"


async def test_page_whose_spans_all_vanish_is_incomplete(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await store_record(api.store, [span(number) for number in range(1, 4)])
    select = api.store.select

    async def select_no_rows(statement: Statement, /, *, deadline_s: float) -> pa.Table:
        response = await select(statement, deadline_s=deadline_s)
        return response.slice(0, 0) if "attributes" in statement.sql else response

    with monkeypatch.context() as gone:
        gone.setattr(api.store, "select", select_no_rows)
        page = await api.query(windowing={"limit": 1})

    assert (page["count"], page["complete"]) == (0, False)
    assert await api.ids(windowing=page["windowing"]) == [2, 1]


async def test_spans_by_ids_are_of_both_sets_and_in_order(api: Api) -> None:
    await store_record(api.store, [span(2, start_us=5), span(1, start_us=9), span(1, trace=2), span(3, trace=3)])
    one, two = "0" * 31 + "1", "0" * 31 + "2"

    by_traces = await api.list_spans(("trace_ids", f"{one},{two}"))
    both = await api.list_spans(("trace_id", one), ("trace_id", two), ("span_id", "0000000000000001"))
    by_span = await api.list_spans(("span_ids", "0x0000000000000003"))

    assert [span["span_name"] for span in by_traces["spans"]] == ["s1", "s2", "s1"]
    assert [span["trace_id"] for span in both["spans"]] == [two, one]
    assert [span["span_name"] for span in by_span["spans"]] == ["s3"]
    assert await api.list_spans(("trace_id", "ff" * 16)) == {"count": 0, "spans": []}


async def test_invalid_ids_are_rejected(api: Api) -> None:
    with pytest.raises(InvalidInput, match="At least one trace_id or span_id query parameter is required"):
        await api.list_spans()
    with pytest.raises(InvalidInput, match="“xyz” is not a span id"):
        await api.list_spans(("span_id", "xyz"))
    with pytest.raises(InvalidInput, match="is not a trace id"):
        await api.span("xyz", "0000000000000001")
    with pytest.raises(InvalidInput, match=r"^Invalid trace_id\.$"):
        await api.trace("xyz")
    with pytest.raises(InvalidInput, match="At least one trace_id query parameter is required"):
        await api.list_traces()


async def test_a_trace_is_a_tree(api: Api) -> None:
    await store_record(api.store, [span(1, start_us=5), span(2, parent=1), span(3, parent=77), span(4, trace=2)])
    one, two = "0" * 31 + "1", "0" * 31 + "2"

    trace = (await api.trace(one))["trace"]
    listed = await api.list_traces(("trace_ids", f"{two},{'ff' * 16}"), ("trace_id", one))

    assert trace["trace_id"] == one
    assert list(trace["spans"]) == ["s3", "s1"]
    assert list(trace["spans"]["s1"]["spans"]) == ["s2"]
    assert [trace["trace_id"] for trace in listed["traces"]] == [one, two]
    assert await api.trace("ff" * 16) == {"count": 0}
    assert await api.list_traces(("trace_id", "ff" * 16)) == {"count": 0, "traces": []}


@pytest.mark.parametrize(
    ("body", "loc", "kind"),
    [
        ({"filter": {}}, ["body", "filter"], "extra_forbidden"),
        ({"windowing": {"limits": 1}}, ["body", "windowing", "limits"], "extra_forbidden"),
        ({"windowing": {"limit": 0}}, ["body", "windowing", "limit"], "greater_than_equal"),
        ({"windowing": {"limit": 10_001}}, ["body", "windowing", "limit"], "less_than_equal"),
        ({"windowing": {"limit": 2**64}}, ["body", "windowing", "limit"], "less_than_equal"),
        ({"windowing": {"order": "up"}}, ["body", "windowing", "order"], "enum"),
        ({"windowing": {"by": "end_time"}}, ["body", "windowing", "by"], "enum"),
        ({"windowing": {"wait_s": 30.5}}, ["body", "windowing", "wait_s"], "less_than_equal"),
        ({"windowing": {"rate": 1.5}}, ["body", "windowing", "rate"], "less_than_equal"),
        ({"windowing": {"newest": "soon"}}, ["body", "windowing", "newest"], "datetime_from_date_parsing"),
        ({"filtering": {"operator": "xor"}}, ["body", "filtering", "operator"], "enum"),
    ],
)
async def test_wrong_shape_is_reported_with_its_path(api: Api, body: dict[str, Any], loc: list[str], kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await api.query(**body)

    [problem] = caught.value.problems
    assert (problem["loc"], problem["type"]) == (loc, kind)
    assert response_of(caught.value).status == 422


async def test_the_largest_page_is_valid(api: Api) -> None:
    await store_record(api.store, [span(1)])

    assert await api.ids(windowing={"limit": 10_000}) == [1]


async def test_only_the_feed_waits(api: Api) -> None:
    with pytest.raises(InvalidInput, match="only the feed can wait"):
        await api.query(windowing={"wait_s": 1})


async def test_deep_filters_are_rejected_with_a_message(api: Api) -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"conditions": [deep]}

    with pytest.raises(InvalidFilter, match="nested deeper than 16"):
        await api.query(filtering=deep)


async def test_a_filter_at_its_limits_is_answered(api: Api) -> None:
    await store_record(api.store, [span(1)])
    members = {f"k{number}": ["x" * 100, {"y": number}] for number in range(120)}
    wide = {"field": "resource", "key": "a.0.1.2.3.4.5", "operator": "in", "value": ["x", 0.5, 1e22]}
    large = {"field": "attributes", "key": "a", "value": members}
    many = {"field": "span_id", "operator": "in", "value": [f"{number:016x}" for number in range(1, 10_001)]}

    assert await api.ids(filtering={"operator": "or", "conditions": [wide] * 10 + [large, many]}) == [1]


async def test_query_ends_at_its_budget(api: Api) -> None:
    await store_record(api.store, [span(number) for number in range(1, 50)])

    with pytest.raises(DeadlineExceeded):
        await api.with_query_settings(budget_s=0.000_001).query()
