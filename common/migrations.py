"""Numbered SQL files, each applied once and never changed afterwards: the rules that both databases share.

A file is ``NNNN_name.sql``. Each applied file is recorded with a checksum, so that a later edit of it is noticed.
``common/clickhouse/migrate.py`` and ``common/postgres/migrate.py`` apply the files and record them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class InvalidMigration(Exception):
    """A file contradicts the record of the applied files. The message names the file."""


class Migration(NamedTuple):
    """One file: its number, its name without the number, its text and the hex SHA-256 of its bytes."""

    number: int
    name: str
    text: str
    sha256: str


def load_migrations(folder: Path, /) -> list[Migration]:
    """Return the files of a folder in the order of their numbers. Raises ``InvalidMigration`` if two have the same
    number.
    """
    migrations = [_load(path) for path in sorted(folder.glob("*.sql"))]
    for earlier, later in pairwise(migrations):
        if earlier.number == later.number:
            raise InvalidMigration(f"{earlier.name} and {later.name} have the same number {later.number}.")
    return migrations


def pending(migrations: Sequence[Migration], applied: Mapping[int, str], *, database: str) -> list[Migration]:
    """Return the migrations that are not applied yet, in order. ``applied`` maps numbers to checksums, ``database``
    is for messages.

    Raises ``InvalidMigration`` if an applied file has changed, or if the database is ahead of this program.
    """
    for migration in migrations:
        if applied.get(migration.number, migration.sha256) != migration.sha256:
            raise InvalidMigration(
                f"{migration.number:04}_{migration.name}.sql was changed after it had been applied to {database};"
                " add a new file instead."
            )
    unknown = sorted(set(applied) - {migration.number for migration in migrations})
    if unknown:
        raise InvalidMigration(
            f"Migration {unknown[0]:04} is applied to {database} but not part of this program:"
            " the program is older than the database."
        )
    return [migration for migration in migrations if migration.number not in applied]


def is_behind(folder: Path, applied: Collection[int]) -> bool:
    """Whether the database lacks a migration of the folder. A database that is ahead does not, so older programs keep
    running during an upgrade.
    """
    return not _numbers(folder) <= set(applied)


@cache
def _numbers(folder: Path) -> frozenset[int]:
    """Cached: the files of the program do not change while it runs."""
    return frozenset(migration.number for migration in load_migrations(folder))


def _load(path: Path) -> Migration:
    number, _, name = path.stem.partition("_")
    if not (number.isdecimal() and name):
        raise InvalidMigration(f"{path.name} is not named NNNN_name.sql.")
    content = path.read_bytes()
    return Migration(int(number), name, content.decode(), hashlib.sha256(content).hexdigest())
