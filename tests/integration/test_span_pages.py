"""All pages of spans return each span of the first page's time exactly once, whatever is stored or arrives, and however
small the budget (contract §3.3). Compared with a model that knows every version that was sent."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.errors import DeadlineExceeded
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.span import Span
from common.span_version import deletion_of, version_of
from common.times import SystemClock, format_us
from common.usage import trace_sums
from query_api.filter.sql.compile import EVERY_ROW
from query_api.pages.by_ids import spans_of_ids
from query_api.pages.spans import find_page
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import Rendered
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Position, Version, latest_versions, latest_versions_of_few, versions_of
from query_api.spans.window import Window, edge
from query_api.spans.windowing import Order
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.support.scale import few_and_many, rest_is_long
from tests.support.span_corpus import START_NS, store_record, store_year
from tests.support.span_pages import SpanId, SpanPages, ids_of

HOUR_US = 3_600_000_000
START_US = START_NS // 1000
STARTS = (0, 1, 2, HOUR_US, 30 * 24 * HOUR_US)
TINY: dict[str, Any] = {"budget_rows": 5}
"""A budget that one row exceeds, so that a page is one instant."""


class Place(NamedTuple):
    """A span of the model, with its ids and start."""

    trace: int
    number: int
    start_us: int
    is_running: bool = False

    @property
    def shown_id(self) -> SpanId:
        return f"{self.trace:032x}", f"{self.number:016x}"

    @property
    def order(self) -> tuple[int, int, int]:
        return self.start_us, self.number, self.trace

    @property
    def span(self) -> Span:
        start_ns = START_NS + self.start_us * 1000
        return Span(
            trace_id=self.trace.to_bytes(16, "big"),
            span_id=self.number.to_bytes(8, "big") * 2,
            parent_id=None,
            name=f"s{self.number}",
            kind=1,
            start_ns=start_ns,
            end_ns=start_ns,
            status_code=0,
            status_message=None,
            attributes={"ag.metrics.tokens.incremental.total": self.number},
            is_running=self.is_running,
        )


@dataclass(frozen=True)
class Record:
    """A record of a partition: its spans, and which of them were deleted later."""

    partition_id: str
    offset: int
    record_ms: int
    places: tuple[Place, ...]
    deleted: frozenset[tuple[int, int]]

    async def store(self, store: ColumnStore, project_id: UUID) -> None:
        spans = [place.span for place in self.places]
        at = {"partition_id": self.partition_id, "offset": self.offset, "record_ms": self.record_ms}
        await store_record(store, spans, project_id=project_id, **at)  # type: ignore[arg-type]
        for place in self.places:
            if place[:2] in self.deleted:
                await delete(store, project_id, place, partition_id=self.partition_id, offset=self.offset)


async def delete(store: ColumnStore, project_id: UUID, place: Place, *, partition_id: str, offset: int) -> None:
    version = deletion_of(version_of(offset, is_running=place.is_running))
    await add_head(store, project_id, place, partition_id=partition_id, version=version)


async def add_head(
    store: ColumnStore, project_id: UUID, place: Place, *, partition_id: str, version: int, record_ms: int = 1
) -> None:
    """Insert a row of ``span_versions`` alone, as it is before its row of ``spans``, or when a span is deleted."""
    sql = (
        "INSERT INTO span_versions (project_id, trace_id, span_id, partition_id, version, record_ms, start_us) SELECT {project:UUID},"
        " unhex({trace:String}), unhex({span:String}), {partition_id:String}, {version:UInt64}, {ms:Int64}, {start:Int64}"
    )
    span = place.span
    values = {
        "project": str(project_id),
        "trace": span.trace_id.hex(),
        "span": span.span_id.hex(),
        "partition_id": partition_id,
    }
    values |= {"version": version, "ms": record_ms, "start": span.start_ns // 1000}  # type: ignore[dict-item]
    await store.execute(Statement(sql, values), deadline_s=60.0)


def visible(records: Sequence[Record]) -> list[Place]:
    """Return the latest versions by the rule of contract §3.6 and §4, written again in the simplest way."""
    spans: dict[tuple[int, int], list[tuple[Record, Place]]] = defaultdict(list)
    for partition_id in {record.partition_id for record in records}:
        latest: dict[tuple[int, int], tuple[Record, Place]] = {}
        of_partition = [record for record in records if record.partition_id == partition_id]
        for record in sorted(of_partition, key=lambda record: record.offset):
            for place in record.places:
                if place.is_running and place[:2] in latest and not latest[place[:2]][1].is_running:
                    continue
                latest[place[:2]] = record, place
        for key, version in latest.items():
            spans[key].append(version)

    def is_shown(version: tuple[Record, Place]) -> bool:
        return version[1][:2] not in version[0].deleted

    def rank(version: tuple[Record, Place]) -> tuple[bool, bool, int, int, str]:
        record, place = version
        return not place.is_running, is_shown(version), record.record_ms, record.offset, record.partition_id

    return [version[1] for version in (max(versions, key=rank) for versions in spans.values()) if is_shown(version)]


def in_window(
    places: Sequence[Place], windowing: Mapping[str, Any], bounds: tuple[int | None, int | None]
) -> list[SpanId]:
    """Return what all pages return, in order: bounds are half open on the side where pages begin (reference §6.2)."""
    is_ascending = windowing["order"] == "ascending"
    newest, oldest = (
        bound if bound is not None else default for bound, default in zip(bounds, (2**60, -(2**60)), strict=True)
    )
    kept = [
        place
        for place in places
        if (oldest < place.start_us <= newest if is_ascending else oldest <= place.start_us < newest)
    ]
    return [place.shown_id for place in sorted(kept, key=lambda place: place.order, reverse=not is_ascending)]


KEYS = st.tuples(st.integers(1, 3), st.integers(1, 5))
CONTENTS = st.dictionaries(KEYS, st.sampled_from(STARTS), min_size=1, max_size=15)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    places_in_logs = st.tuples(st.sampled_from("abc"), st.integers(0, 5))
    drawn = draw(st.dictionaries(places_in_logs, CONTENTS, min_size=1, max_size=5))
    return [
        Record(
            partition_id,
            offset,
            draw(st.integers(0, 2)),
            tuple(Place(*key, start_us, is_running=draw(st.booleans())) for key, start_us in content.items()),
            frozenset(draw(st.sets(st.sampled_from(sorted(content)), max_size=2))),
        )
        for (partition_id, offset), content in drawn.items()
    ]


class Engine(NamedTuple):
    runner: asyncio.Runner
    store: ColumnStore


@pytest.fixture(scope="module")
def engine(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> Iterator[Engine]:
    configured = chdb_settings()
    with asyncio.Runner() as runner:
        runner.run(migrate(configured, data_dir=chdb_dir))
        store = open_store(configured, data_dir=chdb_dir)
        yield Engine(runner, store)
        runner.run(store.close())


@pytest.mark.parametrize("examples", few_and_many(5, 40))
def test_pages_return_what_was_visible_at_the_first_page(engine: Engine, examples: int) -> None:
    settings(max_examples=examples)(
        given(data=st.data(), sent=records())(pages_return_what_was_visible_at_the_first_page)
    )(engine)


def pages_return_what_was_visible_at_the_first_page(engine: Engine, data: st.DataObject, sent: list[Record]) -> None:
    project_id = uuid4()
    deliveries = data.draw(st.permutations([*sent, *data.draw(st.lists(st.sampled_from(sent), max_size=3))]))
    limit = data.draw(st.integers(1, 17), label="limit")
    order = data.draw(st.sampled_from(["ascending", "descending"]), label="order")
    bounds = data.draw(st.tuples(*[st.none() | st.sampled_from(STARTS)] * 2), label="newest and oldest")
    budget = data.draw(st.sampled_from([{}, TINY]), label="budget")
    late = [Place(trace, 9, data.draw(st.sampled_from(STARTS))) for trace in range(1, 4)]
    windowing: dict[str, Any] = {"order": order, "limit": limit}
    windowing |= {
        name: format_us(START_US + bound)
        for name, bound in zip(("newest", "oldest"), bounds, strict=True)
        if bound is not None
    }

    async def read_pages() -> list[dict[str, Any]]:
        for record in deliveries:
            await record.store(engine.store, project_id)

        async def ingest() -> None:
            if late:
                await Record("d", len(late), 9, (late.pop(),), frozenset()).store(engine.store, project_id)
                await deliveries[0].store(engine.store, project_id)

        return await SpanPages.over(engine.store, project_id=project_id, **budget).pages(
            windowing=windowing, between=ingest
        )

    pages = engine.runner.run(read_pages())

    found = [ids for ids in ids_of(*pages) if ids[1] != f"{9:016x}"]
    assert found == in_window(visible(sent), windowing, bounds)
    for page in pages:
        assert page["count"] <= limit
        assert "complete" not in page or (page["complete"] is False and "windowing" in page and page["count"] < limit)


@pytest.mark.parametrize("examples", few_and_many(4, 20))
def test_pages_by_hand_made_cursors_return_every_span(engine: Engine, examples: int) -> None:
    settings(max_examples=examples)(
        given(data=st.data(), sent=records())(pages_by_hand_made_cursors_return_every_span)
    )(engine)


def pages_by_hand_made_cursors_return_every_span(engine: Engine, data: st.DataObject, sent: list[Record]) -> None:
    project_id, limit = uuid4(), data.draw(st.integers(1, 17), label="limit")
    order, bound = data.draw(st.sampled_from([("ascending", "oldest"), ("descending", "newest")]))

    async def read_pages() -> list[SpanId]:
        for record in sent:
            await record.store(engine.store, project_id)
        pages = SpanPages.over(engine.store, project_id=project_id)
        found: list[SpanId] = []
        windowing: dict[str, Any] = {"order": order, "limit": limit}
        while spans := (await pages.page(windowing=windowing))["spans"]:
            found += [(span["trace_id"], span["span_id"]) for span in spans]
            windowing |= {bound: spans[-1]["start_time"], "next": str(UUID(spans[-1]["span_id"] * 2))}
        return found

    expected: list[SpanId] = []
    left = sorted(visible(sent), key=lambda place: place.order, reverse=order == "descending")
    while left:
        page = left[:limit]
        expected += [place.shown_id for place in page]
        left = [
            place for place in left[limit:] if place.order[:2] != page[-1].order[:2]
        ]  # the store has no total order
    assert engine.runner.run(read_pages()) == expected


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_spans_of_one_instant_are_returned_once_without_budget(store: ColumnStore, order: str) -> None:
    places = [Place(1 + number // 11, 1 + number % 11, 0) for number in range(40)]
    await store_record(store, [place.span for place in places])

    pages = await SpanPages.over(store, **TINY).pages(windowing={"limit": 7, "order": order})

    expected = sorted(places, key=lambda place: place.order, reverse=order == "descending")
    assert ids_of(*pages) == [place.shown_id for place in expected]


@pytest.mark.parametrize("order", rest_is_long(["descending", "ascending"]))
async def test_versions_of_one_key_stay_in_one_round(store: ColumnStore, order: str) -> None:
    """Each span has five versions in different partitions, any of them the latest: a round does not fill its page."""
    places = [Place(1, number, number // 4) for number in range(1, 41)]
    for index, partition_id in enumerate("abcde"):
        for is_head in (True, False):
            spans = [place.span for place in places if (place.number % 5 == index) is is_head]
            await store_record(store, spans, partition_id=partition_id, offset=int(is_head), record_ms=int(is_head))

    expected = [place.shown_id for place in places][:: 1 if order == "ascending" else -1]
    for limit in (7, 10):
        pages = await SpanPages.over(store).pages(windowing={"limit": limit, "order": order})
        assert ids_of(*pages) == expected


RARE = {
    "conditions": [
        {"field": "attributes", "key": "x", "operator": "not_exists"},
        {"field": "span_name", "operator": "endswith", "value": "are"},  # for which there is no index
    ]
}


@pytest.mark.parametrize("order", rest_is_long(["ascending", "descending"]))
async def test_rare_match_in_a_year_is_found_over_pages(store: ColumnStore, order: str) -> None:
    await store_year(store, 120_000, rare_every=30_000)
    expected = [(f"{number:032x}", f"{number:016x}") for number in range(30_000, 120_001, 30_000)]

    pages = await SpanPages.over(store, budget_rows=60_000).pages(
        filtering=RARE, windowing={"order": order, "newest": format_us(START_US + 400 * 24 * HOUR_US)}
    )

    assert ids_of(*pages) == expected[:: 1 if order == "ascending" else -1]
    assert [page.get("complete") for page in pages] == [False] * (len(pages) - 1) + [None]
    assert 3 <= len(pages) <= 50  # the number depends on merges: the engine counts whole granules of each part
    assert ids_of(*await SpanPages.over(store).pages(filtering=RARE, windowing={"order": order})) == ids_of(*pages)


async def test_empty_years_are_not_scanned(store: ColumnStore, monkeypatch: pytest.MonkeyPatch) -> None:
    years_us = 20 * 365 * 24 * HOUR_US
    places = [Place(1, number, number // 10 * years_us) for number in range(10, 30)]
    await store_record(store, [place.span for place in places])
    statements: list[str] = []
    select = store.select

    async def select_and_tell(statement: Statement, /, *, deadline_s: float) -> pa.Table:
        statements.append(statement.sql)
        return await select(statement, deadline_s=deadline_s)

    monkeypatch.setattr(store, "select", select_and_tell)
    position = edge(Position, START_US + 2 * years_us - 1, Order.DESCENDING)
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=60.0)

    page = await find_page(spans, EVERY_ROW, Window(after=position), limit=100, bytes_max=1_000_000)

    assert [span.key.span_id[-1] for span in page.spans] == list(range(19, 9, -1))
    assert len(statements) <= 6  # next row, estimate, candidates; next row; versions and rows
    assert page.ends_at is None


async def test_slow_engine_is_asked_for_shorter_slices(store: ColumnStore) -> None:
    places = [Place(1, number, number * HOUR_US) for number in range(1, 5)]
    await store_record(store, [place.span for place in places])
    faulty = FaultyStore(store)
    late = Fault(DeadlineExceeded("late"))
    faulty.select_faults.extend([late, None, late, None, None, late])

    page = await SpanPages.over(faulty).page()

    assert ids_of(page) == [place.shown_id for place in reversed(places)]
    assert not faulty.select_faults


async def test_page_without_time_for_its_last_batch_holds_what_was_found(store: ColumnStore) -> None:
    places = [Place(1, number, number) for number in range(1, 200)]
    await store_record(store, [place.span for place in places])
    for partition_id in "bcdefg":  # stale versions, so that the first batch does not fill the page
        await store_record(store, [place.span for place in places], partition_id=partition_id, record_ms=0)
    faulty = FaultyStore(store)
    faulty.select_faults.extend([None, None, None, None, Fault(DeadlineExceeded("late"))])
    pages = SpanPages.over(faulty)

    first = await pages.page()
    rest = await pages.pages(windowing=first["windowing"])

    assert first["complete"] is False
    assert 0 < first["count"] < 100
    assert ids_of(first, *rest) == [place.shown_id for place in reversed(places)]


async def test_page_without_any_time_is_an_error(store: ColumnStore) -> None:
    await store_record(store, [Place(1, 1, 0).span])

    with pytest.raises(DeadlineExceeded):
        await SpanPages.over(store, budget_s=0.000_001).page()


@pytest.mark.parametrize(("start_us", "partition_id"), [(0, "a"), (7, "a"), (-7, "a"), (0, "b"), (7, "b")])
async def test_span_is_returned_while_its_next_version_is_stored(
    store: ColumnStore, start_us: int, partition_id: str
) -> None:
    """A version may be visible in ``span_versions`` a moment before its row is in ``spans``."""
    old, new = Place(1, 1, 0), Place(1, 1, start_us)
    await store_record(store, [old.span, Place(1, 2, 0).span], partition_id="a", offset=1)
    await add_head(store, DEFAULT_PROJECT_ID, new, partition_id=partition_id, version=version_of(2), record_ms=2)
    pages = SpanPages.over(store)

    assert {old.shown_id, Place(1, 2, 0).shown_id} == set(ids_of(await pages.page()))
    assert [span.version.start_us for span in await spans_by_id(store, old)] == [START_US]

    await store_record(store, [new.span], partition_id=partition_id, offset=2, record_ms=2)
    assert ids_of(await pages.page()).count(old.shown_id) == 1
    assert [span.version.start_us for span in await spans_by_id(store, old)] == [START_US + start_us]


async def test_deleted_span_stays_deleted_while_its_next_version_is_stored(store: ColumnStore) -> None:
    place = Place(1, 1, 0)
    await store_record(store, [place.span], partition_id="a", offset=1)
    await delete(store, DEFAULT_PROJECT_ID, place, partition_id="a", offset=1)
    await add_head(store, DEFAULT_PROJECT_ID, place, partition_id="a", version=version_of(2))

    assert ids_of(await SpanPages.over(store).page()) == []
    assert await spans_by_id(store, place) == []


async def spans_by_id(store: ColumnStore, place: Place) -> list[Rendered]:
    spans = ProjectSpans(store, DEFAULT_PROJECT_ID, clock=SystemClock(), budget_s=60.0)
    return await spans_of_ids(spans, trace_ids=[place.span.trace_id], span_ids=[place.span.span_id], bytes_max=2**20)


@pytest.mark.parametrize("examples", few_and_many(4, 20))
def test_visible_spans_agree_in_sql_and_python(engine: Engine, examples: int) -> None:
    settings(max_examples=examples)(given(sent=records())(visible_spans_agree_in_sql_and_python))(engine)


def visible_spans_agree_in_sql_and_python(engine: Engine, sent: list[Record]) -> None:
    """Sums over traces count each visible span once: here each has used as many tokens as its number."""
    project_id = uuid4()
    spans = ProjectSpans(engine.store, project_id, clock=SystemClock(), budget_s=60.0)

    async def in_python_and_in_sql() -> tuple[list[Version], TraceSums, pa.Table, pa.Table, pa.Table]:
        for record in sent:
            await record.store(engine.store, project_id)
        versions, sums = await latest_of_traces(spans, [trace.to_bytes(16, "big") for trace in range(1, 4)])
        latest = latest_versions(project_id)
        rows = await spans.select(latest)
        return (
            versions,
            sums,
            rows,
            await spans.select(trace_sums(latest)),
            await spans.select(latest_versions_of_few(project_id, [])),
        )

    versions, sums, rows, sums_rows, rows_of_few = engine.runner.run(in_python_and_in_sql())

    expected = Counter[int]()
    for place in visible(sent):
        expected[place.trace] += place.number
    assert Counter({int.from_bytes(trace_id, "big"): used.tokens_total for trace_id, used in sums.items()}) == expected
    assert Counter({int.from_bytes(row["trace_id"], "big"): row["tokens_total"] for row in sums_rows.to_pylist()}) == (
        expected
    )
    assert sorted(versions) == sorted(versions_of(rows)) == sorted(versions_of(rows_of_few))
    assert sorted(
        (version.trace_id[-1], version.span_id[-1], version.start_us - START_US) for version in versions
    ) == sorted(place[:3] for place in visible(sent))


async def test_found_spans_are_returned_if_the_budget_ends_before_the_rest(store: ColumnStore) -> None:
    places = [Place(1, number, number * HOUR_US) for number in range(1, 5)]
    await store_record(store, [place.span for place in places])
    faulty = FaultyStore(store)
    late = Fault(DeadlineExceeded("late"))
    slice_, judged = [None] * 3, [None] * 2  # next row, estimate, candidates; versions and rows
    faulty.select_faults.extend([late, *slice_, *judged, *slice_, late])

    first, *others = await SpanPages.over(faulty).pages(windowing={"limit": 10})

    assert ids_of(first) == [places[-1].shown_id]
    assert first["complete"] is False
    assert ids_of(*others) == [place.shown_id for place in places[-2::-1]]
