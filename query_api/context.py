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
from common.kafka.record import Publisher
from common.settings import Settings

Check: TypeAlias = Callable[[], Awaitable[None]]
"""Returns when a system answers; raises a ``ServiceError`` that says why it does not."""


class KeyFinder(Protocol):
    """The keys that are in force (``common/postgres/keys.py``)."""

    async def find(self, key_text: str, /) -> UUID | None:
        """The project of a key, or ``None``. Raises ``Unavailable`` when that cannot be known now."""
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

    checks: Mapping[str, Check] = field(default_factory=dict)
    """What ``/readyz`` asks, by the name of the system."""
