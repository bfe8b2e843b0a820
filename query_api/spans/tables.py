"""The tables of spans. No other file names them: a statement reads the rows of one project (contract §2).

``read_from`` writes the FROM of a statement with the condition on the project, and ``require_project`` rejects a
statement that names a table in any other way. ``queries.sql`` holds the statements whose text is fixed.
``tests/architecture/test_project_tables.py`` checks the source for the same. (The engine's
``additional_table_filters`` would need no text, but makes a statement 1.3 ms slower: the engine analyses every column
of the table again.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from common.named_sql import load_named_sql

OF_PROJECT: Final = "{of_project}"
"""The placeholder of the condition on the project; ``ProjectSpans`` fills it when it runs the statement."""

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
"""The fixed statements by name. Words in braces without a type are filled by the caller."""


class Table(StrEnum):
    """A table of spans."""

    SPANS = "spans"
    VERSIONS = "span_versions"
    ARRIVALS = "span_arrivals"


_END_OF_SOURCE: Final = r"(?=\s+(?:AND|WHERE|GROUP|ORDER|LIMIT|SETTINGS)\b|\s*\)|\s*$)"
_NAMED_WITH_PROJECT: Final = re.compile(
    rf"\s+(?:\(|(?:{'|'.join(Table)})(?:\s+FINAL)?\s+(?:PRE)?WHERE\s+{re.escape(OF_PROJECT)}{_END_OF_SOURCE})"
)
"""What may follow FROM or JOIN: a subquery, or a table and its project, and nothing that widens it."""

_NAMED_QUERY: Final = re.compile(rf"\s+(\w+){_END_OF_SOURCE}")
_DEFINED_QUERY: Final = re.compile(r"\b(\w+) AS\s*\(\s*SELECT\b")


def read_from(table: Table, *where: str, prewhere: Sequence[str] = (), final: bool = False) -> str:
    """Write ``FROM table …`` with the condition on the project and all of these conditions.

    ``prewhere`` is evaluated first, together with the project, before the columns of ``where`` are read. ``final``:
    merged rows only.
    """
    first = [OF_PROJECT, *prewhere]
    name = f"FROM {table} FINAL" if final else f"FROM {table}"
    if len(first) == 1:
        return f"{name}\nWHERE {_all_of([*first, *where])}"
    rest = f"\nWHERE {_all_of(where)}" if where else ""
    return f"{name}\nPREWHERE {_all_of(first)}{rest}"


def require_project(sql: str) -> None:
    """Raise ``ValueError`` if the statement names a table without its project, or reads no table."""
    sources = [after for keyword in ("FROM", "JOIN") for after in sql.split(keyword)[1:]]
    others = [source for source in sources if not _NAMED_WITH_PROJECT.match(source)]
    if OF_PROJECT not in sql or (others and not _are_defined(others, sql)):
        raise ValueError("The statement reads a table without its project.")


def _are_defined(sources: Iterable[str], sql: str) -> bool:
    """Whether each of these texts after FROM or JOIN begins with the name of a query in a WITH clause of ``sql``."""
    defined = set(_DEFINED_QUERY.findall(sql)).difference(Table)
    names = map(_NAMED_QUERY.match, sources)
    return all(name is not None and name[1] in defined for name in names)


def _all_of(conditions: Iterable[str]) -> str:
    return "\n    AND ".join(f"({condition})" if " OR " in condition else condition for condition in conditions)
