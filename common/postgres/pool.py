"""Postgres: a pool of connections with three methods and our errors, by one table of the driver's.

Only rows of the driver leave this file.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from operator import attrgetter
from typing import Any, Final, TypeAlias
from uuid import UUID

import asyncpg

from common.errors import (
    Conflict,
    DeadlineExceeded,
    InvalidInput,
    InvalidStatement,
    NotMigrated,
    Overloaded,
    ServiceError,
    Unauthorized,
    Unavailable,
)
from common.fair_share import FairShare
from common.hosts import HostOrder
from common.settings import PostgresSettings
from common.tls import TlsNames, tls_context, tls_failure


def connection_options(settings: PostgresSettings) -> dict[str, Any]:
    """Return what the driver needs to connect. Raises ``UnusableCertificate``."""
    dsn = settings.dsn.get_secret_value()
    options: dict[str, Any] = {
        "dsn": dsn,
        "password": settings.password.get_secret_value() or None,
        "timeout": settings.timeout_s,
    }
    if settings.tls.is_set:
        options["ssl"] = tls_context(settings.tls)
    if len(dsns_of(dsn)) > 1 and "target_session_attrs" not in dsn:
        options["target_session_attrs"] = "read-write"
    return options


_FAILURES: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # among them that of a host that cannot be written to
)


class Connector:
    """Connects to the first host that can be written to; each has the whole time of a connection.

    The driver gives all hosts one time together, so that one that does not answer would hide the next.
    """

    def __init__(self, settings: PostgresSettings) -> None:
        self._dsns = dsns_of(settings.dsn.get_secret_value())
        self._order = HostOrder(len(self._dsns))

    async def connect(self, _dsn: str = "", **options: Any) -> Any:
        """Return a connection of the driver; raises what it raises for the last host."""
        failure: Exception | None = None
        for host in self._order.in_turn:
            try:
                connection = await asyncpg.connect(self._dsns[host], **options)
            except asyncio.CancelledError:
                self._order.fails(host)
                raise
            except _FAILURES as exc:
                self._order.fails(host)
                failure = exc
            else:
                self._order.works(host)
                return connection
        assert failure is not None  # noqa: S101 - there is at least one host
        raise failure


def dsns_of(dsn: str) -> list[str]:
    """Return a connection string for each of the hosts between ``@`` and ``/``."""
    scheme, _, rest = dsn.partition("://")
    matched = re.match(r"([^/?]*)(.*)", rest, re.DOTALL)
    authority, path = ("", "") if matched is None else matched.groups()
    user, at, hosts = authority.rpartition("@")
    return [f"{scheme}://{user}{at}{host}{path}" for host in hosts.split(",")]


Row: TypeAlias = Mapping[str, Any]

GRACE_S: Final = 1.0
"""How long to wait for the server after the deadline: it ends the statement itself and says so."""


class UniqueViolation(Conflict):
    """Another row has this value, which must be unique."""

    def __init__(self, detail: str, *, constraint_name: str) -> None:
        self.constraint_name = constraint_name
        super().__init__(detail)


MEANING: Final[Mapping[type[Exception], type[ServiceError]]] = {
    asyncpg.CharacterNotInRepertoireError: InvalidInput,  # U+0000 in a text
    asyncpg.UntranslatableCharacterError: InvalidInput,  # U+0000 in a text within JSON
    asyncpg.QueryCanceledError: DeadlineExceeded,
    asyncpg.InsufficientResourcesError: Overloaded,
    asyncpg.LockNotAvailableError: Overloaded,
    asyncpg.TransactionRollbackError: Overloaded,  # serialization failures and deadlocks
    asyncpg.PostgresConnectionError: Unavailable,
    asyncpg.OperatorInterventionError: Unavailable,  # shutting down, starting up
    asyncpg.InvalidAuthorizationSpecificationError: Unavailable,  # the permission may be granted later
    asyncpg.InvalidCatalogNameError: Unavailable,
    asyncpg.ReadOnlySQLTransactionError: Unavailable,  # a standby, or a primary that has become one
    OSError: Unavailable,
    TimeoutError: Unavailable,
    asyncpg.InterfaceError: Unavailable,
    asyncpg.InternalClientError: Unavailable,
    asyncpg.PostgresError: InvalidStatement,
}
"""Our error for each of the driver's. The first row decides of which an error is an instance."""

NAMES: Final = TlsNames.of("CLEARSPAN_POSTGRES__TLS", protocol="CLEARSPAN_POSTGRES__DSN (sslmode)")

PUBLIC_MESSAGES: Final[Mapping[type[ServiceError], str]] = {
    DeadlineExceeded: "Postgres did not answer in time",
    Overloaded: "Postgres is busy",
    Unavailable: "Postgres is unavailable",
}
"""What clients see in place of the driver's message."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the driver into ours."""
    try:
        yield
    except asyncpg.UniqueViolationError as exc:
        raise UniqueViolation(str(exc), constraint_name=exc.constraint_name or "") from exc
    except asyncpg.ForeignKeyViolationError as exc:
        # A key is remembered for seconds: with it a request may still come for a project that has been deleted.
        if "project_id" not in (exc.constraint_name or ""):
            raise InvalidStatement(f"Postgres: {exc}") from exc
        raise Unauthorized from exc
    except asyncpg.UndefinedTableError as exc:
        raise NotMigrated("Postgres") from exc
    except tuple(MEANING) as exc:
        meaning = next(ours for kind, ours in MEANING.items() if isinstance(exc, kind))
        public_message, reason = PUBLIC_MESSAGES.get(meaning), _reason(exc)
        raise meaning(
            f"{public_message or 'Postgres'}: {reason}", public_message=f"{public_message}." if public_message else None
        ) from exc


def _reason(error: Exception) -> str:
    """Return why a statement or a connection failed, with the setting to look at if that is known."""
    if (of_tls := tls_failure(error, NAMES)) is not None:
        return of_tls
    message = str(error) or type(error).__name__
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return f"{message}; see CLEARSPAN_POSTGRES__DSN and CLEARSPAN_POSTGRES__PASSWORD"
    return message


class Transaction:
    """A connection within a transaction: all of its statements take effect, or none."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch_one(self, sql: str, /, *arguments: object) -> Row | None:
        """Return the first row, or ``None``."""
        with translated():
            row: Row | None = await self._connection.fetchrow(sql, *arguments)
            return row

    async def fetch_all(self, sql: str, /, *arguments: object) -> list[Row]:
        """Return all rows."""
        with translated():
            rows: list[Row] = await self._connection.fetch(sql, *arguments)
            return rows


class Database:
    """The pool. Each statement is its own transaction unless it is in a ``transaction``.

    Raises ``Unavailable`` and ``Overloaded`` (transient), ``DeadlineExceeded``, ``UniqueViolation`` (a ``Conflict``),
    ``InvalidInput`` for text that Postgres cannot hold, ``InvalidStatement`` (a bug of ours).
    """

    def __init__(self, pool: Any, *, timeout_s: float) -> None:
        self._pool = pool
        self._places = FairShare("connections to Postgres", pool.get_max_size())
        self._timeout_s = timeout_s

    async def fetch_one(self, sql: str, /, *arguments: object) -> Row | None:
        """Return the first row, or ``None``."""
        async with self._acquired() as connection:
            return await Transaction(connection).fetch_one(sql, *arguments)

    async def fetch_all(self, sql: str, /, *arguments: object) -> list[Row]:
        """Return all rows."""
        async with self._acquired() as connection:
            return await Transaction(connection).fetch_all(sql, *arguments)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Commits at the end, rolls back when an error leaves the block."""
        async with self._acquired() as connection:
            transaction = connection.transaction()
            with translated():
                await transaction.start()
            try:
                yield Transaction(connection)
            except BaseException:
                with suppress(ServiceError), translated():  # with the connection the transaction is gone, too
                    await transaction.rollback()
                raise
            with translated():
                await transaction.commit()

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Any]:
        async with self._places.place(timeout_s=self._timeout_s):
            with translated():
                connection = await self._acquire()
            try:
                yield connection
            except Unavailable as exc:
                if isinstance(exc.__cause__, asyncpg.ReadOnlySQLTransactionError):  # another host is the primary now
                    await self._pool.expire_connections()
                raise
            finally:
                with translated():
                    await self._pool.release(connection)

    async def _acquire(self) -> Any:
        try:
            return await self._pool.acquire(timeout=self._timeout_s)
        except TimeoutError:
            if self._pool.get_size() < self._pool.get_max_size():
                raise  # connecting took the time
            raise Overloaded(f"No connection to Postgres became free within {self._timeout_s:g} s.") from None


@asynccontextmanager
async def open_database(settings: PostgresSettings) -> AsyncIterator[Database]:
    """Open the pool, and close it at the end. It connects on first use, so Postgres need not be available yet.

    The server ends every statement after ``settings.timeout_s``.
    """
    pool = await asyncpg.create_pool(
        **connection_options(settings),
        connect=Connector(settings).connect,
        min_size=0,
        max_size=settings.connections_max,
        command_timeout=settings.timeout_s + GRACE_S,
        init=_prepare,
        reset=_leave,
        server_settings={
            "application_name": "clearspan",
            "statement_timeout": str(round(settings.timeout_s * 1000)),
        },
    )
    try:
        yield Database(pool, timeout_s=settings.timeout_s)
    finally:
        await pool.close()


async def _prepare(connection: Any) -> None:
    """Read UUIDs as Python's type: orjson does not know the driver's own type."""
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=attrgetter("bytes"), decoder=_uuid_of_bytes, format="binary"
    )


async def _leave(_connection: Any) -> None:
    """Save the round trip of a reset: nothing of ours outlives its statement or transaction.

    The driver has already rolled back a transaction that was left open.
    """


def _uuid_of_bytes(value: bytes) -> UUID:
    return UUID(bytes=value)
