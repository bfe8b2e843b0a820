"""The cost of a page in the engine depends on the page, not on the size of the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.limits import MIB
from common.settings import ClickHouseSettings
from common.span import Span
from common.times import SystemClock
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.pages.by_ids import spans_of_ids
from query_api.pages.snapshot import TraceWindow
from query_api.pages.spans import find_page
from query_api.pages.trace_search import find_traces
from query_api.pages.traces import read_page, traces_of_ids
from query_api.spans.project_spans import ExecutedStatement, ProjectSpans
from query_api.spans.rows_ahead import RowsAhead
from query_api.spans.window import Window
from tests.support.span_corpus import START_NS, store_record

SPANS_COUNT = 40_000
SPAN_ID = (1).to_bytes(8, "big") * 2
COPIES = f"""
INSERT INTO spans SELECT * REPLACE
(
    start_us + (n + 1) * 1000000 AS start_us,
    sipHash128(n) AS span_id,
    sipHash128(n, 1) AS trace_id,
    version + (n + 1) * 131072 AS version
)
FROM spans ARRAY JOIN range({SPANS_COUNT}) AS n
"""

PARTS_COUNT = 8
SPARSE = f"""
INSERT INTO spans SELECT * REPLACE
(
    start_us + (n + 1) * 1000000 AS start_us,
    sipHash128(n) AS span_id,
    sipHash128(n, 1) AS trace_id,
    version + (n + 1) * 131072 AS version,
    if(n % 100 = 0, 'sparse', 'common') AS name
)
FROM (SELECT * FROM spans ORDER BY start_us LIMIT 1) ARRAY JOIN range({{from}}, {{to}}) AS n
SETTINGS max_block_size = {SPANS_COUNT}
"""
"""A part that follows the one before in time."""


@pytest.fixture(scope="module")
def filled(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """A database with forty thousand spans, a trace and a second each, in one part."""
    configured = chdb_settings()

    async def fill() -> None:
        await migrate(configured, data_dir=chdb_dir)
        store = open_store(configured, data_dir=chdb_dir)
        await store_record(store, [_span()], project_id=DEFAULT_PROJECT_ID)
        await store.execute(Statement(COPIES), deadline_s=60.0)
        for table in ("spans", "span_versions"):
            await store.execute(Statement(f"OPTIMIZE TABLE {table} FINAL"), deadline_s=60.0)
        await store.close()

    asyncio.run(fill())
    return configured


@pytest.fixture(scope="module")
def divided(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """The same spans in eight parts, each later than the one before; one span in a hundred is named ``sparse``."""
    configured = chdb_settings()

    async def fill() -> None:
        await migrate(configured, data_dir=chdb_dir)
        store = open_store(configured, data_dir=chdb_dir)
        await store.execute(Statement("SYSTEM STOP MERGES spans"), deadline_s=60.0)
        await store_record(store, [_span()], project_id=DEFAULT_PROJECT_ID)
        size = SPANS_COUNT // PARTS_COUNT
        for begin in range(0, SPANS_COUNT, size):
            sql = SPARSE.replace("{from}", str(begin)).replace("{to}", str(begin + size))
            await store.execute(Statement(sql), deadline_s=60.0)
        await store.close()

    asyncio.run(fill())
    return configured


@pytest.fixture
async def spans(filled: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ProjectSpans]:
    store: ColumnStore = open_store(filled, data_dir=chdb_dir)
    yield ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=20.0, is_recorded=True)
    await store.close()


async def test_page_of_spans_finds_versions_and_rows_by_index(spans: ProjectSpans) -> None:
    page = await find_page(spans, EVERY_ROW, Window(), limit=5, bytes_max=10**6)

    assert len(page.spans) == 5
    assert [ran.step for ran in spans.ran] == ["candidates", "latest versions", "rows"]
    await _assert_read_little(spans)


async def test_page_reads_little_of_parts_that_it_does_not_need(divided: ClickHouseSettings, chdb_dir: Path) -> None:
    store: ColumnStore = open_store(divided, data_dir=chdb_dir)
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=20.0, is_recorded=True)
    sparse = Compiled("name = 'sparse'", {})

    page = await find_page(spans, sparse, Window(), limit=5, bytes_max=10**6)

    assert len(page.spans) == 5
    [candidates, *_] = spans.ran
    rows_count = await _rows_read(spans, candidates)
    assert candidates.step == "candidates"
    assert rows_count <= SPANS_COUNT / 2
    await store.close()


async def test_page_of_traces_finds_versions_and_rows_by_index(spans: ProjectSpans) -> None:
    async with RowsAhead(spans, bytes_max=16 * MIB) as rows:
        found = await find_traces(spans, EVERY_ROW, TraceWindow(), limit=3, rows=rows)
        page = await read_page(spans, found.traces, bytes_max=10**6, rows=rows)

    assert len(page.traces) == 3
    assert [ran.step for ran in spans.ran] == ["candidates", "latest versions", "rows"]
    await _assert_read_little(spans)


class BegunRows(RowsAhead):
    """Records what is prefetched."""

    async def begin(self, sent: pa.Table, trace_ids: Collection[bytes]) -> None:
        self.begun = list(trace_ids)
        await super().begin(sent, trace_ids)


async def test_only_rows_of_the_traces_of_a_page_are_prefetched(spans: ProjectSpans) -> None:
    async with BegunRows(spans, bytes_max=16 * MIB) as rows:
        found = await find_traces(spans, EVERY_ROW, TraceWindow(), limit=3, rows=rows)

        read = await rows.take([head for trace in found.traces for head in trace.latest])

    assert sorted(rows.begun) == sorted(trace.position.trace_id for trace in found.traces)
    assert sorted(version.trace_id for layout in read for version in layout.versions) == sorted(rows.begun)
    assert [ran.step for ran in spans.ran] == ["candidates", "latest versions", "rows"]


async def test_trace_by_id_takes_two_statements(spans: ProjectSpans) -> None:
    [trace] = await traces_of_ids(spans, [_span().trace_id], bytes_max=16 * MIB)

    assert len(trace.spans) == 1
    assert [ran.step for ran in spans.ran] == ["latest versions", "rows"]
    await _assert_read_little(spans)


@pytest.mark.parametrize("span_ids", [[], [SPAN_ID]], ids=["trace", "span"])
async def test_spans_of_a_trace_take_two_statements(spans: ProjectSpans, span_ids: list[bytes]) -> None:
    [found] = await spans_of_ids(spans, trace_ids=[_span().trace_id], span_ids=span_ids, bytes_max=16 * MIB)

    assert found.key == (_span().trace_id, SPAN_ID)
    assert [ran.step for ran in spans.ran] == ["latest versions", "rows"]
    await _assert_read_little(spans)


async def _assert_read_little(spans: ProjectSpans) -> None:
    for ran in spans.ran:
        assert await _rows_read(spans, ran) <= SPANS_COUNT / 2, ran.step


async def _rows_read(spans: ProjectSpans, ran: ExecutedStatement) -> int:
    assert ran.select is not None
    return await spans.unrecorded().rows_read(ran.select, settings=ran.statement.settings)


def _span() -> Span:
    return Span(
        trace_id=(1).to_bytes(16, "big"),
        span_id=SPAN_ID,
        parent_id=None,
        start_ns=START_NS,
        end_ns=START_NS + 1_000,
        name="common",
        kind=1,
        status_code=0,
        status_message=None,
        attributes={},
    )
