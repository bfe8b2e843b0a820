"""The performance table of all stages as text: ``python -m bench.report FILE`` prints it from the JSON of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench import decode, indexes, ingest, load, query, rankings, semconv, stack
from bench.command import parser_of
from bench.harness import Row, table
from bench.peers.rows import remarks
from bench.peers.rows import rows as rows_of_peers
from bench.queries import QUERIES

RowsOf = Callable[[dict[str, Any]], list[Row]]


def _query_rows(results: dict[str, Any]) -> list[Row]:
    return [*query.rows(QUERIES, results), query.depth_row(results["depth"])]


def _lineage_rows(results: dict[str, Any]) -> list[Row]:
    commit, bare = results["commit_p50_ms"], results["bare_p50_ms"]
    one, one_row = results["commits_per_s_one_variant"], results["bare_updates_per_s_one_row"]
    many, rows = results["commits_per_s_many_variants"], results["bare_inserts_per_s"]
    return [
        Row(
            "commit over HTTP, p50; a bare transaction",
            f"{commit} ms",
            f"{bare} ms",
            ratio=str(results["commit_over_bare"]),
        ),
        Row("commits on one variant; bare updates of one row", f"{one:,} /s", f"{one_row:,} /s"),
        Row("commits on many variants; bare inserts", f"{many:,} /s", f"{rows:,} /s"),
        Row("retrieve a revision over HTTP, p50", f"{results['retrieve_p50_ms']} ms"),
    ]


def _freshness_rows(results: dict[str, Any]) -> list[Row]:
    meaning = "produce → query result at 1,000 spans/s"
    return [Row(f"{meaning}, {percent}", f"{results[f'{percent}_s']} s") for percent in ("p50", "p99")]


ROWS: Final[Mapping[str, RowsOf]] = {  # those of peers come after all others: they repeat figures of Clearspan
    "decode": decode.rows,
    "semconv": semconv.rows,
    "indexes_plain": indexes.rows,
    "indexes_llm": indexes.rows,
    "ingest_plain": ingest.rows,
    "ingest_llm": ingest.rows,
    "stack_plain": stack.rows,
    "stack_llm": stack.rows,
    "query": _query_rows,
    "rankings": lambda results: query.rows(rankings.QUERIES, results),
    "load": load.rows,
    "lineage": _lineage_rows,
    "freshness": _freshness_rows,
}


def report(results: Mapping[str, Any]) -> str:
    """Return the table of what was measured, and how busy the machine was: other work makes processor time dearer."""
    rows = [row for name, rows_of in ROWS.items() if name in results for row in rows_of(results[name])]
    loads = results["load_average"].values()
    load_range = f"Load average at the ends of the stages: {min(loads)} to {max(loads)}"
    return "\n".join([table(rows + rows_of_peers(results)), "", *remarks(results), load_range])


if __name__ == "__main__":
    parser = parser_of("report", __doc__)
    parser.add_argument("file", type=Path, help="results of python -m bench")
    print(report(json.loads(parser.parse_args().file.read_text())))
