"""Measures Jaeger with badger: ``python -m bench.peer JAEGER [SET] [SPANS]``, JAEGER being its all-in-one program.

It gets the requests that ``bench.stack`` sends over OTLP/HTTP. Processor time is that of its process until it is idle;
it writes without waiting for the disk. To build the program, in a directory outside the repository:

    go mod init scratch
    go get github.com/jaegertracing/jaeger/cmd/all-in-one@v1.76.0
    go build -o jaeger github.com/jaegertracing/jaeger/cmd/all-in-one
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.command import add_set, parser_of
from bench.harness import Row, percentile, say, table, us_per
from bench.processes import Watched, disk_bytes, guarded, watching
from bench.queries import OPERATION, TRACE, operation_of, service_of
from bench.records import SPANS_PER_TRACE, spans_of
from bench.senders import send_over_http, spooled
from bench.varied import SETS, count_spans
from tests.support.metrics import metric
from tests.support.ports import free_port

START_S_MAX: Final = 60.0
QUEUE_SPANS: Final = 2_000
"""Jaeger's default. It refuses requests while its queue is full; the sender sends them again."""

TIMES: Final = 60
TRACE_EVERY: Final = 97
TRACES: Final = 5
"""Traces of ten spans that hold 50 spans of a service and operation, for which Jaeger has no query of spans."""

UNUSED: Final = (
    "collector.grpc-server.host-port",
    "collector.http-server.host-port",
    "collector.otlp.grpc.host-port",
    "query.grpc-server.host-port",
)
"""Listeners that are moved away from their default ports, which other programs use."""

DROPPED: Final = "jaeger_collector_spans_dropped_total"


@dataclass(frozen=True, slots=True)
class Jaeger:
    """A running Jaeger."""

    process_id: int
    otlp: str
    query: str
    admin: str


@contextmanager
def running_jaeger(program: Path, data: Path) -> Iterator[Jaeger]:
    """Run Jaeger with badger below ``data``, on free ports of loopback; it ends with the context."""
    otlp, query, admin = (f"127.0.0.1:{free_port()}" for _ in range(3))
    options = {name: f"127.0.0.1:{free_port()}" for name in UNUSED}
    options |= {
        "collector.otlp.http.host-port": otlp,
        "query.http-server.host-port": query,
        "admin.http.host-port": admin,
        "badger.ephemeral": "false",
        "badger.directory-key": str(data / "keys"),
        "badger.directory-value": str(data / "values"),
        "collector.queue-size": str(QUEUE_SPANS),
    }
    command = [str(program.resolve()), *(f"--{name}={value}" for name, value in options.items())]
    with (data / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "SPAN_STORAGE_TYPE": "badger"},
            cwd=data,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_ready(process, f"http://{query}/api/services", data / "log")
        yield Jaeger(process.pid, f"http://{otlp}/v1/traces", f"http://{query}", f"http://{admin}")
    finally:
        process.terminate()
        process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"Jaeger did not start:\n{log.read_text()[-2000:]}")


async def measure(program: Path, name: str, *, spans_count: int) -> dict[str, Any]:
    """Return the cost of storing a set, and the percentiles of two queries in milliseconds."""
    with spooled(SETS[name](spans_count)) as records, tempfile.TemporaryDirectory() as directory:
        sent_count = count_spans(iter(records))
        say(f"  {name}, {sent_count:,} spans: Jaeger with badger …")
        with running_jaeger(program, Path(directory)) as jaeger:
            async with watching(jaeger.process_id) as watched:
                figures = await _store(jaeger, watched, records, sent_count)
                figures["queries"] = await asyncio.to_thread(_queries, jaeger, list(_trace_ids(records)))
        figures["bytes_per_span"] = round(disk_bytes(Path(directory)) / sent_count, 1)
    return {"set": name, "spans": sent_count, **figures}


async def _store(jaeger: Jaeger, watched: Watched, records: Iterable[bytes], spans_count: int) -> dict[str, Any]:
    await watched.quiet()
    idle_mib, before_s, began_s = watched.memory_mib(), watched.cpu_s(), time.monotonic()
    await send_over_http(jaeger.otlp, records)
    took_s = await watched.quiet() - began_s  # what it has accepted waits in memory
    if dropped := await asyncio.to_thread(metric, jaeger.admin, DROPPED):
        raise RuntimeError(f"Jaeger dropped {dropped:,.0f} of {spans_count:,} spans")
    return {
        "spans_per_s": round(spans_count / took_s),
        "merged_us": us_per(spans_count, watched.cpu_s() - before_s),
        "peak_mib": watched.peak_mib,
        "idle_mib": idle_mib,
    }


def _trace_ids(records: Iterable[bytes]) -> Iterator[str]:
    for number, record in enumerate(records):
        if number % TRACE_EVERY == 0:
            yield next(spans_of(ExportTraceServiceRequest.FromString(record))).trace_id.hex()


def _queries(jaeger: Jaeger, trace_ids: list[str]) -> dict[str, Any]:
    draw = random.Random(3)

    def service() -> str:
        now_us = time.time_ns() // 1000
        window = {"start": now_us - 7 * 86_400_000_000, "end": now_us, "limit": TRACES, "lookback": "custom"}
        return "/api/traces?" + urlencode({"service": service_of(draw), "operation": operation_of(draw), **window})

    calls = {TRACE: lambda: f"/api/traces/{draw.choice(trace_ids)}", OPERATION: service}
    return {name: _times(jaeger, make, TRACES if name == OPERATION else 1) for name, make in calls.items()}


def _times(jaeger: Jaeger, make_path: Any, traces_count: int) -> Mapping[str, float]:
    took_ms = []
    for _ in range(TIMES):
        path = make_path()
        started_s = time.perf_counter()
        with urllib.request.urlopen(jaeger.query + path, timeout=60) as response:
            body = response.read()
        took_ms.append((time.perf_counter() - started_s) * 1000)
        found = json.loads(body)["data"]
        if len(found) != traces_count or len(found[0]["spans"]) < SPANS_PER_TRACE:
            raise RuntimeError(f"{path} returned {len(found)} traces")
    return {"p50_ms": round(percentile(took_ms, 50), 1), "p95_ms": round(percentile(took_ms, 95), 1)}


def main() -> None:
    """Measure a set; print the table and one JSON object."""
    parser = parser_of("peer", __doc__)
    parser.add_argument("jaeger", type=Path, help="the program of Jaeger")
    add_set(parser, spans=100_000)
    arguments = parser.parse_args()
    with guarded():
        result = asyncio.run(measure(arguments.jaeger, arguments.set, spans_count=arguments.spans))
    print(table(rows(result)))
    print(json.dumps(result))


def rows(result: dict[str, Any]) -> list[Row]:
    """Return the rows of the performance table."""
    name = result["set"]
    found = [
        Row(f"{name}: OTLP/HTTP → stored", "", peer=f"{result['spans_per_s']:,} spans/s"),
        Row(f"{name}: OTLP/HTTP, processor time", "", peer=f"{result['merged_us']} µs"),
        Row(f"{name}: on disk", "", peer=f"{result['bytes_per_span']} B/span"),
        Row(f"{name}: memory, peak", "", peer=f"{result['peak_mib']:,} MiB"),
    ]
    return found + [Row(f"{query}, p50", "", peer=f"{ms['p50_ms']} ms") for query, ms in result["queries"].items()]


if __name__ == "__main__":
    main()
