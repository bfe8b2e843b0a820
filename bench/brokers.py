"""Measures the embedded broker next to Apache Kafka: ``python -m bench.brokers [SPANS] [ROUNDS]``.

Start: from the start of the process until the first record is acknowledged. Memory: resident, before anything is
produced to it and with the records of the measurement. Spans per second: records produced one by one with up to 100
unanswered, and the worker from Kafka to committed rows, as in ``bench.ingest``.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from bench.command import numbers
from bench.harness import bench_settings, broker, median, publish_all, run_child
from bench.varied import llm_records
from tests.support.kafka import apache_kafka

SPANS: Final = 50_000
ROUNDS: Final = 3
TOPIC: Final = "otlp_spans"


class Running(NamedTuple):
    """A broker that has just started."""

    bootstrap: str
    pid: int
    started_s: float

    def mib(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss / 2**20)


@asynccontextmanager
async def _embedded(root: Path) -> AsyncIterator[Running]:
    started_s = time.monotonic()
    async with broker(root) as running:
        yield Running(running.bootstrap, running.children()[0].pid, started_s)


@asynccontextmanager
async def _apache(root: Path) -> AsyncIterator[Running]:
    (root / "kafka").mkdir()
    started_s = time.monotonic()
    with apache_kafka(root / "kafka") as kafka:
        assert kafka.process is not None
        yield Running(kafka.bootstrap, kafka.process.pid, started_s)


BROKERS: Final[dict[str, Callable[[Path], AbstractAsyncContextManager[Running]]]] = {
    "embedded broker": _embedded,
    "Apache Kafka": _apache,
}


async def measure(name: str, spans_count: int) -> dict[str, float]:
    """Return the figures of one run."""
    records = list(llm_records(spans_count))
    with tempfile.TemporaryDirectory() as directory:
        async with BROKERS[name](Path(directory)) as running:
            settings = bench_settings(Path(directory), bootstrap=running.bootstrap)
            await publish_all(settings, "spans", [b"{}"])
            start_s = time.monotonic() - running.started_s
            idle_mib = running.mib()
            began_s = time.monotonic()
            await publish_all(settings, TOPIC, records)
            publish_s = time.monotonic() - began_s
            arguments = ("worker", "llm", spans_count, running.bootstrap, "bench")
            worker = await asyncio.to_thread(run_child, "bench.ingest", *arguments)
            return {
                "start s": start_s,
                "idle MiB": idle_mib,
                "full MiB": running.mib(),
                "published spans/s": spans_count / publish_s,
                "stored spans/s": worker["spans_per_s"],
            }


def main(spans_count: int = SPANS, rounds: int = ROUNDS) -> None:
    """Print the medians of each broker; the runs of both alternate."""
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in BROKERS}
    for _ in range(rounds):
        for name, runs in figures.items():
            runs.append(asyncio.run(measure(name, spans_count)))
    for name, runs in figures.items():
        print(name, {figure: round(median([run[figure] for run in runs]), 1) for figure in runs[0]})


if __name__ == "__main__":
    main(*numbers(main))
