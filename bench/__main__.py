"""``make bench``: the performance table as text and JSON, with progress in words. ``--quick`` for a first look."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from bench import ingest, semconv
from bench.harness import run_child
from bench.query import QUESTIONS


def main() -> None:
    """Measure one thing after the other; the machine should do nothing else meanwhile."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer spans and rounds")
    parser.add_argument("--json", type=Path, default=Path(".cache/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    rounds = 1 if arguments.quick else 3
    scale = 4 if arguments.quick else 1
    results: dict[str, Any] = {}
    for name, spans_count in (("plain", 400_000 // scale), ("llm", 240_000 // scale)):
        _say(f"Kafka to durable, {name} spans: {spans_count:,} spans, {rounds} pairs of runs …")
        results[f"ingest_{name}"] = asyncio.run(ingest.measure(name, spans_count=spans_count, rounds=rounds))
    _say("Spans of instrumentations, with the mappings and without …")
    results["semconv"] = run_child("bench.semconv", 3 if arguments.quick else 9)
    spans_count = 1_000_000 // (20 if arguments.quick else 1)
    _say(f"Questions over HTTP and bare, {spans_count:,} spans …")
    results["query"] = run_child("bench.query", spans_count, timeout_s=1_800.0)
    _say("Commits and retrieves of revisions …")
    results["lineage"] = run_child("bench.lineage")
    _say("Produce to found at 1,000 spans/s …")
    results["freshness"] = run_child("bench.freshness", 20 // scale)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(_table(results))
    _say(f"The same as JSON: {arguments.json}")


def _table(results: dict[str, Any]) -> str:
    rows = [("what", "Clearspan", "engine alone", "ratio or more")]
    for name, meaning in (("plain", "11 attributes"), ("llm", "LLM, 1.8 KB")):
        each = results[f"ingest_{name}"]
        rows.append(
            (
                f"Kafka → durable, {meaning}",
                f"{each['worker_spans_per_s']:,} spans/s",
                f"{each['bare_spans_per_s']:,} spans/s",
                f"{each['ratio']:.2f}",
            )
        )
        rows.append((f"  worker memory, {meaning}", f"{each['worker_mib']:,} MiB", "", ""))
        rows.append((f"  on disk before merges, {meaning}", f"{each['bytes_per_span']:,} B/span", "", ""))
    rows += semconv.table_rows(results["semconv"])
    rows += _query_rows(results["query"])
    rows += _lineage_rows(results["lineage"])
    freshness = results["freshness"]
    rows.append(("produce → found at 1,000 spans/s, p50", f"{freshness['p50_s']} s", "", ""))
    rows.append(("produce → found at 1,000 spans/s, p99", f"{freshness['p99_s']} s", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def _query_rows(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name in QUESTIONS:
        each = results[name]
        for percent in ("p50", "p95"):
            over = f"+{each['over_p50_ms']} ms" if percent == "p50" else ""
            ours, engine = each[f"http_{percent}_ms"], each[f"engine_{percent}_ms"]
            rows.append((f"{name}, {percent}", f"{ours} ms", f"{engine} ms", over))
    depth = results["depth"]
    rows.append(
        (
            f"page {depth['page']:,} beside page 1",
            f"{depth['deep_p50_ms']} ms",
            f"{depth['first_p50_ms']} ms",
            f"{depth['ratio']}",
        )
    )
    return rows


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


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
