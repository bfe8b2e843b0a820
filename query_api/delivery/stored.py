"""Subscriptions and alerts in Postgres, as users see and change them. Every statement has the project as ``$1``.

A change takes the leases back, so that the process that works on it reads it again (``jobs``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

import orjson

from common.errors import Conflict
from common.named_sql import load_named_sql
from common.postgres.leases import Kind, add_leases, remove_leases, take_back
from common.postgres.pool import Database, Row

_SQL: Final = load_named_sql(Path(__file__).with_name("resources.sql"))

JsonObject = Mapping[str, Any]
Values = Mapping[str, object]
"""The columns to write. Objects and lists are stored as JSON."""

NOT_FAILING: Final[Values] = {"attempts": 0, "failing_since": None, "retry_at": None}


class Stored(Protocol):
    """What subscriptions and alerts have in common. ``target`` is without its secrets."""

    @property
    def id(self) -> UUID: ...  # noqa: D102 - the name of the column
    @property
    def slug(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str | None: ...  # noqa: D102
    @property
    def selection(self) -> JsonObject: ...  # noqa: D102
    @property
    def target(self) -> JsonObject: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def failing_since(self) -> datetime | None: ...  # noqa: D102


R = TypeVar("R", bound=Stored)


class Verbatim(str):
    """A value that is part of the statement."""

    __slots__ = ()


DEFAULT: Final = Verbatim("DEFAULT")
"""The default of the column."""


@dataclass(frozen=True, slots=True)
class ResourceTable(Generic[R]):
    """A table of what a project has: ``columns`` are what users see. Each row has leases of these kinds."""

    name: str
    make: Callable[..., R]
    columns: Sequence[str]
    json_columns: frozenset[str]
    kinds: tuple[Kind, ...]
    limit: str
    """The setting of the largest number of rows of a project."""

    on_resume: Values
    on_change: Values
    """What every change sets, too."""

    def statement(self, name: str, **parts: str) -> str:
        """Return a statement about this table."""
        return _SQL[name].format(table=self.name, columns=", ".join(self.columns), **parts)

    def loaded(self, row: Row | None) -> R | None:
        """Return a row, ``None`` for none."""
        if row is None:
            return None
        return self.make(**{**row, **{name: orjson.loads(row[name]) for name in self.json_columns}})


@dataclass(frozen=True, slots=True)
class Rows(Generic[R]):
    """The rows of one project. What does not exist is ``None``. Raises the errors of ``Database``."""

    table: ResourceTable[R]
    database: Database
    project_id: UUID
    user_id: UUID

    async def create(self, values: Values, /, *, max_count: int) -> R:
        """Create a row. Raises ``Conflict`` at ``max_count``, ``UniqueViolation`` if the slug is in use."""
        table = self.table
        async with self.database.transaction() as transaction:
            await transaction.fetch_one(_SQL["lock_project"], self.project_id)
            row = await transaction.fetch_one(table.statement("count"), self.project_id)
            if row is not None and row["number"] >= max_count:
                raise Conflict(
                    f"This project has {row['number']} {table.name}, and {table.limit} allows {max_count}: delete one"
                    " first."
                )
            numbers = ", ".join(f"${number}" for number in range(3, 3 + len(values)))
            sql = table.statement("create", names=", ".join(values), values=numbers)
            arguments = map(_to_store, values.values())
            created = table.loaded(await transaction.fetch_one(sql, self.project_id, self.user_id, *arguments))
            assert created is not None  # noqa: S101 - an INSERT of one row returns it, or raises
            await add_leases(transaction, table.kinds, created.id, self.project_id)
        return created

    async def find(self, id_or_slug: UUID | str, /) -> R | None:
        """Return the row of that id or slug."""
        key = (id_or_slug, None) if isinstance(id_or_slug, UUID) else (None, id_or_slug)
        return self.table.loaded(await self.database.fetch_one(self.table.statement("find"), self.project_id, *key))

    async def all(self) -> list[R]:
        """Return every row, oldest first."""
        rows = await self.database.fetch_all(self.table.statement("list"), self.project_id)
        return [loaded for row in rows if (loaded := self.table.loaded(row)) is not None]

    async def secrets(self, id_: UUID, /) -> JsonObject:
        """Return the members of the target that reads do not show."""
        row = await self.database.fetch_one(self.table.statement("find_secrets"), self.project_id, id_)
        secrets: JsonObject = {} if row is None else orjson.loads(row["secrets"])
        return secrets

    async def change(self, id_: UUID, values: Values, /, *, condition: str = "true") -> R | None:
        """Set some columns; ``None`` if the row does not meet the ``condition``."""
        assignments: list[str] = []
        arguments: list[object] = []
        for name, value in {**self.table.on_change, **values}.items():
            if isinstance(value, Verbatim):
                assignments.append(f"{name} = {value}")
            else:
                arguments.append(_to_store(value))
                assignments.append(f"{name} = ${3 + len(arguments)}")
        sql = self.table.statement("change", assignments=", ".join(assignments), condition=condition)
        return await self.execute(sql, id_, *arguments)

    async def execute(self, sql: str, id_: UUID, *arguments: object) -> R | None:
        """Run a statement that changes a row and returns it. It has project, id and user as ``$1`` to ``$3``."""
        async with self.database.transaction() as transaction:
            await take_back(transaction, id_)
            return self.table.loaded(await transaction.fetch_one(sql, self.project_id, id_, self.user_id, *arguments))

    async def pause(self, id_: UUID, /, *, reason: str) -> R | None:
        """Pause; what waits to be delivered stays."""
        return await self.change(id_, {"status": "paused", "reason": reason})

    async def resume(self, id_: UUID, /) -> R | None:
        """Resume at once, also what waits for its next try."""
        return await self.change(id_, {"status": "active", "reason": None, **self.table.on_resume})

    async def delete(self, id_: UUID, /) -> R | None:
        """Delete a row and return it."""
        async with self.database.transaction() as transaction:
            await remove_leases(transaction, id_)
            return self.table.loaded(await transaction.fetch_one(self.table.statement("delete"), self.project_id, id_))


def _to_store(value: object) -> object:
    return orjson.dumps(value).decode() if isinstance(value, Mapping | list) else value


NO_BATCH: Final[Values] = {"pending": None, "pending_revision": None, "pending_expired": 0, **NOT_FAILING}
"""The batch that is being delivered is given up: the next one has a new number."""

PASSED_BATCH: Final[Values] = {
    **NO_BATCH,
    "position": Verbatim("pending"),
    "expired_spans": Verbatim("expired_spans + pending_expired"),
    "expired_at": Verbatim("CASE WHEN pending_expired > 0 THEN clock_timestamp() ELSE expired_at END"),
}
"""The position is after the batch that is being delivered."""


class Subscription(NamedTuple):
    """A subscription as its project sees it, without its secrets."""

    id: UUID
    slug: str
    name: str | None
    feed: str
    selection: JsonObject
    target: JsonObject
    status: str
    reason: str | None
    position: bytes
    through_at: datetime
    batch_number: int
    pending: bytes | None
    pending_spans: int
    attempts: int
    failing_since: datetime | None
    retry_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    delivered_spans: int
    delivered_count: int
    delivered_at: datetime | None
    skipped: Sequence[JsonObject]
    rejected_spans: int
    last_rejection: str | None
    last_rejection_at: datetime | None
    expired_spans: int
    expired_at: datetime | None
    created_at: datetime
    created_by: UUID
    updated_at: datetime | None
    updated_by: UUID | None


SUBSCRIPTIONS: Final = ResourceTable(
    "subscriptions",
    make=Subscription,
    columns=Subscription._fields,
    json_columns=frozenset({"selection", "target", "skipped"}),
    kinds=(Kind.SUBSCRIPTION,),
    limit="CLEARSPAN_DELIVERY__SUBSCRIPTIONS_MAX",
    on_resume=NOT_FAILING,
    on_change={},
)


def batch_id_of(subscription_id: UUID, number: int) -> str:
    """Return the id of a batch: the same on every retry (ADR 0018)."""
    return f"msg_{subscription_id.hex}_{number}"
