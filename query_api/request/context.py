"""The singletons of the API process, made once in the composition root (``http/app.py``), which also closes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.fair_share import FairShare
from common.kafka.record import Publisher
from common.postgres.keys import KeyOwner
from common.postgres.pool import Database
from common.settings import Settings
from common.times import Clock
from query_api.compute import Compute, ThreadCompute
from query_api.request.limits import Limits
from query_api.request.progress import KnownEndOffsets, SettledRuns, StoredThrough

Check: TypeAlias = Callable[[], Awaitable[object]]
"""Returns if a system answers; raises a ``ServiceError`` that says why it does not."""


class KeyFinder(Protocol):
    """Looks up API keys (``common/postgres/keys.py``)."""

    async def find(self, key_text: str, /) -> KeyOwner | None:
        """Return the owner of a valid key, or ``None``. Raises ``Unavailable``."""
        ...

    def running(self, owner: KeyOwner, /) -> AbstractAsyncContextManager[None]:
        """Run a request inside, right after ``find``. Raises ``Unauthorized`` when its key or its project ends."""
        ...

    async def end_project(self, project_id: UUID, /) -> None:
        """Forget the keys of a project that was deleted, and end its requests."""
        ...

    def ended(self, key_text: str, /) -> KeyOwner | None:
        """Return the owner of a key that was just refused because it is revoked or has expired, else ``None``."""
        ...

    async def has_neighbors(self, project_id: UUID, /) -> bool:
        """Return whether another project has a key too; true if that is unknown."""
        ...


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The singletons of the API process."""

    settings: Settings
    """All settings."""

    store: ColumnStore
    """The engine that stores the spans."""

    publisher: Publisher
    """Publishes to Kafka."""

    keys: KeyFinder | None
    """Finds the owner of a key; ``None`` exactly if ``settings.auth`` is off."""

    clock: Clock
    """The current time, which a test can move."""

    cursor_secret: bytes
    """Encrypts cursors; the same in every process of an installation."""

    waiting: FairShare
    """Limits the requests that wait for new data."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    """The checks of ``/readyz``, by the name of the system."""

    stored: StoredThrough = field(default_factory=StoredThrough)
    """How far spans are stored, as this process knows it."""

    settled: SettledRuns = field(default_factory=SettledRuns)
    """How far traces are settled, as requests that wait have read it."""

    ends: KnownEndOffsets | None = None
    """Kafka's end offsets; ``None`` if they are not read, and responses do not say how fresh they are."""

    compute: Compute = field(default_factory=ThreadCompute)
    """Runs what would block the event loop."""

    started_us: int | None = None
    """When the process started, in microseconds since 1970; ``None`` only in tests."""

    rows_per_span: dict[UUID, float] = field(default_factory=dict)
    """How many rows the pages of each project examine for each span; without those that examine one."""

    exports: FairShare = field(default_factory=lambda: FairShare("places of exports", 1))
    """Limits the exports that run at the same time."""

    export_turns: FairShare = field(default_factory=lambda: FairShare("turns of exports", 1))
    """Lets one export at a time into the engine."""

    limits: Limits = field(default_factory=Limits)
    """What nobody has to set."""

    database: Database | None = None
    """Postgres: projects, keys and histories. ``None`` only in tests."""

    @property
    def takes_logs(self) -> bool:
        """Whether workers read the log records that are published here."""
        return self.settings.ingest.logs == "on" and self.settings.kafka.logs_topic in self.settings.kafka.topics


def waiting_places(places_count: int) -> FairShare:
    """Make ``ApiContext.waiting`` for ``places_count`` requests."""
    return FairShare("places of requests that wait for new data", places_count)


def export_places(places_count: int) -> FairShare:
    """Make ``ApiContext.exports`` for ``places_count`` exports."""
    return FairShare("places of exports", places_count)


def database_of(context: ApiContext) -> Database:
    """Return Postgres, for the routes that need it."""
    assert context.database is not None, "this route needs Postgres"  # noqa: S101 - query_api/http/app.py opens it
    return context.database
