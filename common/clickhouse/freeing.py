"""Free the disk space of rows that no query returns any more (ADR 0018).

A *dead* row is one of a project and a time up to which retention has deleted, whose span is deleted or has a later
version in its partition. Dead rows stay dead, so it does not matter when one is removed.

Parts are immutable. A part of which every row is dead is dropped, which costs nothing. Other parts are rewritten
without their dead rows by a mutation, which the engine runs in the background, one part after the other. A row that is
not dead is copied for that, so a partition waits until enough of it is dead (``FREED_SHARE``), or until its turn is
due. All of this is done for each shard by itself: parts of two shards may have the same name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.clickhouse.store import Shard, Statement
from common.errors import InvalidStatement, Unavailable
from common.limits import SpanLimits
from common.named_sql import load_named_sql
from common.span_version import IS_SENT_SQL, OFFSET_SQL

SQL_OF_FREEING: Final = {
    name: sql.replace("{record_offset}", OFFSET_SQL).replace("{is_sent}", IS_SENT_SQL)
    for name, sql in load_named_sql(Path(__file__).with_name("freeing.sql")).items()
}

TABLES: Final = ("spans", "span_arrivals", "span_versions", "span_events", "settled_traces")
"""In the order in which they are freed: whether an arrival is dead depends on ``spans``."""

TABLES_OF_PROJECT: Final = (*TABLES, "judged_spans", "stored_through", "trace_settlings")

FREED_SHARE: Final = 0.25
"""A partition is rewritten when this share of its rows is dead: at most three rows are copied for each that goes."""

RANGES_MAX: Final = 50
"""Projects in one mutation; others follow in the next run."""

CLOCKS_US: Final = 3_600_000_000
"""By how much the clocks of two machines may differ."""

DEADLINE_S: Final = 60.0
FIND_S: Final = 600.0
"""For one statement that reads all versions of a project: a second for a few million."""

_NO_SUCH_PART: Final = "NO_SUCH_DATA_PART"


@dataclass(frozen=True, slots=True)
class DeadRange:
    """Where dead rows of a project may be: those of spans that start before ``before_us``.

    ``through`` is the last offset of each partition whose rows and versions are surely visible. Without it every row of
    the project is dead.
    """

    project_id: UUID
    before_us: int = 0
    through: Mapping[str, int] | None = None
    is_due: bool = False
    """Whether its rows are freed even if they are few."""

    ahead_us: int = SpanLimits().ahead_ns_max // 1_000
    """How much later than it was stored a span may start."""


class DeadPart(NamedTuple):
    """The dead rows of one range in one part of a table."""

    part: str
    partition: str
    rows_count: int
    dead_count: int
    range: DeadRange


async def find_dead(shard: Shard, table: str, dead: DeadRange) -> list[DeadPart]:
    """Return the parts of a table that have dead rows of a range. Raises the errors of ``ColumnStore``."""
    condition, values = _condition(table, [dead])
    sql = _named(shard, SQL_OF_FREEING["dead_rows"].replace("{table}", table).replace("{condition}", condition))
    rows = (await shard.store.select(Statement(sql, values, {"max_threads": 1}), deadline_s=FIND_S)).to_pylist()
    sizes = await _part_sizes(shard, table) if rows else {}
    return [
        DeadPart(row["part"].decode(), *sizes[row["part"].decode()], row["dead_count"], dead)
        for row in rows
        if row["part"].decode() in sizes  # otherwise it has been merged by now
    ]


async def drop_dead_parts(shard: Shard, table: str, dead_parts: Sequence[DeadPart]) -> int:
    """Drop the parts of which every row is dead; return how many rows they had."""
    dead_counts: dict[str, int] = defaultdict(int)
    for dead in dead_parts:
        dead_counts[dead.part] += dead.dead_count
    rows_counts = {dead.part: dead.rows_count for dead in dead_parts}
    freed = 0
    for part, dead_count in dead_counts.items():
        if dead_count == rows_counts[part]:
            freed += dead_count if await _drop_part(shard, table, part) else 0
    return freed


async def rewrite_partitions(shard: Shard, table: str, dead_parts: Sequence[DeadPart]) -> int:
    """Begin to rewrite the partitions of which enough is dead; return how many rows will be freed.

    Does nothing while an earlier rewrite of the table is not done.
    """
    if not dead_parts or await is_rewriting(shard, table):
        return 0
    freed = 0
    for partition, found in _by_partition(dead_parts).items():
        dead_count = sum(dead.dead_count for dead in found)
        rows_count = sum({dead.part: dead.rows_count for dead in found}.values())
        if dead_count >= FREED_SHARE * rows_count or any(dead.range.is_due for dead in found):
            await _rewrite(shard, table, partition, _distinct([dead.range for dead in found])[:RANGES_MAX])
            freed += dead_count
    return freed


async def is_rewriting(shard: Shard, table: str) -> bool:
    """Return whether a rewrite is not done yet. Raises ``Unavailable``, with its reason, if it cannot be done."""
    of_table = {"table": table + shard.suffix}
    rows = await shard.store.select(Statement(SQL_OF_FREEING["rewrites"], of_table), deadline_s=DEADLINE_S)
    for row in rows.to_pylist():
        if row["failure"]:
            mutation = {**of_table, "mutation": row["mutation_id"].decode()}
            await shard.store.execute(Statement(SQL_OF_FREEING["stop_rewrite"], mutation), deadline_s=DEADLINE_S)
            raise Unavailable(f"The engine cannot rewrite {table}: {row['failure'].decode()}")
    return bool(rows.num_rows)


async def _part_sizes(shard: Shard, table: str) -> dict[str, tuple[str, int]]:
    of_table = {"table": table + shard.suffix}
    rows = await shard.store.select(Statement(SQL_OF_FREEING["part_sizes"], of_table), deadline_s=DEADLINE_S)
    return {row["name"].decode(): (row["partition"].decode(), row["rows_count"]) for row in rows.to_pylist()}


async def _drop_part(shard: Shard, table: str, part: str) -> bool:
    """Drop a part; return false if it has been merged by now."""
    try:
        drop = Statement(f"ALTER TABLE {table}{shard.suffix} DROP PART '{part}'")
        await shard.store.execute(drop, deadline_s=DEADLINE_S)
    except InvalidStatement as exc:
        if _NO_SUCH_PART not in exc.detail:
            raise
        return False
    return True


async def _rewrite(shard: Shard, table: str, partition: str, ranges: Sequence[DeadRange]) -> None:
    condition, values = _condition(table, ranges)
    where = "" if partition == "all" else f"IN PARTITION ID '{partition}' "
    settings = {"allow_nondeterministic_mutations": 1, "mutations_sync": 0, "alter_sync": 0}
    sql = _named(shard, f"ALTER TABLE {table}{shard.suffix} DELETE {where}WHERE {condition}")
    await shard.store.execute(Statement(sql, values, settings), deadline_s=DEADLINE_S)


def _named(shard: Shard, sql: str) -> str:
    """Return a statement with the names of the tables of the shard."""
    return sql.replace("{local}", shard.suffix)


def _by_partition(dead_parts: Sequence[DeadPart]) -> dict[str, list[DeadPart]]:
    by_partition: dict[str, list[DeadPart]] = defaultdict(list)
    for dead in dead_parts:
        by_partition[dead.partition].append(dead)
    return by_partition


def _distinct(ranges: Sequence[DeadRange]) -> list[DeadRange]:
    return list({dead.project_id: dead for dead in ranges}.values())


def _condition(table: str, ranges: Sequence[DeadRange]) -> tuple[str, dict[str, Any]]:
    """Return the condition of the dead rows of these ranges, and its values."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    for number, dead in enumerate(ranges):
        name = "rows_of_project" if dead.through is None else f"dead_{table}"
        parts.append(SQL_OF_FREEING[name].strip().replace("{n}", str(number)))
        values[f"project_{number}"] = str(dead.project_id)
        if dead.through is not None:
            values |= {
                f"before_{number}": dead.before_us,
                f"ahead_{number}": dead.ahead_us + CLOCKS_US,
                f"partitions_{number}": list(dead.through),
                f"offsets_{number}": list(dead.through.values()),
            }
    return " OR ".join(f"({part})" for part in parts), values
