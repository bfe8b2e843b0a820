"""Measures the whole embedded stack, by Kafka and by OTLP/HTTP: ``python -m bench.stack [SET] [SPANS] [ROUNDS]``.

Each run starts a stack of its own with the real command, sends the same records at full rate, and counts the processor
time of all its processes (API, worker, decoders, engine, broker, Postgres) until the last merge has ended. The sender is
another process. Runs of both paths alternate. Memory counts pages that processes share once.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bench.command import add_set, parser_of
from bench.harness import Row, say, table, us_per
from bench.ingest import TOPIC
from bench.processes import Watched, guarded, watching
from bench.senders import send_over_http, send_to_kafka, spooled
from bench.varied import SETS, count_spans
from tests.support.stack import RunningStack, running_stack

PATHS: Final = ("Kafka", "OTLP/HTTP")
STORED_S_MAX: Final = 3_600.0


async def measure(name: str, *, spans_count: int, rounds: int) -> dict[str, Any]:
    """Return the run of the median processor time of each path, and the ratio of both."""
    runs: dict[str, list[dict[str, Any]]] = {path: [] for path in PATHS}
    with spooled(SETS[name](spans_count)) as records:
        sent_count = count_spans(iter(records))
        for number in range(rounds):
            for path in PATHS:
                say(f"  {name}, {sent_count:,} spans, round {number + 1} of {rounds}: the stack by {path} …")
                runs[path].append(await _run(path, records, sent_count))
    kafka, otlp = (sorted(runs[path], key=lambda run: run["merged_us"])[rounds // 2] for path in PATHS)
    ratio = round(otlp["merged_us"] / kafka["merged_us"], 2)
    return {"set": name, "spans": sent_count, "kafka": kafka, "otlp": otlp, "ratio": ratio}


async def _run(path: str, records: Iterable[bytes], spans_count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, running_stack(Path(directory) / "data") as stack:
        async with watching(*stack.process_ids) as watched:
            return await _figures(stack, watched, path, records, spans_count)


async def _figures(
    stack: RunningStack, watched: Watched, path: str, records: Iterable[bytes], spans_count: int
) -> dict[str, Any]:
    await watched.quiet()
    idle_mib, before_s, began_s = watched.memory_mib(), watched.cpu_s(), time.monotonic()
    again = 0
    if path == "Kafka":
        await send_to_kafka(stack.kafka, TOPIC, records)
    else:
        again = await send_over_http(f"{stack.otlp}/v1/traces", records)
    await asyncio.to_thread(stack.wait_until_stored, spans_count, within_s=STORED_S_MAX)
    took_s, durable_s = time.monotonic() - began_s, watched.cpu_s() - before_s
    await watched.quiet()
    return {
        "spans_per_s": round(spans_count / took_s),
        "durable_us": us_per(spans_count, durable_s),
        "merged_us": us_per(spans_count, watched.cpu_s() - before_s),
        "peak_mib": watched.peak_mib,
        "idle_mib": idle_mib,
        "idle_after_mib": watched.memory_mib(),
        "sent_again": again,
    }


def rows(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table."""
    found = []
    for key, path in (("kafka", "Kafka"), ("otlp", "OTLP/HTTP")):
        run, stack = result[key], f"{result['set']}: embedded stack by {path}"
        ratio = f"{result['ratio']} × Kafka" if key == "otlp" else ""
        found += [
            Row(f"{stack}, sent → durable", f"{run['spans_per_s']:,} spans/s"),
            Row(f"{stack}, processor time until merged", f"{run['merged_us']} µs", ratio=ratio),
            Row(f"{stack}, memory, peak", f"{run['peak_mib']:,} MiB"),
        ]
    kafka = result["kafka"]
    return [
        *found,
        Row("embedded stack, memory before the first span", f"{kafka['idle_mib']:,} MiB"),
        Row("embedded stack, memory after the last merge", f"{kafka['idle_after_mib']:,} MiB"),
    ]


def main() -> None:
    """Measure a set; print the table and one JSON object."""
    parser = parser_of("stack", __doc__)
    add_set(parser, spans=100_000, rounds=1)
    arguments = parser.parse_args()
    with guarded():
        result = asyncio.run(measure(arguments.set, spans_count=arguments.spans, rounds=arguments.rounds))
    print(table(rows(result)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
