"""Members that a span may lack: a page reads only the columns that one of its spans needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.span_columns import OPTIONAL_MEMBERS
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.limits import MIB
from common.score import EVENT_SOURCE, Score
from common.settings import ClickHouseSettings
from common.span import PROMOTED_TEXTS, Event, Link, Resource, Scope, Span
from common.times import SystemClock
from query_api.filter.sql.compile import EVERY_ROW
from query_api.pages.snapshot import TraceWindow
from query_api.pages.trace_search import find_traces
from query_api.pages.traces import Trace, read_page, traces_of_ids
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows_ahead import RowsAhead
from tests.support.api import context_of
from tests.support.feed import Reader, settle
from tests.support.span_corpus import START_NS, store_record
from tests.support.span_pages import SpanPages

BYTES_MAX = 16 * MIB
OTHER = {"trace_id": "0" * 31 + "a", "span_id": "0" * 15 + "b", "attributes": {"key": "of"}}
GIVEN: dict[str, Any] = {
    "status_message": "broken",
    **{name: f"the {name}" for name in PROMOTED_TEXTS},
    "trace_state": "vendor=1",
    "flags": 257,
    "dropped_attributes_count": 1,
    "dropped_events_count": 2,
    "dropped_links_count": 3,
    "dropped_scores_count": 4,
    "events": (Event("e", START_NS, {}),),
    "links": (Link(b"l" * 16, b"m" * 16, {}),),
    "references": [OTHER],
    "hashes": [{"id": "h", "attributes": {"key": "of"}}],
    "resource": Resource({"service": {"name": "shop"}}),
    "scope": Scope("hand"),
    "repaired": ("attributes.a", "span_name"),
    "scores": (Score("Relevance", 0.5, None, None, EVENT_SOURCE, START_NS),),
}


def span(number: int, **members: Any) -> Span:
    """A child span, of which nothing is derived that it does not have."""
    at_ns = START_NS + number * 1_000
    ids = number.to_bytes(16, "big"), number.to_bytes(8, "big") * 2
    return Span(*ids, b"p" * 16, f"n{number}", 1, at_ns, at_ns, 0, members.pop("status_message", None), {})._replace(
        **members
    )


def spans(first: int) -> list[Span]:
    """Return a span without optional members, one with each, and one with all."""
    return [
        span(first),
        *(span(first + number, **{name: GIVEN[name]}) for number, name in enumerate(OPTIONAL_MEMBERS, 1)),
        span(first + len(OPTIONAL_MEMBERS) + 1, **GIVEN),
    ]


def spans_of(traces: Iterable[Trace]) -> dict[str, Any]:
    rendered = [orjson.loads(span.json) for trace in traces for span in trace.spans]
    return {rendered_span["span_name"]: rendered_span for rendered_span in rendered}


async def members_of(store: ColumnStore, table: str) -> dict[int, int]:
    rows = await store.select(Statement(f"SELECT trace_id, members FROM {table}"), deadline_s=60.0)
    return {int.from_bytes(row["trace_id"], "big"): row["members"] for row in rows.to_pylist()}


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    opened = open_store(chdb_settings(), data_dir=chdb_dir)
    await store_record(opened, spans(100))
    await store_record(opened, spans(200), offset=1)
    yield opened
    await opened.close()


async def test_member_is_returned_on_a_page_alone_and_with_others(store: ColumnStore) -> None:
    pages = SpanPages.over(store)
    whole = {span["span_name"]: span for span in (await pages.page())["spans"]}
    filters = {name: {"conditions": [{"field": "span_name", "value": name}]} for name in whole}
    alone = {name: (await pages.page(filtering=filtering))["spans"] for name, filtering in filters.items()}

    assert alone == {name: [each] for name, each in whole.items()}
    for first in (100, 200):
        for number, name in enumerate(OPTIONAL_MEMBERS, 1):
            assert name in whole[f"n{first + number}"], name
            assert name in whole[f"n{first + len(OPTIONAL_MEMBERS) + 1}"], name
        assert not set(OPTIONAL_MEMBERS).intersection(whole[f"n{first}"])


async def test_member_is_returned_in_its_trace(store: ColumnStore) -> None:
    rendered = {span["span_name"]: span for span in (await SpanPages.over(store).page())["spans"]}
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=30.0)
    async with RowsAhead(spans, bytes_max=BYTES_MAX) as rows:
        found = await find_traces(spans, EVERY_ROW, TraceWindow(), limit=100, rows=rows)
        page = await read_page(spans, found.traces, bytes_max=BYTES_MAX, rows=rows)
    each_alone = [await traces_of_ids(spans, [trace.trace_id], bytes_max=BYTES_MAX) for trace in page.traces]

    assert spans_of(page.traces) == rendered
    assert spans_of(trace for traces in each_alone for trace in traces) == rendered


async def test_member_is_returned_on_a_feed_page_of_one_span(store: ColumnStore) -> None:
    rendered = {span["span_name"]: span for span in (await SpanPages.over(store).page())["spans"]}
    for offset in (0, 1):
        await settle(store, offset=offset)
    reader = Reader(context_of(store=store, clock=SystemClock()), windowing={"limit": 1})
    arrived = [span for _ in rendered for span in (await reader.page())["spans"]]

    assert {span["span_name"]: span for span in arrived} == rendered


async def test_versions_hold_the_same_members_as_rows(store: ColumnStore) -> None:
    assert await members_of(store, "span_versions") == await members_of(store, "spans")


async def test_bits_of_members_follow_optional_members(store: ColumnStore) -> None:
    has = ", ".join(f"ifNull(toString({name}), '') NOT IN ('', '0')" for name in OPTIONAL_MEMBERS)
    rows = await store.select(Statement(f"SELECT members, [{has}] AS has FROM spans"), deadline_s=60.0)

    assert rows.num_rows == 2 * (len(OPTIONAL_MEMBERS) + 2)
    for row in rows.to_pylist():
        assert row["members"] == sum(2**bit for bit, is_there in enumerate(row["has"]) if is_there)
