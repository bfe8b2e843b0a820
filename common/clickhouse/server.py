"""A ClickHouse server, over HTTP with the asynchronous client of clickhouse-connect.

The retries of the driver are off where they could write twice: the caller knows its deduplication token and decides.
Bodies are Arrow compressed with LZ4, in both directions.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.asyncclient import AsyncClient

from common.clickhouse.engines import Engine, Reader, Settings
from common.clickhouse.store import Statement
from common.errors import Unavailable
from common.fair_share import FairShare, current_tenant, shielded
from common.settings import ClickHouseSettings

Result = TypeVar("Result")
Call: TypeAlias = Callable[[AsyncClient], Awaitable[Result]]

CONNECT_TIMEOUT_S: Final = 5.0
GRACE_S: Final = 1.0
"""How long to wait after the deadline: the server should end the statement itself and report it."""

LONGER_THAN_ANY_DEADLINE_S: Final = 3600
"""The driver needs a number; each call has its own deadline."""

INSERTS_AT_ONCE: Final = 2


class ServerStore(Engine):
    """``ColumnStore`` on a server. Connects when first used, so it can be created while the server is not available.

    Belongs to the event loop of its first call.
    """

    def __init__(self, settings: ClickHouseSettings) -> None:
        super().__init__(settings)
        self._settings = settings
        self._client: AsyncClient | None = None
        self._connecting = asyncio.Lock()
        self._reading = FairShare("connections to ClickHouse", settings.connections)
        self._inserting = FairShare("connections to ClickHouse for inserts", INSERTS_AT_ONCE)
        self._closed = False

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _insert(self, table: str, rows: pa.Table, settings: Settings, *, deadline_s: float) -> None:
        async def call(client: AsyncClient) -> None:
            body = await asyncio.to_thread(_arrow_file, rows)
            await client.raw_insert(table, rows.schema.names, body, dict(settings), "Arrow")

        await self._run(call, self._inserting, deadline_s=deadline_s)

    async def _query(self, statement: Statement, kind: str, read: Reader[Result], *, deadline_s: float) -> Result:
        parameters, settings = dict(statement.parameters), dict(statement.settings)
        return read(
            await self._run(
                lambda client: client.raw_query(statement.sql, parameters, settings, kind),
                self._reading,
                deadline_s=deadline_s,
            )
        )

    async def _command(self, statement: Statement, *, deadline_s: float) -> None:
        parameters, settings = dict(statement.parameters), dict(statement.settings)
        await self._run(
            lambda client: client.command(statement.sql, parameters, settings=settings),
            self._reading,
            deadline_s=deadline_s,
        )

    async def _run(self, call: Call[Result], share: FairShare, *, deadline_s: float) -> Result:
        """Run ``call`` within a share. The server continues a statement whose caller has gone, so it counts until it
        ends.
        """
        tenant = current_tenant()
        await share.acquire(tenant, timeout_s=deadline_s)
        running = asyncio.ensure_future(self._called(call, deadline_s=deadline_s))
        running.add_done_callback(lambda _: share.release(tenant))
        return await shielded(running)

    async def _called(self, call: Call[Result], *, deadline_s: float) -> Result:
        """Run ``call`` with the client. Raises ``Unavailable`` some time after the deadline."""
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                return await call(self._client or await self._connect())
        except TimeoutError:
            raise Unavailable(f"ClickHouse did not respond within {deadline_s:g} s.") from None

    async def _connect(self) -> AsyncClient:
        async with self._connecting:
            if self._closed:
                raise Unavailable("The connection to ClickHouse has been closed.")
            if self._client is None:
                settings = self._settings
                self._client = await clickhouse_connect.get_async_client(
                    interface=settings.interface,
                    host=settings.host,
                    port=settings.port,
                    username=settings.username,
                    password=settings.password.get_secret_value(),
                    database=settings.database,
                    compress=False,  # the bodies that matter are compressed inside
                    connect_timeout=CONNECT_TIMEOUT_S,
                    send_receive_timeout=LONGER_THAN_ANY_DEADLINE_S,
                    query_retries=0,
                    connector_limit=settings.connections + INSERTS_AT_ONCE,
                    autogenerate_session_id=False,
                    form_encode_query_params=True,  # a list of 10,000 values does not fit into a URL
                    client_name="clearspan",
                )
            return self._client


def _arrow_file(rows: pa.Table) -> io.BytesIO:
    """Return the rows as an Arrow file. A stream, because the driver would send bytes again after a lost connection."""
    body = io.BytesIO()
    with pa.ipc.new_file(body, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    body.seek(0)
    return body
