"""Measures what each index and each view costs an insert: ``python -m bench.indexes [SET] [SPANS] [ROUNDS]``.

The same batches are inserted into copies of the table: as it is, without one index, without one view, and without all of
them. Merges are stopped. The copies take turns, in another order in each round; the least processor time of the rounds counts,
because other load only adds to it. A second copy of the table as it is shows how much these figures vary.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.command import add_set, parser_of
from bench.engine import rows_of
from bench.harness import Row, bench_settings, migrated_store, say, table, us_per
from bench.ingest import tables_of
from bench.varied import SETS
from common.clickhouse.span_columns import SPANS_TABLE
from common.clickhouse.store import ColumnStore, Statement
from common.memory import tune_for_batches

WHOLE: Final = "everything"
AGAIN: Final = "everything, again"
NOTHING: Final = "no index and no view"
DEADLINE_S: Final = 120.0

INDEXES: Final = f"""
SELECT name FROM system.data_skipping_indices WHERE database = currentDatabase() AND table = '{SPANS_TABLE}'
"""
VIEWS: Final = f"""
SELECT name, as_select AS query, extract(create_table_query, ' TO (\\\\S+)') AS target FROM system.tables
WHERE database = currentDatabase() AND engine = 'MaterializedView' AND as_select LIKE '%.{SPANS_TABLE}%'
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the table, without these indexes and views."""

    name: str
    left_out: frozenset[str]


async def measure(name: str, *, spans_count: int, rounds: int) -> dict[str, Any]:
    """Return microseconds per span: of the whole insert, and what each part adds to it."""
    with tempfile.TemporaryDirectory() as directory:
        settings = bench_settings(Path(directory), bootstrap="127.0.0.1:1")
        batches = tables_of(SETS[name](spans_count), settings)
        async with migrated_store(settings) as store:
            await store.execute(Statement("SYSTEM STOP MERGES"), deadline_s=DEADLINE_S)
            copies = await _make_copies(store)
            order = random.Random(1)
            spent: dict[str, list[float]] = {meaning: [] for meaning in copies}
            for number in range(rounds + 1):  # the first warms up
                say(f"  {name}, {spans_count:,} spans into {len(copies)} tables, round {number} of {rounds} …")
                for meaning in order.sample(list(copies), len(copies)):
                    spent[meaning].append(await _insert(store, copies[meaning], batches, number))
    return {"set": name, "spans": spans_count, **_figures(spent, spans_count)}


def _figures(spent: Mapping[str, Sequence[float]], spans_count: int) -> dict[str, Any]:
    least = {meaning: us_per(spans_count, min(seconds[1:])) for meaning, seconds in spent.items()}
    first_us, again_us, bare_us = (least.pop(meaning) for meaning in (WHOLE, AGAIN, NOTHING))
    whole_us = min(first_us, again_us)
    parts_us = {part: round(whole_us - less_us, 1) for part, less_us in least.items()}
    spread_us = round(abs(first_us - again_us), 1)
    return {"insert_us": whole_us, "bare_us": bare_us, "spread_us": spread_us, "parts_us": parts_us}


async def _make_copies(store: ColumnStore) -> dict[str, Copy]:
    indexes = [row["name"] for row in await rows_of(store, INDEXES)]
    views = await rows_of(store, VIEWS)
    parts = [*indexes, *(view["name"] for view in views)]
    left_out = {
        WHOLE: frozenset[str](),
        AGAIN: frozenset[str](),
        NOTHING: frozenset(parts),
        **{part: frozenset([part]) for part in parts},
    }
    copies = {meaning: Copy(f"copy_{number}", out) for number, (meaning, out) in enumerate(left_out.items())}
    for copy in copies.values():
        for sql in _statements(copy, indexes, views):
            await store.execute(Statement(sql), deadline_s=DEADLINE_S)
    return copies


def _statements(copy: Copy, indexes: Sequence[str], views: Sequence[Mapping[str, str]]) -> list[str]:
    statements = [f"CREATE TABLE {copy.name} AS {SPANS_TABLE}"]
    statements += [f"ALTER TABLE {copy.name} DROP INDEX {index}" for index in indexes if index in copy.left_out]
    for view in views:
        if view["name"] not in copy.left_out:
            target = f"{copy.name}_{view['target'].rpartition('.')[2]}"
            query = view["query"].replace(f".{SPANS_TABLE}", f".{copy.name}")
            statements.append(f"CREATE TABLE {target} AS {view['target']}")
            statements.append(f"CREATE MATERIALIZED VIEW {copy.name}_{view['name']} TO {target} AS {query}")
    return statements


async def _insert(store: ColumnStore, copy: Copy, batches: Sequence[pa.Table], number: int) -> float:
    started_s = time.process_time()
    for position, batch in enumerate(batches):
        await store.insert(copy.name, batch, dedup_token=f"{number}-{position}", deadline_s=DEADLINE_S)
    return time.process_time() - started_s


def rows(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table, the most expensive part first."""
    name, parts = result["set"], sorted(result["parts_us"].items(), key=lambda part: -part[1])
    return [
        Row(f"{name}: insert, merges stopped", f"{result['insert_us']} µs", f"{result['bare_us']} µs"),
        *(Row(f"{name}:   of it {part}", f"{spent_us} µs") for part, spent_us in parts),
        Row(f"{name}:   the same table twice, difference", f"{result['spread_us']} µs"),
    ]


def main() -> None:
    """Measure a set; print the table and one JSON object."""
    parser = parser_of("indexes", __doc__)
    add_set(parser, spans=10_000, rounds=7)
    arguments = parser.parse_args()
    tune_for_batches()
    result = asyncio.run(measure(arguments.set, spans_count=arguments.spans, rounds=arguments.rounds))
    print(table(rows(result)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
