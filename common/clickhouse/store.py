"""The interface to an engine that speaks ClickHouse SQL.

There are two: ``server.py`` over HTTP, and ``embedded.py`` with chDB inside this process; ``connect.py`` chooses. The
tests of ``tests/contract/test_column_store.py`` run on both. The interface rests on these facts about the engines:

- Cancelling an await does not stop a query; ``max_execution_time`` does. So a deadline is a setting of the statement.
- A handle of chDB serializes its calls; several handles on one path run in parallel.
- ``insert_deduplication_token`` works only where the table has a deduplication window: the DDL makes a repeated
  ``insert`` harmless, the token alone does not.
- Values are those of ``{name:Type}`` placeholders, never parts of the SQL (``engines.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

Reads: TypeAlias = Literal["all", "each shard", "one shard"]
"""What a statement reads where tables are divided among shards: all of them together, each by itself with the rows of
all results, or only one. It makes no difference where they are not."""


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with ``{name:Type}`` parameters, their values, and engine settings for this statement alone."""

    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    reads: Reads = "all"


async def read_version(store: ColumnStore, *, deadline_s: float) -> str:
    """Return the version of the engine. Raises the errors of ``ColumnStore``."""
    rows = await store.select(Statement("SELECT version() AS version"), deadline_s=deadline_s)
    return str(rows["version"][0].as_py(), "utf-8")


class ColumnStore(Protocol):
    """An engine. ``deadline_s`` bounds every call from when it starts, and the engine enforces it; how long it waits
    before that depends on the current tenant (``common/fair_share.py``).

    Raises ``Unavailable`` and ``Overloaded`` (transient), ``DeadlineExceeded``, ``InvalidStatement`` (a bug of ours),
    ``RejectedByStore`` (only ``insert``: the engine will never accept these rows).
    """

    async def insert(self, table: str, rows: pa.Table, /, *, dedup_token: str, deadline_s: float) -> None:
        """Insert columns by name; return when they are durable. The same rows with the same token change nothing."""
        ...

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        """Return the result as Arrow columns: ``String`` as ``binary``, ``FixedString(n)`` as ``fixed_size_binary``."""
        ...

    async def rows_read(self, statement: Statement, /, *, deadline_s: float) -> int:
        """Run a ``SELECT`` without its result; return how many rows the engine reads, in all tables together."""
        ...

    async def execute(self, statement: Statement, /, *, deadline_s: float) -> None:
        """Run a statement without a result: DDL, ``INSERT … SELECT``."""
        ...

    def shards(self) -> AbstractAsyncContextManager[Sequence[Shard]]:
        """Return the shards that the tables are divided among, for as long as the block runs; one if they are not."""
        ...

    async def close(self) -> None:
        """Close the engine. Safe to call twice."""
        ...


class Shard(NamedTuple):
    """One shard: statements about its own tables, whose names end with ``suffix``, go to ``store``."""

    store: ColumnStore
    suffix: str
