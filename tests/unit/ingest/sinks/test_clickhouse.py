"""How a refused batch is halved until the rows at fault stand alone. The engine's own behaviour: tests/contract."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import Statement
from common.clickhouse.stored_through import STORED_THROUGH_TABLE
from common.errors import InvalidStatement, RejectedByStore, ServiceError, Unavailable
from common.project import DEFAULT_PROJECT_ID
from common.stored_position import ALL_PROJECTS, StoredPosition
from ingest.batch import SpanBatch
from ingest.sinks.clickhouse import REFUSED_ROWS_MAX, ClickHouseSink
from tests.fakes.clock import ManualClock
from tests.support.otlp import request
from tests.unit.ingest.test_batch import filled


class PickyStore:
    """Refuses every insert that holds one of these names, as an engine refuses a block."""

    def __init__(self, *refused: str) -> None:
        self.refused = set(refused)
        self.faults: list[ServiceError] = []
        self.rows_of_token: dict[str, list[str]] = {}
        self.stored_us: list[int] = []
        self.journal: list[str] = []

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        if self.faults:
            raise self.faults.pop()
        self.journal.append(table)
        if table == STORED_THROUGH_TABLE:
            return
        names = rows.column("name").to_pylist()
        if self.refused & set(names):
            raise RejectedByStore("no such thing")
        self.rows_of_token.setdefault(dedup_token, names)
        self.stored_us.append(rows.column("stored_us")[0].as_py())

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        raise NotImplementedError

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        raise NotImplementedError

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is held."""

    @property
    def names(self) -> list[str]:
        return sorted(name for names in self.rows_of_token.values() for name in names)


def sink_on(store: PickyStore, clock: ManualClock | None = None) -> ClickHouseSink:
    return ClickHouseSink(store, clock=clock or ManualClock(), insert_timeout_s=1.0)


def batch_of(count: int) -> SpanBatch:
    return filled(request([f"s{number}" for number in range(count)]))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
async def test_every_row_but_the_refused_one_is_stored(count: int) -> None:
    for refused in range(count):
        store = PickyStore(f"s{refused}")

        rows = await sink_on(store).write(batch_of(count))

        assert [each.row for each in rows] == [refused]
        assert rows[0].reason == "no such thing"
        assert store.names == sorted(f"s{number}" for number in range(count) if number != refused)


async def test_a_repeated_write_uses_the_same_tokens_for_the_same_slices() -> None:
    store = PickyStore("s3")
    sink, batch = sink_on(store), batch_of(8)

    await sink.write(batch)
    first = dict(store.rows_of_token)
    await sink.write(batch)

    assert store.rows_of_token == first
    assert len(first) == 3


async def test_each_try_is_stamped_with_its_own_time() -> None:
    clock, store = ManualClock(), PickyStore()
    store.faults.append(Unavailable("away"))
    sink, batch = sink_on(store, clock), batch_of(1)
    with pytest.raises(Unavailable):
        await sink.write(batch)

    clock.advance(30)
    await sink.write(batch)

    assert store.stored_us == [clock.now_ns() // 1_000]


async def test_of_a_batch_without_spans_only_the_watermark_is_written() -> None:
    store = PickyStore()

    assert await sink_on(store).write(filled(b"")) == []
    assert store.journal == [STORED_THROUGH_TABLE]


async def test_the_watermark_is_written_when_all_rows_are_there_and_then_announced() -> None:
    clock, store, announced = ManualClock(), PickyStore("s1"), list[StoredPosition]()

    def announce(positions: Sequence[StoredPosition]) -> None:
        store.journal.append("announce")
        announced.extend(positions)

    sink = ClickHouseSink(store, clock=clock, insert_timeout_s=1.0, announce=announce)
    await sink.write(batch_of(2))

    assert store.journal == [*[SPANS_TABLE] * 3, STORED_THROUGH_TABLE, "announce"]
    stored_us = clock.now_ns() // 1_000
    assert announced == [
        StoredPosition(ALL_PROJECTS, "c/t/0", 0, 5, stored_us),
        StoredPosition(DEFAULT_PROJECT_ID, "c/t/0", 0, 5, stored_us),
    ]


async def test_what_is_not_stored_raises_no_watermark() -> None:
    store, announced = PickyStore(), list[StoredPosition]()
    store.faults.append(Unavailable("away"))
    sink = ClickHouseSink(store, clock=ManualClock(), insert_timeout_s=1.0, announce=announced.extend)

    with pytest.raises(Unavailable):
        await sink.write(batch_of(1))

    assert (store.journal, announced) == ([], [])


async def test_a_statement_that_is_refused_is_not_the_fault_of_rows() -> None:
    store = PickyStore()
    store.faults.append(InvalidStatement("no such table"))

    with pytest.raises(InvalidStatement):
        await sink_on(store).write(batch_of(2))


async def test_so_many_refused_rows_are_buried_and_one_more_is_our_fault() -> None:
    at_the_limit = [f"s{number}" for number in range(REFUSED_ROWS_MAX)]

    assert len(await sink_on(PickyStore(*at_the_limit)).write(batch_of(REFUSED_ROWS_MAX))) == REFUSED_ROWS_MAX
    with pytest.raises(ServiceError) as refused:
        await sink_on(PickyStore(*at_the_limit, f"s{REFUSED_ROWS_MAX}")).write(batch_of(REFUSED_ROWS_MAX + 1))
    assert not refused.value.transient
