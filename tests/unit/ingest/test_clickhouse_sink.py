"""A rejected batch is halved until each rejected row is alone. The engine's own behavior: tests/contract."""

from __future__ import annotations

import pyarrow as pa
import pytest

from common.clickhouse.span_columns import SPANS_TABLE
from common.errors import InvalidStatement, RejectedByStore, ServiceError, Unavailable
from ingest.clickhouse_sink import REJECTED_ROWS_MAX, ClickHouseSink
from ingest.sink import SpanRows
from tests.fakes.clock import ManualClock
from tests.fakes.insert_only_store import InsertOnlyStore
from tests.support.otlp import request
from tests.unit.ingest.test_batch import filled


class PickyStore(InsertOnlyStore):
    """Rejects every insert that holds one of these names, as an engine rejects a block."""

    def __init__(self, *rejected: str) -> None:
        self.rejected = set(rejected)
        self.faults: list[ServiceError] = []
        self.rows_of_token: dict[str, list[str]] = {}
        self.stored_us: list[int] = []

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        if self.faults:
            raise self.faults.pop()
        assert table == SPANS_TABLE
        names = rows.column("name").to_pylist()
        if self.rejected & set(names):
            raise RejectedByStore("no such thing")
        self.rows_of_token.setdefault(dedup_token, names)
        self.stored_us.append(rows.column("stored_us")[0].as_py())

    @property
    def names(self) -> list[str]:
        return sorted(name for names in self.rows_of_token.values() for name in names)


def sink_on(store: PickyStore, clock: ManualClock | None = None) -> ClickHouseSink:
    return ClickHouseSink(store, clock=clock or ManualClock(), insert_timeout_s=1.0)


def spans(count: int) -> SpanRows:
    batch = filled(request([f"s{number}" for number in range(count)]))
    return SpanRows(batch.rows(), batch.dedup_token)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
async def test_only_the_rejected_row_is_not_stored(count: int) -> None:
    for rejected in range(count):
        store = PickyStore(f"s{rejected}")

        rows = await sink_on(store).write(spans(count))

        assert [row.row for row in rows] == [rejected]
        assert rows[0].reason == "no such thing"
        assert store.names == sorted(f"s{number}" for number in range(count) if number != rejected)


async def test_repeated_write_uses_the_same_tokens_for_the_same_slices() -> None:
    store = PickyStore("s3")
    sink, rows = sink_on(store), spans(8)

    await sink.write(rows)
    first = dict(store.rows_of_token)
    await sink.write(rows)

    assert store.rows_of_token == first
    assert len(first) == 3


async def test_each_try_is_stamped_with_its_own_time() -> None:
    clock, store = ManualClock(), PickyStore()
    store.faults.append(Unavailable("away"))
    sink, rows = sink_on(store, clock), spans(1)
    with pytest.raises(Unavailable):
        await sink.write(rows)

    clock.advance(30)
    await sink.write(rows)

    assert store.stored_us == [clock.now_ns() // 1_000]


async def test_rejected_statement_is_not_a_rejected_row() -> None:
    store = PickyStore()
    store.faults.append(InvalidStatement("no such table"))

    with pytest.raises(InvalidStatement):
        await sink_on(store).write(spans(2))


async def test_too_many_rejected_rows_are_a_defect() -> None:
    at_the_limit = [f"s{number}" for number in range(REJECTED_ROWS_MAX)]

    assert len(await sink_on(PickyStore(*at_the_limit)).write(spans(REJECTED_ROWS_MAX))) == REJECTED_ROWS_MAX
    with pytest.raises(ServiceError) as rejected:
        await sink_on(PickyStore(*at_the_limit, f"s{REJECTED_ROWS_MAX}")).write(spans(REJECTED_ROWS_MAX + 1))
    assert not rejected.value.transient
