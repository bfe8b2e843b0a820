"""A ClickHouse server, over HTTP with the asynchronous client of clickhouse-connect.

The retries of the driver are off where they could write twice: the caller knows its deduplication token and decides.
Bodies are Arrow compressed with LZ4, in both directions. Users are known by a password or by a certificate.
"""

from __future__ import annotations

import asyncio
import errno
import io
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from socket import gaierror
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from common.clickhouse.cluster import at_hosts, nodes_of
from common.clickhouse.engines import UNAVAILABLE, Engine, Reader, Settings, is_away, with_literals
from common.clickhouse.select import LOCAL_SUFFIX
from common.clickhouse.store import Shard, Statement
from common.errors import Unavailable
from common.fair_share import FairShare, current_tenant, shielded
from common.hosts import HostOrder
from common.settings import ClickHouseSettings
from common.tls import TlsNames, UnusableCertificate, tls_context, tls_failure

CONNECT_TIMEOUT_S: Final = 5.0
LONGER_THAN_ANY_DEADLINE_S: Final = 3600
"""The driver needs a number; each call has its own deadline."""

NAMES: Final = TlsNames.of("CLEARSPAN_CLICKHOUSE__TLS", protocol="CLEARSPAN_CLICKHOUSE__INTERFACE")
NOT_REACHED: Final = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})


async def connected_client(settings: ClickHouseSettings, host: str, *, connections: int) -> AsyncClient:
    """Return a client of the driver that has asked the server for its version.

    Raises the errors of the driver and ``UnusableCertificate``.
    """
    password = settings.password.get_secret_value()
    by_certificate = settings.tls.certificate_file is not None and not password
    headers = {"X-ClickHouse-User": settings.username, "X-ClickHouse-SSL-Certificate-Auth": "on"}
    client = AsyncClient(
        interface=settings.interface,
        host=host.strip("[]"),
        port=settings.port,
        username=None if by_certificate else settings.username,
        password=password,
        headers=headers if by_certificate else None,
        database=settings.database,
        compress=False,  # the bodies that matter are compressed inside
        connect_timeout=CONNECT_TIMEOUT_S,
        send_receive_timeout=LONGER_THAN_ANY_DEADLINE_S,
        query_retries=0,
        connector_limit=connections,
        autogenerate_session_id=False,
        client_name="clearspan",
    )
    if settings.interface == "https":  # the driver knows neither the password of a key nor renewed files
        backend = client._backend
        backend.ssl_context = backend.connector_kwargs["ssl"] = tls_context(settings.tls)
    try:
        await client._initialize()
    except BaseException as exc:
        await client.close()
        if type(exc) is OperationalError:  # without a code, so not from the engine
            raise OperationalError(f"{exc}; see {NAMES.protocol} and {NAMES.certificate}") from exc
        raise
    return client


def connection_failure(error: BaseException) -> str | None:
    """Return why a server was not reached, with the setting to look at; ``None`` if it may have been reached."""
    if isinstance(error, UnusableCertificate):
        return f"{NAMES.member(error.member)}: {error}"
    if (of_tls := tls_failure(error, NAMES)) is not None:
        return of_tls
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            return None
        if isinstance(cause, gaierror) or (isinstance(cause, OSError) and cause.errno in NOT_REACHED):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return None


Result = TypeVar("Result")
Call: TypeAlias = Callable[[AsyncClient], Awaitable[Result]]

GRACE_S: Final = 1.0
"""How long to wait after the deadline: the server should end the statement itself and report it."""

INSERTS_AT_ONCE: Final = 2


class NotConnected(Exception):
    """No connection to a host, which has not received the statement. The message says why."""


class ServerStore(Engine):
    """``ColumnStore`` on a server. Connects when first used, so it can be created while the server is not available.

    With several hosts, statements go to one of them until it fails (``HostOrder``). Belongs to the event loop of its
    first call.
    """

    def __init__(self, settings: ClickHouseSettings) -> None:
        super().__init__(settings)
        self._settings = settings
        self._clients: dict[int, AsyncClient] = {}
        self._order = HostOrder(len(settings.hosts))
        self._connecting = asyncio.Lock()
        self._reading = FairShare("connections to ClickHouse", settings.connections)
        self._inserting = FairShare("connections to ClickHouse for inserts", INSERTS_AT_ONCE)
        self._closed = False

    @asynccontextmanager
    async def shards(self) -> AsyncIterator[Sequence[Shard]]:
        """Return a store for each shard, which uses its replicas one after the other; see ``ColumnStore``."""
        if self._settings.sharding == "off":
            yield [Shard(self, "")]
            return
        hosts: dict[int, list[str]] = defaultdict(list)
        for node in await nodes_of(self, self._settings.cluster):
            hosts[node.shard].append(node.host)
        async with AsyncExitStack() as opened:
            stores = [ServerStore(at_hosts(self._settings, of_shard)) for of_shard in hosts.values()]
            for store in stores:
                opened.push_async_callback(store.close)
            yield [Shard(store, LOCAL_SUFFIX) for store in stores]

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        self._closed = True
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _insert(self, table: str, rows: pa.Table, settings: Settings, *, deadline_s: float) -> None:
        async def call(client: AsyncClient) -> None:
            body = await asyncio.to_thread(_arrow_file, rows)
            await client.raw_insert(table, rows.schema.names, body, dict(settings), "Arrow")

        await self._run(call, self._inserting, deadline_s=deadline_s)

    async def _query(self, statement: Statement, kind: str, read: Reader[Result], *, deadline_s: float) -> Result:
        sql, settings = with_literals(statement), dict(statement.settings)
        return read(
            await self._run(
                lambda client: client.raw_query(sql, None, settings, kind), self._reading, deadline_s=deadline_s
            )
        )

    async def _command(self, statement: Statement, *, deadline_s: float) -> None:
        sql, settings = with_literals(statement), dict(statement.settings)
        await self._run(lambda client: client.command(sql, settings=settings), self._reading, deadline_s=deadline_s)

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
        host, *others = self._order.in_turn
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                while True:
                    try:
                        return await self._called_at(host, call)
                    except NotConnected as exc:
                        if not others:
                            raise Unavailable(str(exc), public_message=UNAVAILABLE) from exc
                        host = others.pop(0)
        except TimeoutError:
            self._order.fails(host)
            raise Unavailable(f"ClickHouse did not respond within {deadline_s:g} s.") from None

    async def _called_at(self, host: int, call: Call[Result]) -> Result:
        """Run ``call`` at a host. Raises ``NotConnected`` if it has certainly not received the statement.

        After any failure that another host may not have, the next statement goes to that one.
        """
        try:
            result = await call(self._clients.get(host) or await self._connect(host))
        except (ClickHouseError, UnusableCertificate) as exc:
            reason = connection_failure(exc)
            if reason is not None:
                self._order.fails(host)
                raise NotConnected(f"ClickHouse is unavailable ({self._settings.hosts[host]}: {reason})") from exc
            if is_away(exc):
                self._order.fails(host)
            raise
        self._order.works(host)
        return result

    async def _connect(self, host: int) -> AsyncClient:
        async with self._connecting:
            if self._closed:
                raise Unavailable("The connection to ClickHouse has been closed.")
            if host not in self._clients:
                self._clients[host] = await connected_client(
                    self._settings, self._settings.hosts[host], connections=self._settings.connections + INSERTS_AT_ONCE
                )
            return self._clients[host]


def _arrow_file(rows: pa.Table) -> io.BytesIO:
    """Return the rows as an Arrow file. A stream, because the driver would send bytes again after a lost connection."""
    body = io.BytesIO()
    with pa.ipc.new_file(body, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    body.seek(0)
    return body
