"""Print the performance table (``make bench``), and write it as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench import ingest, query, rankings, semconv
from bench.harness import run_child


def main() -> None:
    """Run the measurements one after the other, on a machine that does nothing else."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure fewer spans and rounds")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path(".cache/bench.json"),
        help="the file for the JSON (default: .cache/bench.json)",
    )
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 3
    scale = 4 if arguments.quick else 1
    results: dict[str, Any] = {}
    for name, spans_count in (("plain", 400_000 // scale), ("llm", 240_000 // scale)):
        _say(f"Kafka to stored, {name} spans: {spans_count:,} spans, {rounds} pairs of runs …")
        results[f"ingest_{name}"] = asyncio.run(ingest.measure(name, spans_count=spans_count, rounds=rounds))
    _say("Decoding, with and without the mappings of instrumentations …")
    results["semconv"] = run_child("bench.semconv", 3 if arguments.quick else 9)
    spans_count = 1_000_000 // (20 if arguments.quick else 1)
    _say(f"Queries over HTTP and in the engine alone, {spans_count:,} spans …")
    results["query"] = run_child("bench.query", spans_count, timeout_s=1_800.0)
    _say(f"Rankings and groups over HTTP and in the engine alone, {spans_count:,} spans …")
    results["rankings"] = run_child("bench.rankings", spans_count, timeout_s=1_800.0)
    _say("Committing and retrieving revisions …")
    results["lineage"] = run_child("bench.lineage")
    _say("From produce to query result at 1,000 spans/s …")
    results["freshness"] = run_child("bench.freshness", 20 // scale)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(_table(results))
    _say(f"Written as JSON: {arguments.json}")


def _table(results: dict[str, Any]) -> str:
    rows = [("what", "Clearspan", "engine alone", "ratio or difference")]
    for name, meaning in (("plain", "11 attributes"), ("llm", "LLM, 1.8 KB")):
        result = results[f"ingest_{name}"]
        rows.append(
            (
                f"Kafka → stored, {meaning}",
                f"{result['worker_spans_per_s']:,} spans/s",
                f"{result['bare_spans_per_s']:,} spans/s",
                f"{result['ratio']:.2f}",
            )
        )
        rows.append((f"  worker memory, {meaning}", f"{result['worker_mib']:,} MiB", "", ""))
        rows.append((f"  on disk before merges, {meaning}", f"{result['bytes_per_span']:,} B/span", "", ""))
    rows += semconv.table_rows(results["semconv"])
    rows += _query_rows(query.QUERIES, results["query"])
    rows.append(_depth_row(results["query"]["depth"]))
    rows += _query_rows(rankings.QUERIES, results["rankings"])
    rows += _lineage_rows(results["lineage"])
    freshness = results["freshness"]
    rows.append(("produce → query result at 1,000 spans/s, p50", f"{freshness['p50_s']} s", "", ""))
    rows.append(("produce → query result at 1,000 spans/s, p99", f"{freshness['p99_s']} s", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _query_rows(names: Iterable[str], results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name in names:
        result = results[name]
        for percent in ("p50", "p95"):
            over = f"+{result['over_p50_ms']} ms" if percent == "p50" else ""
            ours, engine = result[f"http_{percent}_ms"], result[f"engine_{percent}_ms"]
            rows.append((f"{name}, {percent}", f"{ours} ms", f"{engine} ms", over))
    return rows


def _depth_row(depth: dict[str, Any]) -> tuple[str, str, str, str]:
    name = f"page {depth['page']:,}; page 1"
    return name, f"{depth['deep_p50_ms']} ms", f"{depth['first_p50_ms']} ms", f"{depth['ratio']}"


def _lineage_rows(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    commit, bare = results["commit_p50_ms"], results["bare_p50_ms"]
    one, one_row = results["commits_per_s_one_variant"], results["bare_updates_per_s_one_row"]
    many, rows = results["commits_per_s_many_variants"], results["bare_inserts_per_s"]
    return [
        ("commit over HTTP, p50; a bare transaction", f"{commit} ms", f"{bare} ms", f"{results['commit_over_bare']}"),
        ("commits on one variant; bare updates of one row", f"{one:,} /s", f"{one_row:,} /s", ""),
        ("commits on many variants; bare inserts", f"{many:,} /s", f"{rows:,} /s", ""),
        ("retrieve a revision over HTTP, p50", f"{results['retrieve_p50_ms']} ms", "", ""),
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
