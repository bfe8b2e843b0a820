"""Measure peers one after the other: what a set of spans costs each until its process is idle, and its queries."""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.harness import percentile, say, us_per
from bench.peers.choice import PEERS
from bench.peers.peer import Peer, PeerError, PeerQuery
from bench.processes import Watched, disk_bytes, watching
from bench.queries import Stored, stored_of
from bench.records import spans_of
from bench.senders import Spool, send_over_http, spooled
from bench.varied import SETS, count_spans

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 120.0
QUERY_S_MAX: Final = 60.0
QUERIED: Final = "plain"
"""The set whose queries are measured, as those of Clearspan are."""

TIMES: Final = 60
"""How often each query runs. The first tenth warms up."""

TRACE_EVERY: Final = 97
AGE_NS: Final = 60 * 10**9
"""How long ago the spans end. VictoriaTraces does not return spans of the last 30 seconds."""

DURATION_US_MAX: Final = 1_000_000
"""No span of a set lasts longer. VictoriaTraces searches for ends of spans."""


async def measure(name: str, *, spans_count: int, programs: Mapping[str, Path]) -> dict[str, Any]:
    """Return the figures of each peer for a set, and what went wrong with those that have none."""
    end_ns = time.time_ns() - AGE_NS
    figures, failures = {}, {}
    with spooled(SETS[name](spans_count, end_ns=end_ns)) as records:
        sent_count = count_spans(iter(records))
        stored = stored_of(sent_count, end_ns + DURATION_US_MAX * 1_000, list(_trace_ids(records)))
        for peer_name, program in programs.items():
            say(f"  {name}, {sent_count:,} spans: {peer_name} …")
            try:
                figures[peer_name] = await _run(PEERS[peer_name], program, records, stored, is_queried=name == QUERIED)
            except (PeerError, OSError, aiohttp.ClientError, http.client.HTTPException) as exc:
                failures[peer_name] = f"{type(exc).__name__}: {exc}"
                say(f"  {peer_name} failed: {failures[peer_name]}")
    return {"set": name, "spans": sent_count, "peers": figures, "failures": failures}


async def _run(
    peer_of: type[Peer], program: Path, records: Spool, stored: Stored, *, is_queried: bool
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        peer = peer_of(data)
        with _running(peer, program, Path(directory) / "log") as process_id:
            async with watching(process_id) as watched:
                figures = await _store(peer, watched, records, stored.spans_count)
            if is_queried:
                figures["queries"] = await asyncio.to_thread(_query_figures, peer, stored)
        figures["bytes_per_span"] = round(disk_bytes(data) / stored.spans_count, 1)
    return figures


@contextmanager
def _running(peer: Peer, program: Path, log: Path) -> Iterator[int]:
    """Run the program of a peer inside the context; yield its process id."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *peer.arguments()],
            env={**os.environ, **peer.environment()},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        _wait_until_ready(process, peer.ready_url(), log)
        yield process.pid
    finally:
        process.terminate()
        process.wait(STOP_S_MAX)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise PeerError(f"it did not start:\n{log.read_text(errors='replace')[-2000:]}")


async def _store(peer: Peer, watched: Watched, records: Iterable[bytes], spans_count: int) -> dict[str, Any]:
    await watched.quiet(peer.quiet_s)
    idle_mib, before_s, began_s = watched.memory_mib(), watched.cpu_s(), time.monotonic()
    again_count = await send_over_http(peer.intake_url(), records)
    accepted_s = time.monotonic() - began_s
    took_s = await watched.quiet(peer.quiet_s) - began_s  # what it has accepted waits in memory
    if dropped_count := await asyncio.to_thread(peer.dropped_count):
        raise PeerError(f"it dropped {dropped_count:,} of {spans_count:,} spans")
    return {
        "accepted_per_s": round(spans_count / accepted_s),
        "spans_per_s": round(spans_count / took_s),
        "merged_us": us_per(spans_count, watched.cpu_s() - before_s),
        "peak_mib": watched.peak_mib,
        "idle_mib": idle_mib,
        "idle_after_mib": watched.memory_mib(),
        "sent_again": again_count,
    }


def _trace_ids(records: Iterable[bytes]) -> Iterator[str]:
    for number, record in enumerate(records):
        if number % TRACE_EVERY == 0:
            yield from {span.trace_id.hex(): None for span in spans_of(ExportTraceServiceRequest.FromString(record))}


def _query_figures(peer: Peer, stored: Stored) -> dict[str, Any]:
    with closing(http.client.HTTPConnection(peer.query_address(), timeout=QUERY_S_MAX)) as connection:
        return {name: _percentiles(connection, query) for name, query in peer.queries(stored).items()}


def _percentiles(connection: http.client.HTTPConnection, query: PeerQuery) -> dict[str, float]:
    draw = random.Random(3)
    times_ms, counts = [], []
    for _ in range(TIMES):
        path = query.make_path(draw)
        started_s = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        times_ms.append((time.perf_counter() - started_s) * 1000)
        if response.status != http.HTTPStatus.OK:
            raise PeerError(f"{path}: status {response.status}: {body[:200].decode(errors='replace')}")
        counts.append(query.count_spans(body))
        if not 0 < counts[-1] <= query.spans_max:
            raise PeerError(f"{path} returned {counts[-1]:,} spans instead of 1 to {query.spans_max:,}")
    warm_ms = times_ms[TIMES // 10 :]
    return {
        "p50_ms": round(percentile(warm_ms, 50), 1),
        "p95_ms": round(percentile(warm_ms, 95), 1),
        "spans_p50": percentile(counts, 50),
    }
