"""The engine inside this process: chDB in a data directory.

A process can have one data path of chDB open, and a path belongs to one process. The driver blocks, so its handles
are used in threads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import clickhouse_connect
import pyarrow as pa
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ProgrammingError

from common.clickhouse.engines import ALWAYS, Engine, Reader, Settings, text_literal, with_literals
from common.clickhouse.store import Shard, Statement
from common.errors import DeadlineExceeded, Unavailable
from common.fair_share import FairShare, Tenant, current_tenant, shielded
from common.limits import MIB
from common.settings import ClickHouseSettings

Result = TypeVar("Result")

GRACE_S: Final = 1.0
"""How far a call may overrun its deadline before the caller stops waiting: the engine looks at its clock between
blocks."""

ENGINE_OPTIONS: Final = {
    "max_server_memory_usage": 4096
    * MIB,  # the whole process, Python included; beyond it statements fail with code 241
    "mark_cache_size": 256 * MIB,  # by default this and the next five are 5, 5, 5, 2, 1 and 1 GiB
    "primary_index_cache_size": 256 * MIB,
    "index_mark_cache_size": 256 * MIB,
    "text_index_postings_cache_size": 256 * MIB,
    "text_index_tokens_cache_size": 128 * MIB,
    "text_index_header_cache_size": 128 * MIB,
    # A merge takes about 150 MiB. No further one begins above this limit; by default half of the machine's memory.
    "merges_mutations_memory_usage_soft_limit": 256 * MIB,
}
"""Small enough for a laptop that also does other work."""

ALLOCATOR_OPTIONS: Final = "dirty_decay_ms:500,background_thread:true"
"""For the engine's allocator (jemalloc), unless the environment has options of its own.

By default it returns freed pages to the system after five seconds, and only when the same arena is used again: after an
insert and merges, 283 MiB stayed with a stack that was idle; 69 MiB stay now. It costs no measurable time.
"""

UNCOMPRESSED: Final[Settings] = {"output_format_arrow_compression_method": "none"}
"""The result does not leave the process: 49 ms instead of 74 ms for 100 whole rows."""


class EmbeddedStore(Engine):
    """``ColumnStore`` on chDB: ``settings.connections`` handles for reading, one for inserting."""

    def __init__(self, path: Path, settings: ClickHouseSettings) -> None:
        super().__init__(settings)
        self._of_handle: Settings = {
            **ALWAYS,
            **UNCOMPRESSED,
            **self._of_statements,
            "max_memory_usage": settings.memory_bytes_max,
        }
        open_client = partial(_open_client, path, settings.database)
        open_reading = partial(open_client, self._of_handle)
        self._reading = HandlePool(open_reading, count=settings.connections, name="chdb-reading")
        self._inserting = HandlePool(partial(open_client, {}), count=1, name="chdb-inserting")

    @asynccontextmanager
    async def shards(self) -> AsyncIterator[Sequence[Shard]]:
        """Return the engine itself; see ``ColumnStore``."""
        yield [Shard(self, "")]

    async def close(self) -> None:
        """Wait for running statements, then close the engine. Safe to call twice."""
        await self._reading.close()
        await self._inserting.close()

    async def _insert(self, table: str, rows: pa.Table, settings: Settings, *, deadline_s: float) -> None:
        await self._inserting.run(
            lambda client: client.insert_arrow(table, rows, settings=dict(settings)), deadline_s=deadline_s
        )

    async def _query(self, statement: Statement, kind: str, read: Reader[Result], *, deadline_s: float) -> Result:
        # What the handle does not have already, because the engine takes 0.03 ms for each. As a clause, not as an
        # argument of the driver, which sets and restores them one by one: 6 ms per statement.
        others = {name: value for name, value in statement.settings.items() if self._of_handle.get(name) != value}
        sql = with_literals(statement)

        def call(client: Client) -> Result:
            threads = max(1, _threads_max(client) // self._reading.busy_count)
            clause = _settings_clause({"max_threads": threads, **others})
            return read(client.raw_query(f"{sql}\nSETTINGS {clause}", fmt=kind))

        return await self._reading.run(call, deadline_s=deadline_s)

    async def _command(self, statement: Statement, *, deadline_s: float) -> None:
        sql, settings = with_literals(statement), dict(statement.settings)
        await self._reading.run(lambda client: client.command(sql, settings=settings), deadline_s=deadline_s)


def _open_client(path: Path, database: str, settings: Settings) -> Client:
    os.environ.setdefault("JE_MALLOC_CONF", ALLOCATOR_OPTIONS)  # read when the engine's library is loaded
    try:
        return clickhouse_connect.get_client(
            interface="chdb", path=str(path), database=database, settings=dict(settings), chdb_options=ENGINE_OPTIONS
        )
    except ProgrammingError as exc:  # another process, or another path of this one, holds the engine
        raise Unavailable(str(exc), public_message="The engine is unavailable.") from exc


def _threads_max(client: Client) -> int:
    """Return how many threads a statement starts by default: as many as there are processors, ``auto(2)``.

    Statements that run at the same time divide them. On two processors, a statement takes a fifth more processor time
    with two threads than with one.
    """
    return int("".join(filter(str.isdigit, client.server_settings["max_threads"].value)))


def _settings_clause(settings: Settings) -> str:
    return ", ".join(f"{name} = {text_literal(str(value))}" for name, value in settings.items())


class HandlePool:
    """Handles of one kind and as many threads. A handle is opened when it is first used.

    More than a thread pool, because of what was measured on chDB 4.4 (engine 26.9):

    - A handle serializes its calls; several handles on one path run in parallel. So each handle is used by one call
      at a time.
    - Cancelling an await does not stop a call. So a handle becomes idle, and stops counting toward the share of its
      tenant, when its call has ended, not when the caller is gone.
    - What a failed statement has already written precedes the **next result on the same handle**. So a handle is closed
      after a failure and opened again when it is needed (about 15 ms).
    """

    def __init__(self, open_client: Callable[[], Client], *, count: int, name: str) -> None:
        self._handles = [_Handle(open_client) for _ in range(count)]
        self._idle = list(self._handles)
        self._places = FairShare("handles to the engine", count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._closed = False

    @property
    def busy_count(self) -> int:
        """How many handles are in use."""
        return len(self._handles) - len(self._idle)

    async def run(self, call: Callable[[Client], Result], /, *, deadline_s: float) -> Result:
        """Return what ``call`` returns, within ``deadline_s`` from when the current tenant gets a handle.

        Raises ``Overloaded`` if no handle becomes free in time, ``DeadlineExceeded`` if the engine overruns.
        """
        tenant = current_tenant()
        handle = await self._take(tenant, timeout_s=deadline_s)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, handle.run, call)
        running.add_done_callback(lambda _: self._give_back(handle, tenant))
        try:
            async with asyncio.timeout(deadline_s + GRACE_S):
                return await shielded(running)
        except TimeoutError:
            raise DeadlineExceeded(f"The engine did not finish a statement within {deadline_s:g} s.") from None

    async def close(self) -> None:
        """Wait for running calls, then close every handle. Safe to call twice."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for handle in self._handles:
            await asyncio.to_thread(handle.close)

    async def _take(self, tenant: Tenant, *, timeout_s: float) -> _Handle:
        await self._places.acquire(tenant, timeout_s=timeout_s)
        if self._closed:
            self._places.release(tenant)
            raise Unavailable("The engine has been closed.")
        return self._idle.pop()

    def _give_back(self, handle: _Handle, tenant: Tenant) -> None:
        self._idle.append(handle)
        self._places.release(tenant)


class _Handle:
    """One handle, used by one thread at a time."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client
        self._client: Client | None = None

    def run(self, call: Callable[[Client], Result]) -> Result:
        try:
            if self._client is None:
                self._client = self._open_client()
            return call(self._client)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
