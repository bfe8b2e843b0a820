"""The door to Postgres: a pool of connections, four verbs, our errors. No type of the driver but its rows leaves here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias
from uuid import UUID

import asyncpg

from common.errors import Overloaded, ServiceError
from common.fair_share import FairShare
from common.postgres.errors import translated
from common.settings import PostgresSettings

Row: TypeAlias = Mapping[str, Any]

GRACE_S: Final = 1.0
"""How long after its deadline a server may be heard: it ends a statement itself and says so."""


class Transaction:
    """A connection within a transaction: everything it does happens, or nothing."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch_one(self, sql: str, /, *arguments: object) -> Row | None:
        """The first row, or ``None``."""
        with translated():
            row: Row | None = await self._connection.fetchrow(sql, *arguments)
            return row

    async def fetch_all(self, sql: str, /, *arguments: object) -> list[Row]:
        """All rows."""
        with translated():
            rows: list[Row] = await self._connection.fetch(sql, *arguments)
            return rows

    async def execute(self, sql: str, /, *arguments: object) -> None:
        """Run a statement; without arguments, any number of them."""
        with translated():
            await self._connection.execute(sql, *arguments)


class Database:
    """The pool. Each statement stands alone unless it is in a ``transaction``.

    Raises ``Unavailable`` and ``Overloaded`` (transient), ``DeadlineExceeded``, ``UniqueViolation`` (a ``Conflict``),
    ``InvalidInput`` for text that Postgres cannot hold, ``InvalidStatement`` (a bug of ours).
    """

    def __init__(self, pool: Any, *, timeout_s: float) -> None:
        self._pool = pool
        self._places = FairShare("connections to Postgres", pool.get_max_size())
        self._timeout_s = timeout_s

    async def fetch_one(self, sql: str, /, *arguments: object) -> Row | None:
        """The first row, or ``None``."""
        async with self._acquired() as connection:
            return await Transaction(connection).fetch_one(sql, *arguments)

    async def fetch_all(self, sql: str, /, *arguments: object) -> list[Row]:
        """All rows."""
        async with self._acquired() as connection:
            return await Transaction(connection).fetch_all(sql, *arguments)

    async def execute(self, sql: str, /, *arguments: object) -> None:
        """Run a statement that answers nothing."""
        async with self._acquired() as connection:
            await Transaction(connection).execute(sql, *arguments)

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
            finally:
                with translated():
                    await self._pool.release(connection)

    async def _acquire(self) -> Any:
        try:
            return await self._pool.acquire(timeout=self._timeout_s)
        except TimeoutError:
            if self._pool.get_size() < self._pool.get_max_size():
                raise  # the time went into connecting
            raise Overloaded(f"No connection to Postgres came free within {self._timeout_s:g} s.") from None


@asynccontextmanager
async def open_database(settings: PostgresSettings) -> AsyncIterator[Database]:
    """The pool, closed at the end. Nothing is connected yet, so it can be opened while Postgres is away.

    Every statement ends after ``settings.timeout_s``, by the server itself.
    """
    pool = await asyncpg.create_pool(
        settings.dsn.get_secret_value(),
        min_size=0,
        max_size=settings.connections_max,
        timeout=settings.timeout_s,
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
    """UUIDs come as Python's own: the driver's look the same, but what writes JSON does not know them."""
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=_uuid_bytes, decoder=_uuid_of_bytes, format="binary"
    )


async def _leave(_connection: Any) -> None:
    """Nothing of ours outlives its statement or transaction, so a connection goes back without the round trip of a reset.

    A transaction that was left open is rolled back by the driver before this.
    """


def _uuid_bytes(value: UUID) -> bytes:
    return value.bytes


def _uuid_of_bytes(value: bytes) -> UUID:
    return UUID(bytes=value)
