"""What the API is made of: the singletons of the process, made once in the composition root and passed down.

Plain values and open resources; no behaviour. ``app.open_api`` makes one and closes what is in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.clock import Clock
from common.fair_share import FairShare
from common.kafka.record import Publisher
from common.postgres.keys import KeyOwner
from common.postgres.pool import Database
from common.settings import Settings
from query_api.compute.pool import Compute, ThreadCompute
from query_api.request.progress import KnownEndOffsets, StoredThrough

Check: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when a system answers; raises a ``ServiceError`` that says why it does not."""


class KeyFinder(Protocol):
    """The keys that are in force (``common/postgres/keys.py``)."""

    async def find(self, key_text: str, /) -> KeyOwner | None:
        """Whose a key is, or ``None``. Raises ``Unavailable`` when that cannot be known now."""
        ...

    async def has_neighbours(self, project_id: UUID, /) -> bool:
        """Whether another project has a key too; true when that cannot be known now."""
        ...


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The per-process singletons of the API."""

    settings: Settings
    """Every setting, read once."""

    store: ColumnStore
    """The engine that holds the spans."""

    publisher: Publisher
    """The way into Kafka."""

    keys: KeyFinder | None
    """Who may see what; ``None`` exactly when ``settings.auth`` is off."""

    clock: Clock
    """The time, so that a test can move it."""

    cursor_secret: bytes
    """Signs cursors; the same in every process of an installation."""

    waiting: FairShare
    """Places of calls that wait for something new."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    """What ``/readyz`` asks, by the name of the system."""

    stored: StoredThrough = field(default_factory=StoredThrough)
    """How far spans are stored, as far as this process knows."""

    ends: KnownEndOffsets | None = None
    """Where Kafka's logs end; ``None`` where nobody asks: then answers do not say how fresh they are."""

    compute: Compute = field(default_factory=ThreadCompute)
    """Runs what would hold up the event loop."""

    database: Database | None = None
    """Postgres: projects, keys and histories; ``None`` where nobody asks for them."""


def waiting_places(places_count: int) -> FairShare:
    """The places of ``ApiContext.waiting``."""
    return FairShare("places of calls that wait for something new", places_count)


def database_of(context: ApiContext) -> Database:
    """Postgres, for the routes that cannot do without."""
    assert context.database is not None, "this route needs Postgres"  # noqa: S101 - the composition root always opens it
    return context.database
