"""The statements of ``queries.sql`` by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from common.named_sql import load_named_sql

SQL: Final = load_named_sql(Path(__file__).with_suffix(".sql"))
