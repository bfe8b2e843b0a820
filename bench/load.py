"""Measures queries of many clients while spans arrive: ``python -m bench.load [SPANS] [SECONDS]``.

The embedded stack with its default limits, filled by Kafka. First one client sends each query several times while
nothing else happens. Then each of ``CLIENTS`` clients sends a query drawn at random, waits for the response, and sends
the next, while ``RATE_SPANS_PER_S`` spans arrive over OTLP/HTTP. The ids that the queries name are of spans that were
stored before. Settings of the environment are those of the stack.
"""

from __future__ import annotations

import asyncio
import http
import json
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.client import Connection
from bench.command import numbers
from bench.harness import Row, percentile, say, table
from bench.ingest import TOPIC
from bench.processes import guarded, watching
from bench.queries import MIXED, QUERIES, Stored, stored_of
from bench.records import spans_of
from bench.senders import HEADERS, send_to_kafka
from bench.stack import STORED_S_MAX
from bench.varied import SPANS_PER_RECORD, plain_records
from common.limits import MIB
from common.settings import QuerySettings
from tests.support.stack import RunningStack, running_stack

CLIENTS: Final = 32
RATE_SPANS_PER_S: Final = 5_000
LONE_TIMES: Final = 20
RESPONSE_BYTES_MAX: Final = 16 * MIB
BUSY: Final = 429
ERRORS: Final = 500
DEFAULTS: Final = {
    f"CLEARSPAN_QUERY__{name.upper()}": str(QuerySettings.model_fields[name].default)
    for name in ("budget_s", "queue_s", "wait_for_max_s")
}
"""Limits that the stack of the tests raises."""

GIVEN: Final = {name: value for name, value in os.environ.items() if name.startswith("CLEARSPAN_")}
"""Settings of the environment, such as ``CLEARSPAN_CLICKHOUSE__GIVES_WAY``, to compare them."""


@dataclass
class Seen:
    """What clients saw of each query: times of successful responses, and statuses."""

    took_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, name: str, status: int, took_ms: float) -> None:
        """Note a response."""
        self.statuses[status] += 1
        if status < BUSY:
            self.took_ms[name].append(took_ms)


async def measure(spans_count: int = 100_000, seconds: int = 20) -> dict[str, Any]:
    """Return, per query, the percentiles of one client and of all under load, and counts of statuses."""
    end_ns = time.time_ns()
    records = list(plain_records(spans_count, end_ns=end_ns))
    stored = stored_of(spans_count, end_ns, list(_trace_ids(records)))
    with (
        tempfile.TemporaryDirectory() as directory,
        running_stack(Path(directory) / "data", **{**DEFAULTS, **GIVEN}) as stack,
    ):
        async with watching(*stack.process_ids) as watched:
            say(f"  storing {spans_count:,} spans …")
            await send_to_kafka(stack.kafka, TOPIC, records)
            await asyncio.to_thread(stack.wait_until_stored, spans_count, within_s=STORED_S_MAX)
            await watched.quiet()
            say("  one client alone …")
            lone = await asyncio.to_thread(_lone, _port(stack), stored)
            say(f"  {CLIENTS} clients and {RATE_SPANS_PER_S:,} spans/s for {seconds} s …")
            began_cpu_s = watched.cpu_s()
            loaded, sent = await _under_load(stack, stored, seconds)
            used_s, ended_s = watched.cpu_s() - began_cpu_s, time.monotonic()
            all_spans_count = spans_count + sent[http.HTTPStatus.OK] * SPANS_PER_RECORD
            await asyncio.to_thread(stack.wait_until_stored, all_spans_count, within_s=STORED_S_MAX)
            stored_after_s = time.monotonic() - ended_s
            peak_mib = watched.peak_mib
    return {
        "spans": spans_count,
        "clients": CLIENTS,
        "accepted_spans_per_s": round(sent[http.HTTPStatus.OK] * SPANS_PER_RECORD / seconds),
        "queries_per_s": round(sum(loaded.statuses.values()) / seconds, 1),
        "query_statuses": dict(loaded.statuses),
        "intake_statuses": dict(sent),
        "cpu_ms_per_query": round(used_s / sum(loaded.statuses.values()) * 1e3),
        "stored_after_s": round(stored_after_s, 1),
        "peak_mib": peak_mib,
        "queries": _compared(lone.took_ms, loaded.took_ms),
    }


def _compared(lone: Mapping[str, Sequence[float]], loaded: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    return {
        name: {
            "lone_p50_ms": round(percentile(lone[name], 50), 1),
            "p50_ms": round(percentile(loaded[name], 50), 1),
            "p95_ms": round(percentile(loaded[name], 95), 1),
            "p95_over_lone_p50": round(percentile(loaded[name], 95) / percentile(lone[name], 50), 1),
        }
        for name in MIXED
        if loaded[name]
    }


def _trace_ids(records: Sequence[bytes]) -> Iterator[str]:
    for record in records[:: len(records) // 100 + 1]:
        yield next(spans_of(ExportTraceServiceRequest.FromString(record))).trace_id.hex()


def _port(stack: RunningStack) -> int:
    port = urlsplit(stack.api).port
    assert port is not None
    return port


def _lone(port: int, stored: Stored) -> Seen:
    seen, draw = Seen(), random.Random(1)
    connection = Connection(port)
    for number in range(LONE_TIMES + LONE_TIMES // 10):
        for name in MIXED:
            status, took_ms, _ = connection.send(*QUERIES[name](draw, stored))
            if number >= LONE_TIMES // 10:
                seen.add(name, status, took_ms)
    connection.close()
    return seen


async def _under_load(stack: RunningStack, stored: Stored, seconds: int) -> tuple[Seen, Counter[int]]:
    seen, until_s = Seen(), time.monotonic() + seconds
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(CLIENTS) as threads:
        clients = [
            loop.run_in_executor(threads, _client, _port(stack), stored, seed, until_s, seen) for seed in range(CLIENTS)
        ]
        sent = await _send_steadily(f"{stack.otlp}/v1/traces", seconds)
        await asyncio.gather(*clients)
    return seen, sent


def _client(port: int, stored: Stored, seed: int, until_s: float, seen: Seen) -> None:
    draw = random.Random(seed)
    connection = Connection(port, bytes_max=RESPONSE_BYTES_MAX)
    while time.monotonic() < until_s:
        name = draw.choice(MIXED)
        status, took_ms, _ = connection.send(*QUERIES[name](draw, stored))
        seen.add(name, status, took_ms)
    connection.close()


async def _send_steadily(url: str, seconds: int) -> Counter[int]:
    """Post requests at a steady rate; return how often each status was the response."""
    began_s = time.monotonic()
    posting: set[asyncio.Task[int]] = set()
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        for number, record in enumerate(plain_records(seconds * RATE_SPANS_PER_S, seed=2)):
            await asyncio.sleep(max(0.0, began_s + number * SPANS_PER_RECORD / RATE_SPANS_PER_S - time.monotonic()))
            posting.add(asyncio.create_task(_post(session, url, record), name="post"))
        return Counter(await asyncio.gather(*posting))


async def _post(session: aiohttp.ClientSession, url: str, record: bytes) -> int:
    async with session.post(url, data=record) as response:
        await response.read()
        return response.status


def rows(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table."""
    load = f"{result['clients']} clients, {RATE_SPANS_PER_S:,} spans/s"
    found = [
        Row(
            f"{load}: {name}, p50 / p95",
            f"{ms['p50_ms']} / {ms['p95_ms']} ms",
            ratio=f"{ms['p95_over_lone_p50']} × lone p50",
        )
        for name, ms in result["queries"].items()
    ]
    statuses = Counter[int]()
    for kind in ("query_statuses", "intake_statuses"):
        statuses.update({int(status): count for status, count in result[kind].items()})
    errors = sum(count for status, count in statuses.items() if status >= ERRORS)
    return [
        *found,
        Row(f"{load}: responses 429; 5xx", f"{statuses[BUSY]}; {errors}"),
        Row(f"{load}: answered; accepted", f"{result['queries_per_s']} /s; {result['accepted_spans_per_s']:,} spans/s"),
        Row(f"{load}: processor time a query, with ingest", f"{result['cpu_ms_per_query']} ms"),
        Row(f"{load}: all spans stored after", f"{result['stored_after_s']} s"),
    ]


def main() -> None:
    """Measure; print the table and one JSON object."""
    given = numbers(measure)
    with guarded():
        result = asyncio.run(measure(*given))
    print(table(rows(result)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
