"""The audit log: who changed what, and who was refused (ADR 0023).

An entry of a change is written before the change begins, without a status, and gets its status once. Equal refusals
share an entry with a count. All times are those of Postgres. Secrets are never given to this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import orjson

from common.named_sql import load_named_sql
from common.postgres.pool import Database, Row

_SQL: Final = load_named_sql(Path(__file__).with_name("audit.sql"))

NO_PROJECT: Final = UUID(int=0)
"""The project of entries that are of no project."""

TRIM_ROWS: Final = 10_000
"""Entries that one statement deletes."""

Entities: TypeAlias = Sequence[Mapping[str, str]]
"""What was changed: the ``id`` of each, and its ``slug`` if it has one."""


class AuditKind(StrEnum):
    """What an entry is about."""

    WRITE = "write"
    REFUSAL = "refusal"


class AuditActor(StrEnum):
    """Whose request it was: of a key of a project, of the admin key, of the command line on a server, or of nobody that
    is known: without a valid key, or without authentication."""

    KEY = "key"
    ADMINISTRATOR = "administrator"
    COMMAND_LINE = "command_line"
    NOBODY = "nobody"


class AuditOutcome(StrEnum):
    """How a request ended. ``unknown``: it still runs, its process ended, or it failed and may have had an effect."""

    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


REFUSED_STATUSES: Final = frozenset({401, 403, 429})
_UNKNOWN_FROM: Final = 499
"""From this status on a change may have had an effect: the client left, or the server failed."""

_IN_REFUSED: Final = f"IN ({', '.join(map(str, sorted(REFUSED_STATUSES)))})"

_OUTCOMES: Final[Mapping[AuditOutcome, str]] = {
    AuditOutcome.DONE: "status < 400",
    AuditOutcome.FAILED: f"status >= 400 AND status < {_UNKNOWN_FROM} AND status NOT {_IN_REFUSED}",
    AuditOutcome.REFUSED: f"status {_IN_REFUSED}",
    AuditOutcome.UNKNOWN: f"(status IS NULL OR status >= {_UNKNOWN_FROM})",
}


@dataclass(frozen=True, slots=True)
class AuditSubject:
    """Who wants what."""

    project_id: UUID
    actor: AuditActor
    operation: str
    key_id: UUID | None = None
    user_id: UUID | None = None
    address: str | None = None
    actor_name: str | None = None
    """The user of the command line; the name of a key is looked up."""


class BegunWrite(NamedTuple):
    """A change that is about to begin."""

    subject: AuditSubject
    request_id: str | None
    entities: Entities
    is_in_postgres: bool = False
    """Whether all that it changes is in the same Postgres: then the entry is durable as soon as the change is."""


class EndedWrite(NamedTuple):
    """A change that has ended; without ``entities`` those of its begin stay."""

    entry_id: int
    status: int
    entities: Entities | None


class CountedRefusals(NamedTuple):
    """Equal refusals, and how many seconds ago the first and the last was."""

    subject: AuditSubject
    status: int
    requests_count: int
    first_s: float
    last_s: float


class AuditEntry(NamedTuple):
    """One entry of the log."""

    id: int
    kind: AuditKind
    project_id: UUID
    at: datetime
    until: datetime | None
    requests_count: int
    actor: AuditActor
    actor_name: str | None
    key_id: UUID | None
    user_id: UUID | None
    address: str | None
    operation: str
    status: int | None
    request_id: str | None
    entities: Entities

    @property
    def outcome(self) -> AuditOutcome:
        """How the request ended."""
        if self.status is None or self.status >= _UNKNOWN_FROM:
            return AuditOutcome.UNKNOWN
        if self.status in REFUSED_STATUSES:
            return AuditOutcome.REFUSED
        return AuditOutcome.DONE if self.status < 400 else AuditOutcome.FAILED


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries. ``None`` is all of them."""

    project_id: UUID | None = None
    key_id: UUID | None = None
    operation: str | None = None
    outcome: AuditOutcome | None = None
    entity_id: str | None = None
    oldest: datetime | None = None
    """Included."""
    newest: datetime | None = None
    """Excluded."""
    before_id: int | None = None
    """Only entries with smaller ids, which are older."""


_CONDITIONS: Final[Mapping[str, str]] = {
    "project_id": "project_id = ${}::uuid",
    "key_id": "key_id = ${}::uuid",
    "operation": "operation = ${}::text",
    "entity_id": "entities @> jsonb_build_array(jsonb_build_object('id', ${}::text))",
    "oldest": "coalesce(until, at) >= ${}::timestamptz",
    "newest": "at < ${}::timestamptz",
    "before_id": "id < ${}::bigint",
}


class AuditLog:
    """The table. Raises the errors of ``Database``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, writes: Sequence[BegunWrite], /) -> list[int]:
        """Write entries of changes that are about to begin; return their ids in the same order.

        Changes that are all in Postgres do not wait until the disk has their entries: the disk gets commits in their
        order, so it cannot have a change and lack its entry.
        """
        columns = zip(*map(_columns_of_write, writes), strict=True)
        is_on_disk = not all(write.is_in_postgres for write in writes)
        rows = await self._database.fetch_all(_SQL["begin_writes"], *map(list, columns), is_on_disk)
        return [row["id"] for row in rows]

    async def end(self, writes: Sequence[EndedWrite], /) -> None:
        """Set the status of entries that have none."""
        entities = [None if write.entities is None else _text(write.entities) for write in writes]
        statuses = [write.status for write in writes]
        await self._database.fetch_all(_SQL["end_writes"], [write.entry_id for write in writes], statuses, entities)

    async def add_refusals(self, refusals: Sequence[CountedRefusals], /) -> None:
        """Write one entry for each group of refusals."""
        columns = zip(*map(_columns_of_refusals, refusals), strict=True)
        await self._database.fetch_all(_SQL["add_refusals"], *map(list, columns))

    async def read(self, wanted: AuditFilter, /, *, count_max: int) -> list[AuditEntry]:
        """Return the newest entries that match, newest first."""
        conditions, arguments = ["true"], []
        for name, condition in _CONDITIONS.items():
            value = getattr(wanted, name)
            if value is not None:
                arguments.append(value)
                conditions.append(condition.format(len(arguments)))
        if wanted.outcome is not None:
            conditions.append(_OUTCOMES[wanted.outcome])
        arguments.append(count_max)
        sql = _SQL["read_entries"].replace("{conditions}", " AND ".join(conditions))
        rows = await self._database.fetch_all(sql.replace("{limit}", f"${len(arguments)}::int"), *arguments)
        return [_entry(row) for row in rows]

    async def trim_project(self, project_id: UUID, kind: AuditKind, /, *, count_max: int) -> int:
        """Delete the oldest entries of a project beyond ``count_max``, at most ``TRIM_ROWS``; return how many."""
        row = await self._database.fetch_one(_SQL["trim_project"], project_id, kind, count_max, TRIM_ROWS)
        return 0 if row is None else int(row["n"])

    async def trim_age(self, days: float, /) -> int:
        """Delete the oldest entries beyond an age, at most ``TRIM_ROWS``; return how many."""
        row = await self._database.fetch_one(_SQL["trim_age"], days, TRIM_ROWS)
        return 0 if row is None else int(row["n"])


def _columns_of_write(write: BegunWrite) -> tuple[Any, ...]:
    subject = write.subject
    return (
        subject.project_id,
        subject.actor,
        subject.actor_name,
        subject.key_id,
        subject.user_id,
        subject.address,
        subject.operation,
        write.request_id,
        _text(write.entities),
    )


def _columns_of_refusals(refusals: CountedRefusals) -> tuple[Any, ...]:
    subject = refusals.subject
    return (
        subject.project_id,
        subject.actor,
        subject.key_id,
        subject.user_id,
        subject.address,
        subject.operation,
        refusals.status,
        refusals.first_s,
        refusals.last_s,
        refusals.requests_count,
    )


def _text(entities: Entities) -> str:
    return orjson.dumps(list(entities)).decode()


def _entry(row: Row) -> AuditEntry:
    members = dict(row)
    members["kind"], members["actor"] = AuditKind(row["kind"]), AuditActor(row["actor"])
    return AuditEntry(**{**members, "entities": orjson.loads(row["entities"])})
