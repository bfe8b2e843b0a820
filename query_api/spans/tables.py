"""The tables that hold spans. No other file names them: who reads one gets its rows of one project (contract §2).

``read_from`` writes the FROM of a statement with the project's condition in it, and ``require_project`` refuses a statement that
names a table in any other way. ``tests/architecture/test_project_tables.py`` holds the source to the same. (The engine's own
``additional_table_filters`` would need no text, and makes a statement 1.3 ms slower: it analyses every column of the table again.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

OF_PROJECT: Final = "{of_project}"
"""Stands for the project's condition, until ``ProjectSpans`` runs the statement."""


class Table(StrEnum):
    """A table of spans."""

    SPANS = "spans"
    VERSIONS = "span_versions"
    ARRIVALS = "span_arrivals"


_NAMED_WITH_PROJECT: Final = re.compile(
    rf"\s+(?:\(|(?:{'|'.join(Table)})(?:\s+FINAL)?\s+(?:PRE)?WHERE\s+{re.escape(OF_PROJECT)}"
    r"(?=\s+(?:AND|WHERE|GROUP|ORDER|LIMIT|SETTINGS)\b|\s*\)|\s*$))"
)
"""What may follow a FROM or a JOIN: a subquery, or a table, its project, and nothing that widens it."""


def read_from(table: Table, *where: str, prewhere: Sequence[str] = (), final: bool = False) -> str:
    """Write ``FROM table …`` with the conditions, all of which rows must meet beside being of the project.

    ``prewhere`` are looked at first, with the project, before the columns of ``where`` are read. ``final``: merged rows alone.
    """
    first = [OF_PROJECT, *prewhere]
    name = f"FROM {table} FINAL" if final else f"FROM {table}"
    if len(first) == 1:
        return f"{name}\nWHERE {_all_of([*first, *where])}"
    rest = f"\nWHERE {_all_of(where)}" if where else ""
    return f"{name}\nPREWHERE {_all_of(first)}{rest}"


def require_project(sql: str) -> None:
    """Raise ``ValueError`` if the statement names a table without its project, or none at all."""
    pieces = [after for keyword in ("FROM", "JOIN") for after in sql.split(keyword)[1:]]
    if OF_PROJECT not in sql or not all(map(_NAMED_WITH_PROJECT.match, pieces)):
        raise ValueError("a statement that reads a table without its project")


def _all_of(conditions: Iterable[str]) -> str:
    return "\n    AND ".join(f"({each})" if " OR " in each else each for each in conditions)
