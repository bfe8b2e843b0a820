"""The fixed statements, and what both engines do alike with a statement: settings, rows read, result."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

import orjson
import pyarrow as pa

from common.clickhouse.store import Statement
from common.named_sql import load_named_sql

Settings: TypeAlias = dict[str, str | int | float]

SQL: Final = load_named_sql(Path(__file__).with_name("queries.sql"))
"""The fixed statements of this package by name."""

WITH_STATISTICS: Final = "JSONCompact"
"""A format that ends with the engine's statistics. Neither driver returns the counters that come with a result in
Arrow."""


def statement_settings(statement: Statement, *, deadline_s: float, memory_bytes_max: int) -> Settings:
    """Return the settings of a statement: its own, and the bounds of time and memory that the engine enforces."""
    return {
        "output_format_arrow_string_as_string": 0,  # bytes: what is stored need not be UTF-8
        # By default the fourth statement with the same text waits 13 ms for a compiler; no scan is faster for it (ADR
        # 0003).
        "compile_expressions": 0,
        # By default each condition of a long AND is planned several times: 256 of them take three times as long (ADR
        # 0012).
        "query_plan_merge_filters": 0,
        **statement.settings,
        **_bounds(deadline_s, memory_bytes_max),
    }


def insert_settings(dedup_token: str, *, deadline_s: float, memory_bytes_max: int) -> Settings:
    """Return settings that make an insert durable when it returns, and harmless when repeated with its token."""
    return {
        "insert_deduplication_token": dedup_token,
        # Without it a repeated block would be dropped from the table and enter the tables of its views again.
        "deduplicate_blocks_in_dependent_materialized_views": 1,
        "async_insert": 0,  # on by default since 26: it returns for a batch that contains rows of other inserts
        "max_partitions_per_insert_block": 0,  # a batch may hold spans of any age
        "input_format_null_as_default": 0,  # a null where none is allowed is a bug, not an empty text
        **_bounds(deadline_s, memory_bytes_max),
    }


def _bounds(deadline_s: float, memory_bytes_max: int) -> Settings:
    return {
        "max_execution_time": round(deadline_s, 3),
        "timeout_overflow_mode": "throw",
        "max_memory_usage": memory_bytes_max,
    }


def reading_only(sql: str, /) -> str:
    """Return a ``SELECT`` that computes every column of another one and returns a number, to measure what it reads.

    Caches that an earlier run has filled are ignored.
    """
    return f"SELECT count() FROM (\n{sql}\nSETTINGS use_query_condition_cache = 0\n) WHERE NOT ignore(*)"


def rows_of(result: bytes, /) -> int:
    """Return the number of rows that were read for a result in the format ``WITH_STATISTICS``."""
    return int(orjson.loads(result)["statistics"]["rows_read"])


def table_of(arrow_stream: bytes, /) -> pa.Table:
    """Return the result as a table, each column in one piece.

    The engine makes a block of the rows that are stored together: 50 rows may come in 40 blocks, and reading 30
    columns costs for each.
    """
    return pa.ipc.open_stream(arrow_stream).read_all().combine_chunks()
