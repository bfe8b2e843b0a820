"""Only ``read_from`` names tables of spans, and only ``ProjectSpans`` creates statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
QUERY_API: Final = ROOT / "query_api"
PROJECT_SPANS: Final = QUERY_API / "spans/project_spans.py"
POSTGRES: Final = QUERY_API / "registry"
"""Has tables of another engine, whose statements another test reads."""

SOURCES: Final = sorted(
    path
    for path in [*QUERY_API.rglob("*.py"), *(ROOT / "jobs").rglob("*.py")]
    if path != PROJECT_SPANS and not path.is_relative_to(POSTGRES)
)
_NAMED: Final = re.compile(r"\b(?:FROM|JOIN)\s*(?:[\w`\"]|$)|\{of_project\}")
"""A table by its name, or the end of a literal at which a name is put in; and the project's condition by hand."""


def _literals(tree: ast.AST) -> Iterator[str]:
    """Return the string literals, those inside f-strings included, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def _tables_named(source: str) -> list[str]:
    return [match[0] for each in _literals(ast.parse(source)) if (match := _NAMED.search(each))]


def test_no_source_names_a_table_except_the_one_that_adds_the_project() -> None:
    named = {str(path.relative_to(ROOT)): _tables_named(path.read_text()) for path in SOURCES}

    assert {path: tables for path, tables in named.items() if tables} == {}


def test_a_name_is_found_in_every_kind_of_literal() -> None:
    assert _tables_named('a = "SELECT 1 FROM spans"')
    assert _tables_named('a = f"SELECT 1 FROM {table} WHERE 1"')
    assert _tables_named('a = f"SELECT {b}\\nFROM span_versions FINAL"')
    assert _tables_named('a = "ANY INNER JOIN spans"')
    assert _tables_named('a = "WHERE {of_project} AND 1"')
    assert not _tables_named('"""Read FROM spans."""\na = f"SELECT 1 FROM ({b})"\n"""FROM spans"""')


def test_only_project_spans_creates_statements() -> None:
    made_in = [
        path for path in [*SOURCES, PROJECT_SPANS] if re.search(r"\bStatement\b.*|\bimport_module\b", path.read_text())
    ]

    assert made_in == [PROJECT_SPANS]
