"""What each key may do: its scopes, its requests a second, and its requests at the same time.

The limits of a key hold in each process of the API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from common.errors import Forbidden, Overloaded
from common.postgres.keys import KeyOwner
from common.times import Clock
from query_api.request.route import Access, Route

BUSY_S: Final = 1.0
"""After this a key that has all its requests running is asked to come back."""

BUCKETS_MAX: Final = 10_000
"""Keys with a limit of requests a second that a process remembers."""


def check_scope(owner: KeyOwner, route: Route) -> None:
    """Raise ``Forbidden`` if the key lacks the scope of the route."""
    if route.access is not Access.PROJECT or route.scope in owner.scopes:
        return
    granted = ", ".join(f"`{scope}`" for scope in sorted(owner.scopes))
    raise Forbidden(f"{route.method} {route.path} needs a key with the scope `{route.scope}`; this key has {granted}.")


@dataclass(slots=True)
class _RequestsLeft:
    """What a key has left. It fills at its rate and holds what arrives in a second, at least one request."""

    requests: float
    at_s: float


@dataclass(slots=True)
class KeyLimits:
    """Counts the requests of keys with limits."""

    clock: Clock
    _running: Counter[UUID] = field(default_factory=Counter)
    _buckets: dict[UUID, _RequestsLeft] = field(default_factory=dict)

    @contextmanager
    def admitted(self, owner: KeyOwner) -> Iterator[None]:
        """Count a request of a key while inside. Raises ``Overloaded`` with the time to wait."""
        key_id = owner.key_id
        if key_id is None:
            yield
            return
        if owner.concurrent_max is not None and self._running[key_id] >= owner.concurrent_max:
            raise Overloaded(
                f"This key may run {owner.concurrent_max} requests at the same time.", retry_after_s=BUSY_S
            )
        if owner.requests_per_s is not None:
            self._take(key_id, owner.requests_per_s)
        self._running[key_id] += 1
        try:
            yield
        finally:
            self._running[key_id] -= 1
            if not self._running[key_id]:
                del self._running[key_id]

    def _take(self, key_id: UUID, per_s: float) -> None:
        now_s, size = self.clock.monotonic_s(), max(1.0, per_s)
        bucket = self._buckets.pop(key_id, None) or _RequestsLeft(size, now_s)
        bucket.requests = min(size, bucket.requests + (now_s - bucket.at_s) * per_s)
        bucket.at_s = now_s
        while len(self._buckets) >= BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key_id] = bucket
        if bucket.requests < 1:
            raise Overloaded(
                f"This key may send {per_s:g} requests a second.", retry_after_s=(1 - bucket.requests) / per_s
            )
        bucket.requests -= 1
