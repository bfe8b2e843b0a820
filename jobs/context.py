"""What the jobs of a process share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from common.clickhouse.store import ColumnStore
from common.fair_share import Tenant
from common.ids import DEFAULT_USER_ID
from common.postgres.leases import Leases
from common.postgres.pool import Database
from common.settings import Settings
from common.times import Clock
from query_api.registry.kinds import QUERIES
from query_api.registry.store import Lineage, Owner
from query_api.request.context import KeyFinder


@dataclass(frozen=True, slots=True)
class JobContext:
    """Systems and settings. ``keys`` say which projects have neighbors; ``None`` without authentication."""

    settings: Settings
    store: ColumnStore
    database: Database
    leases: Leases
    keys: KeyFinder | None
    clock: Clock

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.fromtimestamp(self.clock.now_ns() / 1e9, UTC)

    async def has_neighbors(self, project_id: UUID) -> bool:
        """Return whether other projects have keys, so that the project gets its share only."""
        return self.keys is not None and await self.keys.has_neighbors(project_id)

    async def tenant(self, project_id: UUID) -> Tenant:
        """Return who works for a project and waits as long for its share as a query."""
        return Tenant(project_id, await self.has_neighbors(project_id), queue_s=self.settings.query.queue_s)

    def saved_queries(self, project_id: UUID) -> Lineage:
        """Return the saved queries of a project."""
        return Lineage(self.database, QUERIES.kind, Owner(project_id, DEFAULT_USER_ID))
