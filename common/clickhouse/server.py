"""A server, reached over HTTP with clickhouse-connect's asynchronous client.

The driver's own retries are off where they could write twice: whoever inserts knows its token and decides. Bodies are
Arrow with LZ4 inside, in both directions.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.asyncclient import AsyncClient

from common.clickhouse.answers import table_of
from common.clickhouse.engine_errors import translated
from common.clickhouse.reading import WITH_STATISTICS, reading_only, rows_of
from common.clickhouse.statement_settings import insert_settings, statement_settings
from common.clickhouse.store import Statement
from common.errors import Overloaded, Unavailable
from common.settings import ClickHouseSettings

CONNECT_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 1.0
"""How far past its deadline a server may be heard: it should have ended the statement itself, and say so."""

LONGER_THAN_ANY_DEADLINE_S: Final = 3600
"""The driver wants a number; each call has a deadline of its own."""

INSERTS_AT_ONCE: Final = 2


class ServerStore:
    """``ColumnStore`` on a server. Connects when first used, so that it can be made while the server is away.

    Belongs to the event loop of its first call.
    """

    def __init__(self, settings: ClickHouseSettings) -> None:
        self._settings = settings
        self._client: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._reading = asyncio.Semaphore(settings.connections)
        self._inserting = asyncio.Semaphore(INSERTS_AT_ONCE)
        self._closed = False

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        """Insert columns by name; see ``ColumnStore``."""
        settings = insert_settings(dedup_token, deadline_s=deadline_s)
        with translated(inserting=True):
            async with self._connection(self._inserting, deadline_s=deadline_s) as client:
                body = await asyncio.to_thread(_arrow_file, rows)
                await client.raw_insert(table, rows.schema.names, body, settings, "Arrow")

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """The answer as Arrow columns; see ``ColumnStore``."""
        settings = statement_settings(statement, deadline_s=deadline_s)
        with translated():
            async with self._connection(self._reading, deadline_s=deadline_s) as client:
                answer = await client.raw_query(statement.sql, dict(statement.parameters), settings, "ArrowStream")
        return table_of(answer)

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        """How many rows the server reads for a statement; see ``ColumnStore``."""
        settings = statement_settings(statement, deadline_s=deadline_s)
        sql = reading_only(statement.sql)
        with translated():
            async with self._connection(self._reading, deadline_s=deadline_s) as client:
                return rows_of(await client.raw_query(sql, dict(statement.parameters), settings, WITH_STATISTICS))

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        """Run a statement that answers nothing; see ``ColumnStore``."""
        settings = statement_settings(statement, deadline_s=deadline_s)
        with translated():
            async with self._connection(self._reading, deadline_s=deadline_s) as client:
                await client.command(statement.sql, dict(statement.parameters), settings=settings)

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @asynccontextmanager
    async def _connection(self, places: asyncio.Semaphore, *, deadline_s: float) -> AsyncIterator[AsyncClient]:
        """The client, for as long as the deadline lasts and a little more; then the server counts as away."""
        await _take_place(places, deadline_s=deadline_s)
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                yield self._client or await self._connect()
        except TimeoutError:
            raise Unavailable(f"ClickHouse did not answer within {deadline_s:g} s.") from None
        finally:
            places.release()

    async def _connect(self) -> AsyncClient:
        async with self._connecting:
            if self._closed:
                raise Unavailable("The connection to ClickHouse has been closed.")
            if self._client is None:
                self._client = await clickhouse_connect.get_async_client(**_driver_arguments(self._settings))
            return self._client


async def _take_place(places: asyncio.Semaphore, *, deadline_s: float) -> None:
    try:
        async with asyncio.timeout(deadline_s):
            await places.acquire()
    except TimeoutError:
        raise Overloaded(f"No connection to ClickHouse came free within {deadline_s:g} s.") from None


def _arrow_file(rows: pa.Table) -> io.BytesIO:
    """The rows as an Arrow file. A stream, because the driver would send bytes again after a lost connection."""
    body = io.BytesIO()
    with pa.ipc.new_file(body, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    body.seek(0)
    return body


def _driver_arguments(settings: ClickHouseSettings) -> dict[str, Any]:
    return {
        "interface": settings.interface,
        "host": settings.host,
        "port": settings.port,
        "username": settings.username,
        "password": settings.password.get_secret_value(),
        "database": settings.database,
        "compress": False,  # the bodies that matter are compressed inside
        "connect_timeout": CONNECT_TIMEOUT_S,
        "send_receive_timeout": LONGER_THAN_ANY_DEADLINE_S,
        "query_retries": 0,
        "connector_limit": settings.connections + INSERTS_AT_ONCE,
        "autogenerate_session_id": False,
        "form_encode_query_params": True,  # a list of 10,000 values does not fit into a URL
        "client_name": "clearspan",
    }
