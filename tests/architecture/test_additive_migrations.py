"""Processes of the last release run on the tables of this one (docs/upgrade.md): migrations only add to what it uses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BREAKING: Final = re.compile(
    r"\b(?:DROP\s+(?:TABLE|VIEW|COLUMN|DATABASE|INDEX)|RENAME|(?:ALTER|MODIFY)\s+COLUMN|SET\s+NOT\s+NULL)\b",
    re.IGNORECASE,
)
"""What takes something away from a program that knows the tables as they were."""


def test_migrations_after_the_first_take_nothing_away() -> None:
    later = [path for path in (ROOT / "common").glob("*/ddl/*.sql") if not path.name.startswith("0001_")]

    found = {path.name: BREAKING.findall(re.sub(r"--.*", "", path.read_text())) for path in later}

    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE spans{local} DROP COLUMN name;",
        "ALTER TABLE api_keys RENAME COLUMN name TO title;",
        "ALTER TABLE api_keys ALTER COLUMN name TYPE int;",
        "ALTER TABLE spans{local} DROP INDEX IF EXISTS name_index;",
        "drop table projects;",
    ],
)
def test_statements_that_take_something_away_are_found(statement: str) -> None:
    assert BREAKING.search(statement)
