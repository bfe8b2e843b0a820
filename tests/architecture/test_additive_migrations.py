"""Processes of the last release run on the tables of this one (docs/upgrade.md): migrations only add to what it uses."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
WHEELS: Final = ROOT / "tests" / "data" / "old_release"
BREAKING: Final = re.compile(
    r"\b(?:DROP\s+(?:TABLE|VIEW|COLUMN|DATABASE|INDEX)|RENAME|(?:ALTER|MODIFY)\s+COLUMN|SET\s+NOT\s+NULL)\b",
    re.IGNORECASE,
)
"""What takes something away from a program that knows the tables as they were."""

ALLOWED: Final = {
    "common/clickhouse/ddl/0006_small_indexes.sql": ["DROP INDEX", "DROP INDEX"],
    "common/clickhouse/ddl/0008_repaired.sql": ["MODIFY COLUMN"],
    "common/postgres/ddl/0010_leases.sql": ["DROP TABLE", *["DROP COLUMN"] * 8, "DROP INDEX"],
}
"""Without the indexes the last release finds the same spans, but reads every row for it. Keeping them would cost each
span more than the new ones save (docs/upgrade.md). The column gets another bit, which the last release does not read.
Processes of the last release cannot deliver with the new leases: it was never published.
"""


def _in_old_release() -> dict[str, str]:
    """Return the text of each migration of the last release by its path."""
    [wheel] = WHEELS.glob("*.whl")
    with zipfile.ZipFile(wheel) as packages:
        names = [name for name in packages.namelist() if re.fullmatch(r"common/\w+/ddl/\w+\.sql", name)]
        return {name: packages.read(name).decode() for name in names}


def _of_this_tree() -> dict[str, str]:
    paths = sorted((ROOT / "common").glob("*/ddl/*.sql"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def test_released_migrations_are_not_changed() -> None:
    here = _of_this_tree()

    assert {path: here.get(path) for path in _in_old_release()} == _in_old_release()


def test_new_migrations_take_nothing_away() -> None:
    new = {path: text for path, text in _of_this_tree().items() if path not in _in_old_release()}

    found = {path: BREAKING.findall(re.sub(r"--.*", "", text)) for path, text in new.items()}

    assert {path: words for path, words in found.items() if words} == ALLOWED


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE spans{on_cluster} DROP COLUMN name;",
        "ALTER TABLE api_keys RENAME COLUMN name TO title;",
        "ALTER TABLE api_keys ALTER COLUMN name TYPE int;",
        "ALTER TABLE spans{on_cluster} DROP INDEX IF EXISTS name_index;",
        "drop table projects;",
    ],
)
def test_statements_that_take_something_away_are_found(statement: str) -> None:
    assert BREAKING.search(statement)
