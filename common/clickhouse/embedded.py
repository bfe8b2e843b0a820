"""The engine inside this process: chDB below a data directory.

chDB holds one data path a process, and a path belongs to one process. How its blocking handles are shared is in
``handles.py``; here is what is asked of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ProgrammingError

from common.clickhouse.answers import table_of
from common.clickhouse.engine_errors import translated
from common.clickhouse.handles import HandlePool
from common.clickhouse.reading import WITH_STATISTICS, reading_only, rows_of
from common.clickhouse.statement_settings import Settings, insert_settings, statement_settings
from common.clickhouse.store import Statement
from common.errors import Unavailable
from common.limits import MIB
from common.settings import ClickHouseSettings

ENGINE_OPTIONS: Final = {
    "max_server_memory_usage": 4096 * MIB,  # of the whole process, Python included; past it statements end with 241
    "mark_cache_size": 256 * MIB,  # this and the next three: 5 GiB, 5 GiB, 5 GiB, 2 GiB by default
    "primary_index_cache_size": 256 * MIB,
    "index_mark_cache_size": 256 * MIB,
    "text_index_postings_cache_size": 256 * MIB,
}
"""A laptop has other things to do."""

UNCOMPRESSED: Final[Settings] = {"output_format_arrow_compression_method": "none"}
"""The answer does not leave the process: 49 ms instead of 74 ms for 100 whole rows."""


class EmbeddedStore:
    """``ColumnStore`` on chDB: ``settings.connections`` handles for reading and one for inserting."""

    def __init__(self, path: Path, settings: ClickHouseSettings) -> None:
        self._memory_bytes_max = settings.memory_bytes_max
        self._insert_memory_bytes_max = settings.insert_memory_bytes_max
        open_client = partial(_open_client, path, settings.database)
        self._reading = HandlePool(open_client, count=settings.connections, name="chdb-reading")
        self._inserting = HandlePool(open_client, count=1, name="chdb-inserting")

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        """Insert columns by name; see ``ColumnStore``."""

        def call(client: Client, remaining_s: float) -> None:
            settings = insert_settings(
                dedup_token, deadline_s=remaining_s, memory_bytes_max=self._insert_memory_bytes_max
            )
            client.insert_arrow(table, rows, settings=settings)

        with translated(inserting=True):
            await self._inserting.run(call, deadline_s=deadline_s)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """The answer as Arrow columns; see ``ColumnStore``."""

        def call(client: Client, remaining_s: float) -> pa.Table:
            # As a clause, not as the driver's argument: that sets and restores them one by one, 6 ms a statement.
            clause = _settings_clause(self._settings(statement, remaining_s) | UNCOMPRESSED)
            sql = f"{statement.sql}\nSETTINGS {clause}"
            return table_of(client.raw_query(sql, dict(statement.parameters), fmt="ArrowStream"))

        with translated():
            return await self._reading.run(call, deadline_s=deadline_s)

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        """How many rows the engine reads for a statement; see ``ColumnStore``."""

        def call(client: Client, remaining_s: float) -> bytes:
            clause = _settings_clause(self._settings(statement, remaining_s))
            sql = f"{reading_only(statement.sql)}\nSETTINGS {clause}"
            answer: bytes = client.raw_query(sql, dict(statement.parameters), fmt=WITH_STATISTICS)
            return answer

        with translated():
            return rows_of(await self._reading.run(call, deadline_s=deadline_s))

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        """Run a statement that answers nothing; see ``ColumnStore``."""

        def call(client: Client, remaining_s: float) -> None:
            settings = statement_settings(
                statement, deadline_s=remaining_s, memory_bytes_max=self._insert_memory_bytes_max
            )
            client.command(statement.sql, dict(statement.parameters), settings=settings)

        with translated():
            await self._reading.run(call, deadline_s=deadline_s)

    async def close(self) -> None:
        """Wait for what runs, then let go of the engine. Safe to call twice."""
        await self._reading.close()
        await self._inserting.close()

    def _settings(self, statement: Statement, remaining_s: float) -> Settings:
        return statement_settings(statement, deadline_s=remaining_s, memory_bytes_max=self._memory_bytes_max)


def _open_client(path: Path, database: str) -> Client:
    try:
        return clickhouse_connect.get_client(
            interface="chdb", path=str(path), database=database, chdb_options=ENGINE_OPTIONS
        )
    except ProgrammingError as exc:  # another process, or another path of this one, holds the engine
        raise Unavailable(str(exc), public_message="The engine is away.") from exc


def _settings_clause(settings: Settings) -> str:
    return ", ".join(f"{name} = {_literal(value)}" for name, value in settings.items())


def _literal(value: str | int | float) -> str:
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
