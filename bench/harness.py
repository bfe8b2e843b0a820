"""What the measurements share: the embedded broker, child processes that measure, memory and medians."""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr

from clearspan.embedded.broker import EmbeddedBroker
from clearspan.embedded.guard import Guard
from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.kafka.cluster import ensure_topics
from common.kafka.producer import KafkaPublisher
from common.memory import tune_for_batches
from common.settings import Settings
from common.telemetry import configure_logging

PUBLISH_CHUNK = 100


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
            "kafka": settings.kafka.model_copy(update={"bootstrap": bootstrap, "session_timeout_s": 3.0}),
            "clickhouse": settings.clickhouse.model_copy(update={"interface": "chdb"}),
            "query": settings.query.model_copy(update={"cursor_secret": SecretStr("bench")}),
        }
    )


@asynccontextmanager
async def broker(root: Path) -> AsyncIterator[EmbeddedBroker]:
    """Start an embedded broker on a free port; it ends with this process. Create the topics before you publish."""
    guard = Guard()
    running = EmbeddedBroker(root / "broker.log")
    try:
        await running.start(0)
        guard.watch(running.children())
        running.admit_produces()
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
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed:\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def child_main(measure: Callable[..., Coroutine[Any, Any, dict[str, Any]]]) -> None:
    """Measure with the numbers of the command line; print one JSON object, as ``run_child`` expects."""
    configure_logging(log_format="text", level="warning")
    tune_for_batches()
    print(json.dumps(asyncio.run(measure(*map(int, sys.argv[1:])))))


def peak_mib() -> float:
    """Return the sum of the peak memory of this process and of its children that run now."""
    processes = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
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
