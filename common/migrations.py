"""Numbered SQL files, each applied once and never changed after: the rules that both databases share.

A file is ``NNNN_name.sql``. What was applied is recorded with a checksum, so that an edited file is noticed before it
does harm. How to apply and where to record lives in ``common/clickhouse/migrate.py`` and ``common/postgres/migrate.py``.

What no statement can change in a table that is there, such as the size of granules, is changed in the file that makes it. Then a line
``-- formerly`` and the checksum that the file had says that what it made before is as good.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

_FORMERLY: Final = re.compile(r"^-- formerly ([0-9a-f]{64})$", re.MULTILINE)


class IllegalMigration(Exception):
    """A file and what was recorded of it contradict each other. The message names the file."""


class Migration(NamedTuple):
    """One file: its number, the name behind it, its text and the hex SHA-256 of its bytes; and those that it had ``formerly``."""

    number: int
    name: str
    text: str
    sha256: str
    formerly: frozenset[str] = frozenset()

    def is_as_applied(self, sha256: str) -> bool:
        """Whether a database that was made by the file of this checksum is one that this program works on."""
        return sha256 == self.sha256 or sha256 in self.formerly


def load_migrations(folder: Path, /) -> list[Migration]:
    """The files of a folder in the order of their numbers. Raises ``IllegalMigration`` for two of one number."""
    migrations = [_load(path) for path in sorted(folder.glob("*.sql"))]
    for earlier, later in pairwise(migrations):
        if earlier.number == later.number:
            raise IllegalMigration(f"{earlier.name} and {later.name} have the same number {later.number}.")
    return migrations


def pending(migrations: Sequence[Migration], applied: Mapping[int, str], *, database: str) -> list[Migration]:
    """What is not applied to the ``database`` yet, in order. ``applied`` maps the number to the checksum it was applied with.

    Raises ``IllegalMigration`` when an applied file has changed, or when the database is ahead of this program.
    """
    for migration in migrations:
        if not migration.is_as_applied(applied.get(migration.number, migration.sha256)):
            raise IllegalMigration(
                f"{migration.number:04}_{migration.name}.sql was changed after it had been applied to {database};"
                " add a new file instead."
            )
    unknown = sorted(set(applied) - {migration.number for migration in migrations})
    if unknown:
        raise IllegalMigration(
            f"Migration {unknown[0]:04} is applied to {database} but not part of this program, which is older than that."
        )
    return [migration for migration in migrations if migration.number not in applied]


def is_behind(folder: Path, applied: Collection[int]) -> bool:
    """Whether a database in which the files of these numbers are applied lacks one of the folder. One that is ahead lacks none: while a
    newer program comes, the older ones go on.
    """
    return not _numbers(folder) <= set(applied)


@cache
def _numbers(folder: Path) -> frozenset[int]:
    """Of the files of this program, which stay as they are while it runs."""
    return frozenset(migration.number for migration in load_migrations(folder))


def _load(path: Path) -> Migration:
    number, _, name = path.stem.partition("_")
    if not (number.isdecimal() and name):
        raise IllegalMigration(f"{path.name} is not named NNNN_name.sql.")
    content = path.read_bytes()
    text = content.decode()
    return Migration(int(number), name, text, hashlib.sha256(content).hexdigest(), frozenset(_FORMERLY.findall(text)))
