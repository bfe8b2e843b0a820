"""Rows whose insert was interrupted, over the real engine: what is done at the start of the embedded stack."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.engines import SQL
from common.clickhouse.interrupted_inserts import complete_interrupted_inserts
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.clickhouse.stored_through import read_positions_of
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.settings import ClickHouseSettings
from common.times import SystemClock
from tests.support.api import context_of
from tests.support.feed import Reader, StoreInFront, settle
from tests.support.span_corpus import OTHER_PROJECT_ID, random_span, store_record, store_year

A, B = "embedded-1/spans/0", "embedded-2/spans/1"


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[ColumnStore]:
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    opened = open_store(configured, data_dir=chdb_dir)
    yield opened
    await opened.close()


async def completed(store: ColumnStore) -> None:
    await complete_interrupted_inserts(store, clusters="embedded-")


async def inserted(store: ColumnStore, number: int, *, offset: int, name: str = "s", **members: Any) -> None:
    """Store one record with one span, without its position."""
    span = random_span(random.Random(number), number)._replace(name=name)
    await store_record(store, [span], offset=offset, **{"partition_id": A, **members})


async def interrupted_in_views(store: ColumnStore, *, after_offset: int) -> None:
    """Remove what the views have made of later rows."""
    for table, offset in (("span_versions", "intDiv(version, 2)"), ("span_arrivals", "record_offset")):
        sql = f"ALTER TABLE {table} DELETE WHERE {offset} > {after_offset}"
        await store.execute(Statement(sql, settings={"mutations_sync": 1}), deadline_s=60.0)


async def through(store: ColumnStore, project_id: UUID = DEFAULT_PROJECT_ID) -> dict[str, int]:
    positions = await read_positions_of(store, project_id, deadline_s=60.0)
    return {position.partition_id: position.through_offset for position in positions}


async def rows_counts(store: ColumnStore) -> list[int]:
    """The rows of all tables before the engine merges equal ones."""
    tables = ("spans", "span_versions", "span_arrivals", "stored_through")
    counts = [await store.select(Statement(f"SELECT count() AS rows FROM {each}"), deadline_s=60.0) for each in tables]
    return [count["rows"][0].as_py() for count in counts]


async def feed(store: ColumnStore, project_id: UUID = DEFAULT_PROJECT_ID) -> list[str]:
    reader = Reader(context_of(store=store, clock=SystemClock()), project_id=project_id)
    return [span["span_name"] for span in await reader.rest()]


async def test_rows_after_a_position_are_copied_and_get_a_position(store: ColumnStore) -> None:
    await inserted(store, 1, offset=3, name="before")
    await settle(store, offset=3, partition_id=A)
    await inserted(store, 1, offset=4, name="replaced")
    await inserted(store, 2, offset=5, name="new")
    await inserted(store, 3, offset=0, name="first", partition_id=B)
    await inserted(store, 4, offset=7, name="of another", project_id=OTHER_PROJECT_ID)
    await interrupted_in_views(store, after_offset=3)

    await completed(store)

    assert await through(store) == {A: 5, B: 0}
    assert await through(store, OTHER_PROJECT_ID) == {A: 7}
    assert sorted(await feed(store)) == ["first", "new", "replaced"]
    assert await feed(store, OTHER_PROJECT_ID) == ["of another"]


async def test_nothing_is_inserted_where_every_row_has_a_position(store: ColumnStore) -> None:
    await inserted(store, 1, offset=3)
    await settle(store, offset=9, partition_id=A)  # later records of the project had no spans
    before = await rows_counts(store)

    await completed(store)

    assert await rows_counts(store) == before
    assert await through(store) == {A: 9}


async def test_completion_can_be_interrupted_at_every_step(store: ColumnStore) -> None:
    await inserted(store, 1, offset=4, name="kept")

    for _ in range(2):
        await interrupted_in_views(store, after_offset=-1)
        with pytest.raises(Unavailable):
            await completed(WithoutInserts(store))
        assert await through(store) == {}
    await interrupted_in_views(store, after_offset=-1)
    await completed(store)

    assert await feed(store) == ["kept"]


async def test_partition_of_a_kafka_that_delivers_again_is_left_alone(store: ColumnStore) -> None:
    await inserted(store, 1, offset=4, partition_id="external/spans/0")
    before = await rows_counts(store)

    await completed(store)

    assert await rows_counts(store) == before


async def test_only_the_rows_in_question_are_read(store: ColumnStore) -> None:
    """Reading all columns of all spans took longer than a start may."""
    await store_year(store, 100_000, rare_every=100_000, project_id=OTHER_PROJECT_ID)
    await inserted(store, 1, offset=4)
    place = {"project_id": str(DEFAULT_PROJECT_ID), "partition_id": A, "following": 0}
    _, _, select = SQL["insert_rows_without_record"].partition("INSERT INTO spans\n")

    rows_read = await store.rows_read(Statement(select, place), deadline_s=60.0)

    assert 0 < rows_read < 1_000


async def test_deleted_span_stays_deleted(store: ColumnStore) -> None:
    await inserted(store, 1, offset=4, name="deleted")
    sql = "INSERT INTO span_versions SELECT * REPLACE (version + 1 AS version) FROM span_versions"
    await store.execute(Statement(sql), deadline_s=60.0)

    await completed(store)

    assert await through(store) == {A: 4}
    assert await feed(store) == []


class WithoutInserts(StoreInFront):
    """A store that ends before the position is inserted."""

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        raise Unavailable(f"killed before {rows.num_rows} rows of {table}")
