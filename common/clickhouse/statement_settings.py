"""The engine settings that every statement carries, the same on both engines."""

from __future__ import annotations

from typing import TypeAlias

from common.clickhouse.store import Statement

Settings: TypeAlias = dict[str, str | int | float]


def statement_settings(statement: Statement, *, deadline_s: float, memory_bytes_max: int) -> Settings:
    """Settings of a statement: its own, and the bounds of time and memory, at which the engine itself stops."""
    return {
        "output_format_arrow_string_as_string": 0,  # bytes: what is stored need not be UTF-8
        # By default the fourth statement of the same text waits 13 ms for a compiler; no scan is quicker for it (ADR 0003).
        "compile_expressions": 0,
        # By default each condition of a long AND is planned several times over: 256 of them take three times as long (ADR 0012).
        "query_plan_merge_filters": 0,
        **statement.settings,
        **_bounds(deadline_s, memory_bytes_max),
    }


def insert_settings(dedup_token: str, *, deadline_s: float, memory_bytes_max: int) -> Settings:
    """Settings that make an insert durable when it returns, and harmless when it is repeated with its token."""
    return {
        "insert_deduplication_token": dedup_token,
        # Without it a repeated block would be dropped from the table and enter the tables behind its views again.
        "deduplicate_blocks_in_dependent_materialized_views": 1,
        "async_insert": 0,  # on by default since 26; it would answer for a batch that somebody else's rows joined
        "max_partitions_per_insert_block": 0,  # a batch may hold spans of any age
        "input_format_null_as_default": 0,  # a null where none may be is an error of ours, not an empty text
        **_bounds(deadline_s, memory_bytes_max),
    }


def _bounds(deadline_s: float, memory_bytes_max: int) -> Settings:
    return {
        "max_execution_time": round(deadline_s, 3),
        "timeout_overflow_mode": "throw",
        "max_memory_usage": memory_bytes_max,
    }
