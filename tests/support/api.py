"""The API over a broker in memory, listening on a free port of loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, NoReturn
from uuid import UUID

import aiohttp
import pyarrow as pa
from aiohttp import web

from common.clickhouse.store import ColumnStore, Shard, Statement
from common.errors import Unavailable
from common.ids import DEFAULT_USER_ID
from common.kafka.record import Publisher
from common.postgres.keys import KeyOwner
from common.postgres.pool import Database
from common.settings import QuerySettings, Settings
from common.times import Clock
from query_api.audit.recorder import AuditRecorder
from query_api.http.app import make_runner
from query_api.http.dispatch import StartupState
from query_api.http.routes import ROUTES
from query_api.request.context import ApiContext, Check, KeyFinder, waiting_places
from query_api.request.limits import Limits
from query_api.request.progress import KnownEndOffsets
from query_api.request.route import Route
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker

PATIENT = QuerySettings(budget_s=60, queue_s=60)
"""On a busy machine the default of 15 s is not enough."""

PROJECT_A = UUID("00000000-0000-7000-8000-00000000000a")


class UntouchedStore:
    """Stands where a test must not reach the engine."""

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        _refuse()

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        _refuse()

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        _refuse()

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        _refuse()

    def shards(self) -> AbstractAsyncContextManager[Sequence[Shard]]:
        _refuse()

    async def close(self) -> None:
        """Nothing is open."""


class KnownKeys:
    """Keys without a database. ``is_away`` makes the lookup fail as it does without Postgres."""

    def __init__(self, projects: Mapping[str, UUID], *, user_id: UUID = DEFAULT_USER_ID) -> None:
        self.is_away = False
        self._projects = projects
        self._user_id = user_id

    async def find(self, key_text: str, /) -> KeyOwner | None:
        if self.is_away:
            raise Unavailable("Postgres is unavailable.", retry_after_s=2.5)
        project_id = self._projects.get(key_text)
        return None if project_id is None else KeyOwner(project_id, self._user_id)

    def running(self, _owner: KeyOwner, /) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def end_project(self, _project_id: UUID, /) -> None:
        """No request ends."""

    def ended(self, _key_text: str, /) -> KeyOwner | None:
        return None

    async def has_neighbors(self, project_id: UUID, /) -> bool:
        return not {project_id}.issuperset(self._projects.values())


def context_of(
    *,
    broker: MemoryBroker | None = None,
    settings: Settings | None = None,
    keys: KeyFinder | None = None,
    checks: Mapping[str, Check] | None = None,
    clock: Clock | None = None,
    store: ColumnStore | None = None,
    publisher: Publisher | None = None,
    ends: KnownEndOffsets | None = None,
    database: Database | None = None,
    limits: Limits | None = None,
) -> ApiContext:
    """A context whose store must stay untouched, with authentication exactly when there are keys.

    Its requests may take a minute unless the settings say something about queries.
    """
    settings = settings or Settings(auth="off" if keys is None else "on")
    if settings.query == QuerySettings():
        settings = settings.model_copy(update={"query": PATIENT})
    return ApiContext(
        settings=settings,
        store=store or UntouchedStore(),
        publisher=publisher or (broker or MemoryBroker()).publisher(),
        keys=keys,
        clock=clock or ManualClock(),
        cursor_secret=b"secret",
        waiting=waiting_places(settings.query.waiting_max),
        checks=checks or {},
        ends=ends,
        database=database,
        limits=limits or Limits(),
    )


@asynccontextmanager
async def serving(
    context: ApiContext, *, routes: tuple[Route, ...] = ROUTES, audit: AuditRecorder | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client whose paths are relative to the server."""
    runner = make_runner(StartupState(context, audit=audit), routes)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(address) as client:
            yield client
    finally:
        await runner.cleanup()


async def post_json(client: aiohttp.ClientSession, path: str, body: Any, *, status: int = 200) -> Any:
    """Return the JSON of the response to a request, whose status is checked."""
    async with client.post(path, json=body) as response:
        assert response.status == status, await response.text()
        return await response.json()


async def status_of(asked: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> int:
    """Return the status of a response, and read the rest of it: the client warns of a connection that is left."""
    async with asked as response:
        await response.read()
    return response.status


def _refuse() -> NoReturn:
    raise AssertionError("this test must not reach the store")
