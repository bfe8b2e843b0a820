"""What every ``ColumnStore`` promises, on both engines: chDB in this process, and a server over HTTP."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from common.clickhouse import server
from common.clickhouse.connect import open_store
from common.clickhouse.embedded import EmbeddedStore
from common.clickhouse.migrate import migrate
from common.clickhouse.server import ServerStore
from common.clickhouse.store import ColumnStore, Statement
from common.errors import (
    DeadlineExceeded,
    InvalidStatement,
    OutOfMemory,
    Overloaded,
    RejectedByStore,
    ServiceError,
    Unavailable,
)
from common.fair_share import Tenant, working_for
from common.limits import MIB
from common.settings import ClickHouseSettings
from common.span_version import version_of
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.faulty_proxy import FaultyProxy, HttpFault, faulty_proxy
from tests.support.span_rows import HOSTILE, NOT_UTF8, span_row, span_table

DEADLINE_S = 30.0  # the slowest takes 3 s of a processor, and other tests run at the same time
SLOW = "SELECT 'LEFT OVER', sleepEachRow(0.05) FROM numbers(600)"
"""Takes half a minute."""

AT_ONCE_S = 10.0
"""On any machine much less than what is not waited for."""

ONE_ROW_BLOCKS = {"max_block_size": 1}


@pytest.fixture(params=["chdb", "http"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine."""
    return str(request.param)


@pytest.fixture
def settings(request: pytest.FixtureRequest, engine: str) -> ClickHouseSettings:
    """Settings of a database that is not there yet."""
    fresh: Callable[[], ClickHouseSettings] = request.getfixturevalue(f"{engine}_empty_settings")
    return fresh()


@pytest.fixture
def migrated_settings(request: pytest.FixtureRequest, engine: str) -> ClickHouseSettings:
    """Settings of a database with all tables, empty."""
    fresh: Callable[[], ClickHouseSettings] = request.getfixturevalue(f"{engine}_settings")
    return fresh()


@pytest.fixture
async def store(migrated_settings: ClickHouseSettings, chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    """The store over it."""
    opened = open_store(migrated_settings, data_dir=chdb_dir)
    yield opened
    await opened.close()


@pytest.fixture
async def server_store(http_settings: Callable[[], ClickHouseSettings], chdb_dir: Path) -> AsyncIterator[ColumnStore]:
    """The same, over HTTP only."""
    opened = open_store(http_settings(), data_dir=chdb_dir)
    yield opened
    await opened.close()


@pytest.fixture
async def behind_proxy(
    http_settings: Callable[[], ClickHouseSettings], clickhouse_http: ClickHouseServer, chdb_dir: Path
) -> AsyncIterator[tuple[ColumnStore, FaultyProxy]]:
    """A store over HTTP, and the proxy before its server."""
    with faulty_proxy(f"http://127.0.0.1:{clickhouse_http.port}") as proxy:
        opened = open_store(http_settings().model_copy(update={"port": proxy.port}), data_dir=chdb_dir)
        yield opened, proxy
        await opened.close()


async def insert(store: ColumnStore, *rows: dict[str, Any], token: str = "token") -> None:
    await store.insert("spans", span_table(list(rows)), dedup_token=token, deadline_s=DEADLINE_S)


async def select(store: ColumnStore, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    rows = await store.select(Statement(sql, parameters), deadline_s=DEADLINE_S)
    return list(rows.to_pylist())


async def counts(store: ColumnStore) -> tuple[int, int]:
    """Rows in ``spans`` and in ``span_versions``, before any merge."""
    [row] = await select(
        store, "SELECT (SELECT count() FROM spans) AS spans, (SELECT count() FROM span_versions) AS versions"
    )
    return row["spans"], row["versions"]


class TestRows:
    async def test_every_column_is_returned_as_inserted(self, store: ColumnStore):
        row = span_row(1, status_message=None, session_id=NOT_UTF8, user_id=b"", errors=-0.5)

        await insert(store, row)

        [stored] = await select(store, "SELECT * FROM spans")
        assert stored == row | {"project_id": UUID(bytes=row["project_id"])}

    async def test_text_is_binary_and_ids_have_a_fixed_width(self, store: ColumnStore):
        await insert(store, span_row(1))

        rows = await store.select(Statement("SELECT name, span_id, status_message FROM spans"), deadline_s=DEADLINE_S)

        assert rows.schema.types == [pa.binary(), pa.binary(16), pa.binary()]

    async def test_empty_result_has_its_columns(self, store: ColumnStore):
        rows = await store.select(Statement("SELECT name, start_us FROM spans"), deadline_s=DEADLINE_S)

        assert (rows.num_rows, rows.column_names) == (0, ["name", "start_us"])

    async def test_batch_may_span_more_than_a_hundred_months(self, store: ColumnStore):
        month_us = 31 * 86_400 * 1_000_000

        await insert(store, *(span_row(number, start_us=number * month_us) for number in range(110)))

        assert await counts(store) == (110, 110)


class TestParameters:
    @pytest.mark.parametrize(
        ("kind", "value", "result"),
        [
            ("String", HOSTILE, HOSTILE.encode()),
            ("String", "", b""),
            ("String", "'; DROP TABLE spans; --", b"'; DROP TABLE spans; --"),
            ("Array(String)", [HOSTILE, "", "{y:String}"], [HOSTILE.encode(), b"", b"{y:String}"]),
            ("Array(String)", [], []),
            ("Int64", -(2**63), -(2**63)),
            ("UInt64", 2**64 - 1, 2**64 - 1),
            ("Float64", 0.1, 0.1),
            ("String", bytes(range(256)) * 4_000, bytes(range(256)) * 4_000),
            ("UUID", UUID(int=2**127 + 5), UUID(int=2**127 + 5)),
            ("Array(Int64)", [1, -1], [1, -1]),
        ],
    )
    async def test_parameter_arrives_unchanged(self, store: ColumnStore, kind: str, value: Any, result: Any):
        assert await select(store, f"SELECT {{value:{kind}}} AS value", value=value) == [{"value": result}]

    async def test_parameter_of_ten_thousand_values_fits(self, store: ColumnStore):
        values = [f"{number:064}" for number in range(10_000)]

        [row] = await select(store, "SELECT length({values:Array(String)}) AS count", values=values)

        assert row == {"count": 10_000}

    async def test_sql_of_megabytes_fits(self, store: ColumnStore):
        [row] = await select(store, f"SELECT length('{'a' * 2_000_000}') AS count")

        assert row == {"count": 2_000_000}

    async def test_texts_of_any_characters_arrive_unchanged(self, store: ColumnStore):
        draw = random.Random(37)
        characters = [*map(chr, range(256)), "\u2028", "\U0001f600", *"'\\{}:`\"$#-/*;"]
        texts = ["".join(draw.choices(characters, k=draw.randrange(12))) for _ in range(500)]

        [row] = await select(
            store, "SELECT {texts:Array(String)} AS texts, {first:String} AS first", texts=texts, first=texts[0]
        )

        assert row == {"texts": [text.encode() for text in texts], "first": texts[0].encode()}

    async def test_percent_sign_in_sql_is_kept(self, store: ColumnStore):
        assert await select(store, "SELECT 'a%s %(b)s' AS text") == [{"text": b"a%s %(b)s"}]

    @pytest.mark.parametrize(
        ("name", "value", "result"),
        [("max_threads", 3, 3), ("precise_float_parsing", 0, 0), ("max_ast_elements", 7_000, 7_000)],
    )
    async def test_settings_of_a_statement_win(self, store: ColumnStore, name: str, value: int, result: int):
        asked = Statement(f"SELECT toInt64(getSetting('{name}')) AS value", settings={name: value})

        assert (await store.select(asked, deadline_s=60.0)).to_pylist() == [{"value": result}]

    async def test_settings_apply_to_one_statement(self, store: ColumnStore):
        limited = Statement("SELECT * FROM numbers(100)", settings={"max_rows_to_read": 10})

        with pytest.raises(DeadlineExceeded):
            await store.select(limited, deadline_s=DEADLINE_S)

        assert len(await select(store, "SELECT * FROM numbers(100)")) == 100


class TestReading:
    async def test_rows_read_are_counted_not_rows_returned(self, store: ColumnStore):
        await insert(store, *(span_row(number) for number in range(5)))
        statement = Statement(
            "SELECT name FROM spans WHERE version = {version:UInt64}", {"version": version_of(2**44 + 1)}
        )

        assert await store.rows_read(statement, deadline_s=DEADLINE_S) == 5

    async def test_empty_table_is_not_read(self, store: ColumnStore):
        assert await store.rows_read(Statement("SELECT start_us FROM spans"), deadline_s=DEADLINE_S) == 0

    async def test_rows_read_ends_at_the_deadline(self, store: ColumnStore):
        with pytest.raises(DeadlineExceeded):
            await store.rows_read(Statement(SLOW, {}, ONE_ROW_BLOCKS), deadline_s=0.3)


class TestAnswers:
    async def test_column_is_one_chunk_whatever_the_blocks(self, store: ColumnStore):
        blocks = Statement("SELECT number, toString(number) AS text FROM numbers(5)", settings=ONE_ROW_BLOCKS)

        result = await store.select(blocks, deadline_s=DEADLINE_S)

        assert [column.num_chunks for column in result.columns] == [1, 1]
        assert result.to_pydict() == {"number": [0, 1, 2, 3, 4], "text": [b"0", b"1", b"2", b"3", b"4"]}

    async def test_inserting_no_rows_changes_nothing(self, store: ColumnStore):
        result = await store.select(Statement("SELECT number FROM numbers(0)"), deadline_s=DEADLINE_S)

        assert result.column("number").to_pylist() == []


class TestRepeatedInserts:
    async def test_insert_with_the_same_token_changes_nothing(self, store: ColumnStore):
        await insert(store, span_row(1), span_row(2))

        await insert(store, span_row(1), span_row(2))

        assert await counts(store) == (2, 2)

    async def test_same_rows_with_another_token_stay_and_their_versions_collapse(self, store: ColumnStore):
        await insert(store, span_row(1), span_row(2), token="one")

        await insert(store, span_row(1), span_row(2), token="two")

        assert await counts(store) == (4, 4)
        await store.execute(Statement("OPTIMIZE TABLE spans FINAL"), deadline_s=DEADLINE_S)
        await store.execute(Statement("OPTIMIZE TABLE span_versions FINAL"), deadline_s=DEADLINE_S)
        assert await counts(store) == (4, 2)

    async def test_rows_that_are_stored_twice_can_be_removed(self, store: ColumnStore):
        """As docs/backup.md says."""
        for number in (1, 2, 3):
            await insert(store, span_row(1), span_row(2, start_us=number), token=f"token {number}")

        place = "project_id, start_us, span_id, trace_id, partition_id, version"
        await store.execute(Statement(f"OPTIMIZE TABLE spans FINAL DEDUPLICATE BY {place}"), deadline_s=DEADLINE_S)

        rows = await select(store, "SELECT start_us FROM spans ORDER BY start_us")
        assert [row["start_us"] for row in rows if row["start_us"] < 10] == [1, 2, 3]
        assert len(rows) == 4

    async def test_token_covers_every_month_of_its_batch(self, store: ColumnStore):
        rows = [span_row(1), span_row(2, start_us=1_700_000_000_000_000)]
        await insert(store, *rows)

        await insert(store, *rows)

        assert await counts(store) == (2, 2)

    async def test_repeated_insert_completes_one_that_failed_half_way(self, store: ColumnStore):
        """The table has the rows, the table of its view rejected them: the token must not hide the missing half."""
        never = "ALTER TABLE span_versions ADD CONSTRAINT never CHECK version = 0"
        await store.execute(Statement(never), deadline_s=DEADLINE_S)
        with pytest.raises(RejectedByStore):
            await insert(store, span_row(1))
        await store.execute(Statement("ALTER TABLE span_versions DROP CONSTRAINT never"), deadline_s=DEADLINE_S)

        await insert(store, span_row(1))

        assert await counts(store) == (1, 1)


class TestDeadlines:
    async def test_engine_ends_a_statement_at_its_deadline(self, store: ColumnStore):
        started_s = time.monotonic()

        with pytest.raises(DeadlineExceeded):
            await store.select(Statement(SLOW, settings=ONE_ROW_BLOCKS), deadline_s=0.3)
        ended_s = time.monotonic()

        assert ended_s - started_s < AT_ONCE_S
        assert await select(store, "SELECT 1 AS one") == [{"one": 1}]
        assert time.monotonic() - ended_s < AT_ONCE_S

    async def test_statement_without_pauses_ends_at_its_deadline(self, store: ColumnStore):
        heavy = Statement("SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1")
        started_s = time.monotonic()

        with pytest.raises(DeadlineExceeded):
            await store.select(heavy, deadline_s=0.3)

        assert time.monotonic() - started_s < AT_ONCE_S

    async def test_insert_select_has_a_deadline(self, store: ColumnStore):
        copy = Statement(
            "INSERT INTO migrations (number) SELECT number + sleepEachRow(0.05) FROM numbers(600)",
            settings=ONE_ROW_BLOCKS,
        )
        started_s = time.monotonic()

        with pytest.raises(DeadlineExceeded):
            await store.execute(copy, deadline_s=0.3)

        assert time.monotonic() - started_s < AT_ONCE_S

    async def test_failed_statement_leaves_nothing_in_the_next_result(self, settings, chdb_dir: Path):
        """chDB would return what it had written before the failure together with the next result of the same handle."""
        store = open_store(settings.model_copy(update={"connections": 1, "database": "default"}), data_dir=chdb_dir)

        with pytest.raises(DeadlineExceeded):
            await store.select(Statement(SLOW, settings=ONE_ROW_BLOCKS), deadline_s=0.3)

        assert await select(store, "SELECT 1 AS one") == [{"one": 1}]
        await store.close()

    async def test_store_works_after_a_cancelled_call(self, settings, chdb_dir: Path):
        store = open_store(settings.model_copy(update={"connections": 2, "database": "default"}), data_dir=chdb_dir)
        await select(store, "SELECT 1")

        for _ in range(4):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await store.select(Statement("SELECT sleep(0.2)"), deadline_s=DEADLINE_S)

        results = await asyncio.gather(*(select(store, f"SELECT {number} AS number") for number in range(8)))
        assert results == [[{"number": number}] for number in range(8)]
        await store.close()

    async def test_waiting_for_a_handle_ends_at_the_deadline(self, settings, chdb_dir: Path):
        store = open_store(settings.model_copy(update={"connections": 1, "database": "default"}), data_dir=chdb_dir)
        await select(store, "SELECT 1")
        busy = asyncio.create_task(store.select(Statement("SELECT sleep(0.5)"), deadline_s=DEADLINE_S))
        await asyncio.sleep(0)

        with pytest.raises(Overloaded):
            await store.select(Statement("SELECT 1"), deadline_s=0.1)

        await busy
        await store.close()

    async def test_abandoned_statement_counts_to_its_tenant_until_it_ends(self, settings, chdb_dir: Path):
        store = open_store(settings.model_copy(update={"connections": 2, "database": "default"}), data_dir=chdb_dir)
        await select(store, "SELECT 1")
        with working_for(Tenant(UUID(int=1), has_neighbors=True, queue_s=0.1)):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await store.select(Statement("SELECT sleep(1.5)"), deadline_s=DEADLINE_S)

            with pytest.raises(Overloaded):
                await select(store, "SELECT 1")
        assert await select(store, "SELECT 1 AS one") == [{"one": 1}]
        await store.close()

    async def test_memory_of_every_statement_is_limited(self, settings, chdb_dir: Path):
        little = settings.model_copy(update={"memory_bytes_max": 64 * MIB, "database": "default"})
        store = open_store(little, data_dir=chdb_dir)

        with pytest.raises(OutOfMemory) as caught:
            await select(store, "SELECT length(groupArray(repeat('x', 1000))) FROM numbers(300000)")

        assert "more memory than one query may use" in caught.value.public_message
        await store.close()

    async def test_four_selects_run_in_parallel(self, store: ColumnStore):
        await select(store, "SELECT 1")
        started_s = time.monotonic()

        await asyncio.gather(*(select(store, "SELECT sleep(1)") for _ in range(4)))

        assert time.monotonic() - started_s < 3.5

    async def test_eight_concurrent_selects_get_their_own_results(self, store: ColumnStore):
        results = await asyncio.gather(
            *(select(store, "SELECT {number:UInt8} AS number", number=number) for number in range(8))
        )

        assert results == [[{"number": number}] for number in range(8)]


class TestErrors:
    @pytest.mark.parametrize(
        ("sql", "error"),
        [
            ("SELEC", InvalidStatement),
            ("SELECT nothing FROM spans", InvalidStatement),
            ("SELECT {missing:UInt8}", InvalidStatement),
            ("SELECT toUInt8('x')", InvalidStatement),
            ("SELECT 1 FROM no_such_table", Unavailable),
            ("SELECT groupArray(number) FROM numbers(10000000) SETTINGS max_memory_usage = 100000", OutOfMemory),
        ],
    )
    async def test_engine_errors_are_translated(self, store: ColumnStore, sql: str, error: type[ServiceError]):
        with pytest.raises(error):
            await select(store, sql)

        with pytest.raises(error):
            await store.execute(Statement(sql), deadline_s=DEADLINE_S)

    async def test_unknown_setting_is_a_bug(self, store: ColumnStore):
        with pytest.raises(InvalidStatement):
            await store.select(Statement("SELECT 1", settings={"no_such_setting": 1}), deadline_s=DEADLINE_S)

    @pytest.mark.parametrize(
        ("column", "values"),
        [
            ("start_us", pa.array([None], pa.int64())),
            ("span_id", pa.array([b"17 bytes too long"])),
            ("project_id", pa.array([b"no uuid"])),
        ],
    )
    async def test_value_that_does_not_fit_is_rejected(self, store: ColumnStore, column: str, values: pa.Array):
        rows = span_table([span_row(1)])
        rows = rows.set_column(rows.schema.get_field_index(column), column, values)

        with pytest.raises(RejectedByStore):
            await store.insert("spans", rows, dedup_token="token", deadline_s=DEADLINE_S)

        assert await counts(store) == (0, 0)

    async def test_unknown_column_is_a_bug_not_a_rejection(self, store: ColumnStore):
        rows = pa.table({"no_such_column": [1]})

        with pytest.raises(InvalidStatement):
            await store.insert("spans", rows, dedup_token="token", deadline_s=DEADLINE_S)

    async def test_missing_table_is_transient(self, store: ColumnStore):
        with pytest.raises(Unavailable):
            await store.insert("no_such_table", pa.table({"a": [1]}), dedup_token="token", deadline_s=DEADLINE_S)

    async def test_missing_database_is_transient(self, settings, chdb_dir: Path):
        store = open_store(settings, data_dir=chdb_dir)

        with pytest.raises(Unavailable):
            await select(store, "SELECT 1")

        await migrate(settings, data_dir=chdb_dir)
        await select(store, "SELECT 1")
        await store.close()


class TestClosing:
    async def test_closing_twice_is_harmless(self, store: ColumnStore):
        await select(store, "SELECT 1")

        await store.close()
        await store.close()

        with pytest.raises(Unavailable):
            await select(store, "SELECT 1")

    async def test_unused_store_can_be_closed(self, settings, chdb_dir: Path):
        await open_store(settings, data_dir=chdb_dir).close()

    async def test_closing_waits_for_running_statements(self, settings, chdb_dir: Path):
        store = open_store(settings.model_copy(update={"database": "default"}), data_dir=chdb_dir)
        await select(store, "SELECT 1")
        running = asyncio.create_task(select(store, "SELECT sleep(0.3) AS slept"))
        await asyncio.sleep(0.05)

        await store.close()

        assert await running == [{"slept": 0}]


class TestServerAway:
    async def test_closed_port_is_unavailable_at_once(self, chdb_dir: Path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, not listening: no other process can take it
            store = ServerStore(ClickHouseSettings(port=taken.getsockname()[1]))
            started_s = time.monotonic()

            with pytest.raises(Unavailable):
                await select(store, "SELECT 1")

        assert time.monotonic() - started_s < AT_ONCE_S
        await store.close()

    async def test_hanging_server_is_unavailable_after_the_deadline(
        self, behind_proxy: tuple[ColumnStore, FaultyProxy], monkeypatch: pytest.MonkeyPatch
    ):
        store, proxy = behind_proxy
        monkeypatch.setattr(server, "GRACE_S", 1.0)
        await select(store, "SELECT 1")
        proxy.arm(HttpFault("hang"))
        started_s = time.monotonic()

        with pytest.raises(Unavailable):
            await store.select(Statement("SELECT 1"), deadline_s=0.2)

        assert time.monotonic() - started_s < AT_ONCE_S
        await select(store, "SELECT 1")

    async def test_foreign_response_is_unavailable(self, behind_proxy: tuple[ColumnStore, FaultyProxy]):
        store, proxy = behind_proxy
        await select(store, "SELECT 1")
        proxy.arm(HttpFault("refuse"))

        with pytest.raises(Unavailable):
            await select(store, "SELECT 1")

    @pytest.mark.parametrize("code", [202, 241, 252])
    async def test_busy_server_is_overloaded(self, behind_proxy: tuple[ColumnStore, FaultyProxy], code: int):
        store, proxy = behind_proxy
        await select(store, "SELECT 1")
        proxy.arm(HttpFault("error", code=code))

        with pytest.raises(Overloaded):
            await insert(store, span_row(1))

    async def test_insert_repeated_after_a_lost_connection_leaves_one_copy(
        self, behind_proxy: tuple[ColumnStore, FaultyProxy]
    ):
        store, proxy = behind_proxy
        await select(store, "SELECT 1")
        proxy.arm(HttpFault("reset", after=True))

        with pytest.raises(Unavailable):
            await insert(store, span_row(1))
        assert await counts(store) == (1, 1)
        await insert(store, span_row(1))

        assert await counts(store) == (1, 1)

    async def test_server_is_used_again_after_a_restart(self, tmp_path: Path):
        with clickhouse_server(tmp_path / "data") as first:
            store = ServerStore(first.settings(database="default"))
            await select(store, "SELECT 1")
            first.stop()
            with pytest.raises(Unavailable):
                await select(store, "SELECT 1")

            with clickhouse_server(tmp_path / "data", port=first.port):
                await select(store, "SELECT 1")
            await store.close()

    async def test_wrong_password_is_unavailable_until_corrected(self, tmp_path: Path):
        with clickhouse_server(tmp_path / "data", password="right") as server:
            wrong = ServerStore(server.settings(database="default", password="wrong"))
            right = ServerStore(server.settings(database="default", password="right"))

            with pytest.raises(Unavailable, match="Authentication failed"):
                await select(wrong, "SELECT 1")
            await select(right, "SELECT 1")
            await wrong.close()
            await right.close()


async def test_repeated_statement_is_not_compiled(store: ColumnStore) -> None:
    """By default the fourth of the same text waits for a compiler: 13 ms."""
    compiled = "SELECT ifNull(sum(value), 0) AS functions FROM system.events WHERE event = 'CompileFunction'"
    before = await select(store, compiled)
    for _ in range(6):
        await select(store, "SELECT count() FROM numbers(100) WHERE number * 7 % 5 < 2 AND number + 3 > 21")
    assert await select(store, compiled) == before


async def test_second_data_path_in_a_process_is_unavailable(chdb_dir: Path, tmp_path: Path):
    first = EmbeddedStore(chdb_dir / "clickhouse", ClickHouseSettings(database="default", connections=1))
    await select(first, "SELECT 1")
    second = EmbeddedStore(tmp_path / "other", ClickHouseSettings(database="default", connections=1))

    with pytest.raises(Unavailable):
        await select(second, "SELECT 1")

    await second.close()
    await first.close()


async def test_faulty_store_fails_as_configured(server_store: ColumnStore):
    store = FaultyStore(server_store)
    store.insert_faults.extend([Fault(Unavailable()), None, Fault(Unavailable(), after_effect=True)])

    with pytest.raises(Unavailable):
        await insert(store, span_row(1), token="lost")
    await insert(store, span_row(2), token="passed")
    with pytest.raises(Unavailable):
        await insert(store, span_row(3), token="taken effect")

    assert store.insert_tokens == ["passed", "taken effect"]
    assert await counts(store) == (2, 2)
