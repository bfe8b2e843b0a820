"""The engine settings that every statement carries, the same on both engines."""

from __future__ import annotations

from typing import TypeAlias

from common.clickhouse.store import Statement

Settings: TypeAlias = dict[str, str | int | float]


def statement_settings(statement: Statement, *, deadline_s: float) -> Settings:
    """Settings of a statement: its own, and the deadline, at which the engine itself stops."""
    return {
        "output_format_arrow_string_as_string": 0,  # bytes: what is stored need not be UTF-8
        # By default the fourth statement of the same text waits 13 ms for a compiler; no scan is quicker for it (ADR 0003).
        "compile_expressions": 0,
        **statement.settings,
        **_deadline(deadline_s),
    }


def insert_settings(dedup_token: str, *, deadline_s: float) -> Settings:
    """Settings that make an insert durable when it returns, and harmless when it is repeated with its token."""
    return {
        "insert_deduplication_token": dedup_token,
        # Without it a repeated block would be dropped from the table and enter the tables behind its views again.
        "deduplicate_blocks_in_dependent_materialized_views": 1,
        "async_insert": 0,  # on by default since 26; it would answer for a batch that somebody else's rows joined
        "max_partitions_per_insert_block": 0,  # a batch may hold spans of any age
        "input_format_null_as_default": 0,  # a null where none may be is an error of ours, not an empty text
        **_deadline(deadline_s),
    }


def _deadline(deadline_s: float) -> Settings:
    return {"max_execution_time": round(deadline_s, 3), "timeout_overflow_mode": "throw"}
