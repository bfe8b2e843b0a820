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
PACKAGES: Final = ("clearspan", "common", "ingest", "query_api")
SOURCES: Final = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

COLUMNS_MAX: Final = 120
LINES_MAX: Final = 400

DIALECT: Final = {
    r"so many": 41,
    r"tells? of": 9,
    r"told": 49,
    r"rooms?": 42,
    r"doors?": 12,
    r"house": 5,
    r"the way of": 10,
    r"be it": 3,
    r"in its place": 8,
    r"bury|buries|buried": 19,
    r"by and by": 0,
    r"beside": 106,
    r"whoever": 11,
    r"misfits?": 0,
    r"stretch(?:es)?": 17,
}
"""Expressions that product code and docs do not use, and how often each may still occur."""
LONG_LINES_MAX: Final = 1_345
"""Lines of code and pages that may still have more than 120 columns."""
LONG_FILES: Final = {"common/codec/otlp_json.py", "common/settings.py", "ingest/worker.py"}
"""Files that may still have more than 400 lines."""
AMBIGUOUS_CLASSES: Final = {
    "_Connection",
    "Layout",
    "_Below",
    "_Place",
    "Bounds",
    "Rejection",
    "Group",
    "_Reader",
    "Field",
    "_Plan",
    "_Codec",
    "Failure",
    "_Ended",
    "_Lane",
    "_Server",
    "Readiness",
    "Kind",
    "Content",
    "Place",
    "_Known",
    "Question",
    "_PageInProgress",
    "Snapshot",
    "Order",
    "Found",
    "Header",
    "AskedFlags",
    "Asked",
    "Target",
}
"""Names that may still belong to classes of two files."""


@cache
def _lines() -> list[tuple[str, str]]:
    """Every line of the sources and pages, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in [*SOURCES, *PAGES]
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    ]


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

    assert len(found) <= LONG_LINES_MAX, "\n".join(found)


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
