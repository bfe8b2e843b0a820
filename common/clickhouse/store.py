"""The small interface to an engine that speaks ClickHouse SQL.

Two live here: ``server.py`` over HTTP, ``embedded.py`` with chDB inside this process; ``connect.py`` chooses. One
battery in ``tests/contract`` runs on both. Facts about the engines that this interface rests on:

- Cancelling an await does not stop a query; ``max_execution_time`` does. So a deadline is a setting of the statement.
- A handle of chDB serialises its calls; several handles on one path run in parallel.
- ``insert_deduplication_token`` works only where the table has a deduplication window: the DDL makes a repeated
  ``insert`` harmless, the token alone does not.
- Values travel only as ``{name:Type}`` parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with ``{name:Type}`` places, the values for them, and engine settings for this statement alone."""

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str | int | float] = field(default_factory=dict)


class ColumnStore(Protocol):
    """An engine. Every call is bounded by ``deadline_s``, enforced by the engine, from when it has its turn; how long it waits for that
    is up to the current tenant (``common/tenant.py``).

    Raises ``Unavailable`` and ``Overloaded`` (transient), ``DeadlineExceeded``, ``InvalidStatement`` (a bug of ours),
    ``RejectedByStore`` (``insert`` alone: these rows will never fit).
    """

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        """Insert columns by name; returns when they are durable. The same rows with the same token change nothing."""
        ...

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """The answer as Arrow columns; ``String`` comes as ``binary``, ``FixedString(n)`` as ``fixed_size_binary``."""
        ...

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        """How many rows the engine reads, in all tables together, to answer a ``SELECT``: it is run, its answer thrown away."""
        ...

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        """Run a statement that answers nothing: DDL, ``INSERT … SELECT``."""
        ...

    async def close(self) -> None:
        """Let go of the engine. Safe to call twice."""
        ...
