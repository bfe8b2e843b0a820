"""The memory that bodies of requests take together, from their first byte until they are read."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from common.errors import Overloaded
from common.settings import Settings
from common.tenant import Tenant


class BodyBudget:
    """Bytes of all bodies of one process. A project with neighbours has at most half, but always room for one body."""

    def __init__(self, settings: Settings) -> None:
        body_bytes_max = settings.limits.body_bytes_max
        self._bytes_max = max(settings.http.bodies_bytes_max, body_bytes_max)
        self._share_max = max(self._bytes_max // 2, body_bytes_max)
        self._held: Counter[UUID] = Counter()
        self._held_together = 0

    def take(self, tenant: Tenant, bytes_count: int) -> None:
        """Reserve ``bytes_count`` bytes. Raises ``Overloaded``."""
        own_max = self._share_max if tenant.has_neighbours else self._bytes_max
        if self._held[tenant.project_id] + bytes_count > own_max or self._held_together + bytes_count > self._bytes_max:
            raise Overloaded("Other requests use all the memory for bodies.")
        self._held[tenant.project_id] += bytes_count
        self._held_together += bytes_count

    def give_back(self, tenant: Tenant, bytes_count: int) -> None:
        """Release ``bytes_count`` bytes."""
        self._held_together -= bytes_count
        self._held[tenant.project_id] -= bytes_count
        if not self._held[tenant.project_id]:
            del self._held[tenant.project_id]
