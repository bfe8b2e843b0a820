"""What the measurements share: the embedded broker, child processes that measure, processor time, memory, tables."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import psutil
from pydantic import SecretStr

from bench.command import numbers
from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.children import Guard
from clearspan.embedded.layout import Layout
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.kafka.cluster import ensure_topics
from common.kafka.producer import KafkaPublisher
from common.memory import tune_for_batches
from common.settings import Settings
from common.telemetry import configure_logging

PUBLISH_CHUNK: Final = 100


def bench_settings(root: Path, *, bootstrap: str) -> Settings:
    """Return the settings of a measurement: chDB in ``root``, authentication off, any free port."""
    settings = Settings()
    return settings.model_copy(
        update={
            "data_dir": root,
            "auth": "off",
            "api_port": 0,
            "worker_port": 0,
            "otlp_http_port": 0,
            "otlp_grpc_port": 0,
            "log_format": "text",
            "log_level": "warning",
            "kafka": settings.kafka.model_copy(update={"bootstrap": bootstrap}),
            "clickhouse": settings.clickhouse.model_copy(update={"interface": "chdb"}),
            "query": settings.query.model_copy(update={"cursor_secret": SecretStr("bench")}),
        }
    )


@asynccontextmanager
async def broker(root: Path) -> AsyncIterator[EmbeddedBroker]:
    """Start an embedded broker on a free port; it ends with this process. Create the topics before you publish."""
    guard = Guard()
    running = EmbeddedBroker(Settings(kafka_port=0), Layout(root))
    try:
        await running.start()
        guard.watch(running.children())
        yield running
    finally:
        await running.close()
        guard.close()


async def publish_all(settings: Settings, topic: str, records: Iterable[bytes]) -> None:
    """Publish records, ``PUBLISH_CHUNK`` at a time."""
    await ensure_topics(settings.kafka)
    publisher = KafkaPublisher(settings.kafka)
    try:
        chunk: list[bytes] = []
        for record in records:
            chunk.append(record)
            if len(chunk) == PUBLISH_CHUNK:
                await asyncio.gather(*(publisher.publish(topic, value) for value in chunk))
                chunk.clear()
        await asyncio.gather(*(publisher.publish(topic, value) for value in chunk))
    finally:
        await publisher.close()


@asynccontextmanager
async def migrated_store(settings: Settings) -> AsyncIterator[ColumnStore]:
    """Open a store that has the tables."""
    await migrate(settings.clickhouse, data_dir=settings.data_dir)
    store = open_store(settings.clickhouse, data_dir=settings.data_dir)
    try:
        yield store
    finally:
        await store.close()


def run_child(module: str, *arguments: object, timeout_s: float = 300.0) -> dict[str, Any]:
    """Run a module of the benchmark as a child process; return the JSON object that it prints last."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=timeout_s, check=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def child_main(measure: Callable[..., Coroutine[Any, Any, dict[str, Any]]]) -> None:
    """Measure with the numbers of the command line; print one JSON object, as ``run_child`` expects."""
    given = numbers(measure)
    configure_logging(log_format="text", level="error")  # the API warns of stores that a measurement does without
    tune_for_batches()
    print(json.dumps(asyncio.run(measure(*given))))


class Row(NamedTuple):
    """A line of the performance table."""

    what: str
    clearspan: str
    engine: str = ""
    """The same with the engine alone."""

    ratio: str = ""
    peers: Mapping[str, str] = MappingProxyType({})
    """The same with other systems, by the titles of their columns."""


def table(rows: Sequence[Row]) -> str:
    """Return rows as text, with a column for each peer and without columns that are empty in all rows."""
    peers = dict.fromkeys(title for row in rows for title in row.peers)
    head = Row("what", "Clearspan", "engine alone", "ratio or difference", {title: title for title in peers})
    cells = [
        [row.what, row.clearspan, row.engine, *(row.peers.get(title, "") for title in peers), row.ratio]
        for row in (head, *rows)
    ]
    used = [any(column) for column in zip(*cells[1:], strict=True)]
    lines = [list(compress(line, used)) for line in cells]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    texts.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(texts)


def say(text: str) -> None:
    """Report progress."""
    print(text, file=sys.stderr, flush=True)


def cpu_s(process_id: int | None = None) -> float:
    """Return the processor time of a process (by default this one) and of all its children, those that ended too."""
    process = psutil.Process(process_id)
    return sum(sum(each.cpu_times()[:4]) for each in (process, *process.children(recursive=True)))


def us_per(spans_count: int, seconds: float) -> float:
    """Return microseconds per span."""
    return round(seconds / spans_count * 1e6, 1)


def peak_mib(process_id: int | None = None) -> float:
    """Return the sum of the peak memory of a process (by default this one) and of its children that run now."""
    process = psutil.Process(process_id)
    processes = [process.pid, *(child.pid for child in process.children(recursive=True))]
    return sum(_peak_kib(process_id) for process_id in processes) / 1024


def _peak_kib(process_id: int) -> int:
    # Not `ru_maxrss`: that of a child begins with the memory that its parent had when it started the child.
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile ``percent`` of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def median(values: Sequence[float]) -> float:
    """Return the median of the values."""
    return statistics.median(values)
