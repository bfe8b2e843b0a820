"""The masking rules of projects: replaced as a whole, read by all workers.

The secret of a project's hashes is made with its first rules and stays, so that equal values keep equal hashes.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from common.masking import MaskAction, MaskPlace, MaskRule, MaskSet, ProjectRules, pack
from common.named_sql import load_named_sql
from common.postgres.pool import Database, Row

SQL: Final = load_named_sql(Path(__file__).with_name("masking.sql"))
_HASH_KEY_BYTES: Final = 32


class StoredRules(NamedTuple):
    """The rules of a project, and how many values they have masked."""

    rules: Sequence[MaskRule]
    values_count: int
    masked_at: datetime | None
    updated_at: datetime
    updated_by: UUID


class MaskingRules:
    """The rules of all projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, project_id: UUID, /) -> StoredRules | None:
        """Return the rules of a project; ``None`` if it has none."""
        row = await self._database.fetch_one(SQL["rules_of"], project_id)
        return None if row is None else _stored(row)

    async def replace(self, project_id: UUID, rules: Sequence[MaskRule], /, *, user_id: UUID) -> StoredRules:
        """Replace the rules of a project, which must exist."""
        members = orjson.dumps([rule._asdict() for rule in rules]).decode()
        row = await self._database.fetch_one(
            SQL["replace_rules"], project_id, members, secrets.token_bytes(_HASH_KEY_BYTES), user_id
        )
        assert row is not None  # noqa: S101 - the statement returns the row that it writes
        return _stored(row)

    async def read(self) -> MaskSet:
        """Return the rules of all projects that have some."""
        rows = await self._database.fetch_all(SQL["all_rules"])
        return pack({row["project_id"]: ProjectRules(_rules(row), bytes(row["hash_key"])) for row in rows})

    async def add_counts(self, counts: Mapping[UUID, int], /) -> None:
        """Add to the numbers of masked values."""
        await self._database.fetch_all(SQL["add_counts"], list(counts), list(counts.values()))


def _stored(row: Row) -> StoredRules:
    return StoredRules(_rules(row), row["values_count"], row["masked_at"], row["updated_at"], row["updated_by"])


def _rules(row: Row) -> tuple[MaskRule, ...]:
    members: list[dict[str, Any]] = orjson.loads(row["rules"])
    return tuple(
        MaskRule(MaskAction(rule["action"]), rule["key"], rule["value"], tuple(map(MaskPlace, rule["places"])))
        for rule in members
    )
