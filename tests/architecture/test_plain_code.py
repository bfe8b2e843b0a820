"""Product code and docs are plain: no words of a private dialect, short lines and files, one class for each name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("clearspan", "common", "ingest", "jobs", "query_api")
SOURCES: Final = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

COLUMNS_MAX: Final = 120
LINES_MAX: Final = 400
DECISION_WORDS_MAX: Final = 520

DIALECT: Final = {
    r"so many": 0,
    r"tells? of": 0,
    r"told": 0,
    r"rooms?": 0,
    r"doors?": 0,
    r"house": 0,
    r"the way of": 0,
    r"be it": 0,
    r"in its place": 0,
    r"bury|buries|buried": 0,
    r"by and by": 0,
    r"beside": 0,
    r"whoever": 0,
    r"misfits?": 0,
    r"stretch(?:es)?": 0,
    r"(?:il)?legal": 0,
    r"such that": 0,
    r"for ever": 0,
}
"""Expressions that product code and docs do not use, and how often each may occur."""
LONG_FILES: Final[frozenset[str]] = frozenset()
"""Files that may still have more than 400 lines."""
AMBIGUOUS_CLASSES: Final = {
    "_Connection",
    "Layout",
    "Rejection",
    "Group",
    "_Reader",
    "Readiness",
    "Kind",
    "Content",
}
"""Names that may still belong to classes of two files."""


@cache
def _lines() -> list[tuple[str, str]]:
    """Return every line of the sources and pages with its place; code blocks of pages are left out."""
    texts = {path: path.read_text() for path in SOURCES}
    texts |= {path: re.sub(r"^```.*?^```$", _blank, path.read_text(), flags=re.DOTALL | re.MULTILINE) for path in PAGES}
    return [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
    ]


def _blank(block: re.Match[str]) -> str:
    """Return as many empty lines."""
    return "\n" * block[0].count("\n")


@pytest.mark.parametrize("expression", DIALECT)
def test_prose_is_plain_english(expression: str) -> None:
    words = re.compile(rf"\b(?:{expression})\b", re.IGNORECASE)

    found = [f"{place}: {line.strip()}" for place, line in _lines() if words.search(line)]

    assert len(found) <= DIALECT[expression], "\n".join(found)


def test_lines_have_at_most_120_columns() -> None:
    found = [
        f"{place}: {len(line)} columns"
        for place, line in _lines()
        if len(line) > COLUMNS_MAX and not line.startswith("|") and "http" not in line
    ]

    assert found == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/adr").glob("0*.md")), ids=lambda page: page.stem)
def test_a_decision_is_one_page(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)

    assert len(text.replace("|", " ").split()) <= DECISION_WORDS_MAX


def test_files_have_at_most_400_lines() -> None:
    lines_counts = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}

    assert {path for path, count in lines_counts.items() if count > LINES_MAX} <= LONG_FILES


def test_a_class_name_belongs_to_one_file() -> None:
    files = defaultdict[str, set[str]](set)
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files[node.name].add(str(path.relative_to(ROOT)))

    assert {name: found for name, found in files.items() if len(found) > 1 and name not in AMBIGUOUS_CLASSES} == {}
