"""Columns of ``spans`` that statements name like any other and that the engine computes (``computed_columns.sql``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from common.named_sql import load_named_sql

ATTRIBUTES_COLUMN: Final = "attributes_json"
"""The column from which attributes are read, however they are stored."""

_EXPRESSIONS: Final = load_named_sql(Path(__file__).with_suffix(".sql"))
_NAMES: Final = re.compile(rf"\b({'|'.join(_EXPRESSIONS)})\b")


def with_computed_columns(sql: str) -> str:
    """Return a statement with the expression of each computed column in the place of its name.

    A statement that reads the result of another one must use another name for it.
    """
    return _NAMES.sub(lambda name: f"({_EXPRESSIONS[name[1]]} AS {name[1]})", sql)
