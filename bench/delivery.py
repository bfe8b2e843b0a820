"""Measures subscriptions: ``python -m bench.delivery [SPANS] [SECONDS]``.

Delivered spans per second for each target, next to a reader of the feed that delivers nothing; and the time from
storing a span to its acknowledgement by the target at 1,000 spans/s: for each target with one subscription, and for a
webhook with a hundred. The receiver over HTTP is a process of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

import orjson
from aiohttp import web
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import SecretStr

from bench.freshness import RATE_SPANS_PER_S, SPANS_PER_RECORD
from bench.harness import bench_settings, broker, child_main, migrated_store, percentile, publish_all
from bench.ingest import TOPIC, AnyProject
from bench.varied import plain_records
from clearspan.embedded.postgres import EmbeddedPostgres
from common.ids import DEFAULT_USER_ID
from common.kafka.cluster import ensure_topics
from common.kafka.producer import KafkaPublisher
from common.postgres.migrate import migrate
from common.postgres.pool import Database, open_database
from common.settings import Settings
from common.times import SystemClock
from ingest.app import open_worker
from jobs.app import open_jobs
from jobs.subscriptions import delivery
from jobs.subscriptions.reading import BatchReader, available_at
from query_api.delivery.selection import selection_of
from query_api.delivery.stored import SUBSCRIPTIONS, Rows, Subscription
from query_api.delivery.targets.opening import open_target
from query_api.delivery.targets.target import DeliveryBatch, RejectedSpans, Target
from query_api.delivery.targets.webhook import new_secret
from query_api.pages.arrivals import Positions
from query_api.registry.kinds import QUERIES
from query_api.registry.store import Lineage, Owner
from query_api.request.progress import StoredThrough
from tests.support.kafka import apache_kafka

MANY: Final = 100
COPY_TOPIC: Final = "copy"
NEVER: Final = {"filtering": {"conditions": [{"field": "span_name", "value": "no such span"}]}}
WARM_UP_S: Final = 3
LAST_S: Final = 60.0
"""How long the spans of a steady rate may take to be acknowledged after the last one was published."""


async def measure(spans_count: int = 50_000, seconds: int = 20) -> dict[str, Any]:
    """Return spans per second and percentiles of the lag in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        root = Path(directory)
        (root / "kafka").mkdir()
        with apache_kafka(root / "kafka") as kafka:  # the embedded broker has no idempotent producers
            async with broker(root) as running:
                postgres = await asyncio.to_thread(EmbeddedPostgres, root / "postgres")
                try:
                    settings = _settings(root, running.bootstrap, postgres.dsn)
                    return await _measure(settings, kafka.bootstrap, spans_count, seconds)
                finally:
                    await asyncio.to_thread(postgres.stop)


def _settings(root: Path, bootstrap: str, dsn: str) -> Settings:
    settings = bench_settings(root, bootstrap=bootstrap)
    return settings.model_copy(
        update={
            "postgres": settings.postgres.model_copy(update={"dsn": SecretStr(dsn)}),
            "delivery": settings.delivery.model_copy(
                update={"private_addresses": "on", "parquet_directory": root / "files"}
            ),
        }
    )


async def _measure(settings: Settings, bootstrap: str, spans_count: int, seconds: int) -> dict[str, Any]:
    await migrate(settings.postgres, default_project_id=settings.default_project_id)
    await ensure_topics(settings.kafka)
    await _make_topic(bootstrap)
    async with (
        migrated_store(settings) as store,
        open_database(settings.postgres) as database,
        open_worker(settings, projects=AnyProject(), store=store) as worker,
        receiver() as url,
    ):
        working = asyncio.create_task(worker.run(), name="worker")
        await publish_all(settings, TOPIC, plain_records(spans_count))
        reader = BatchReader(store, StoredThrough(), settings, SystemClock())
        count, bare_s = 0, 0.0
        while count < spans_count:  # until the worker has stored them all
            await asyncio.sleep(0.2)
            count, bare_s = await _read_all(reader, database, settings)
        results: dict[str, Any] = {"spans": spans_count, "bare_feed_spans_per_s": round(spans_count / bare_s)}
        with timed_targets() as lags_s:
            async with open_jobs(settings, store=store, database=database):
                run = _Run(settings, reader, _subscriptions(database, settings.default_project_id), lags_s)
                targets = _targets(url, bootstrap)
                for kind, target in targets.items():
                    took_s = await run.delivered(kind, target, spans_count)
                    results[f"{kind}_spans_per_s"] = round(spans_count / took_s)
                for kind, target in targets.items():
                    results[f"{kind}_lag"] = await run.lag(target, seconds)
                results[f"webhook_lag_of_{MANY}"] = await run.lag(targets["webhook"], seconds, idle_count=MANY - 1)
        worker.stop()
        await working
    return results


def _targets(url: str, bootstrap: str) -> dict[str, dict[str, Any]]:
    """Return one target of each kind."""
    return {
        "webhook": {"kind": "webhook", "url": url},
        "kafka": {"kind": "kafka", "bootstrap": bootstrap, "topic": COPY_TOPIC},
        "otlp": {"kind": "otlp", "endpoint": f"{url}v1/traces"},
        "parquet": {"kind": "parquet", "url": "file:///spans"},
    }


async def _make_topic(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(COPY_TOPIC, 4, 1)])
    await admin.close()


async def _read_all(reader: BatchReader, database: Database, settings: Settings) -> tuple[int, float]:
    """Read the whole feed in batches; return how many spans there are, and the seconds that it took."""
    project_id = settings.default_project_id
    selection = await selection_of({}, Lineage(database, QUERIES.kind, Owner(project_id, DEFAULT_USER_ID)))
    await reader.learn(project_id)
    positions, count, begun_s = Positions(), 0, time.monotonic()
    while (found := await reader.next_batch(project_id, selection, positions)).spans:
        count += len(found.spans)
        assert isinstance(found.positions, Positions)
        positions = found.positions
    return count, time.monotonic() - begun_s


def _subscriptions(database: Database, project_id: UUID) -> Rows[Subscription]:
    return Rows(SUBSCRIPTIONS, database, project_id, DEFAULT_USER_ID)


async def _end(reader: BatchReader, settings: Settings) -> Positions:
    await reader.learn(settings.default_project_id)
    through = reader.stored.through(settings.default_project_id)
    return Positions.at_end_of({id_: last.offset for id_, last in through.items()})


async def _subscribe(
    subscriptions: Rows[Subscription],
    slug: str,
    target: dict[str, Any],
    selection: dict[str, Any],
    positions: Positions,
) -> None:
    values = {"slug": slug, "selection": selection, "target": target, "secrets": {"secret": new_secret()}}
    begins = {"position": positions.pack(), "through_at": datetime.now(UTC)}
    await subscriptions.create({**values, **begins}, max_count=1_000)


@dataclass(frozen=True, slots=True)
class _Run:
    """Measures one subscription after the other; each is deleted at the end. ``lags_s`` is what ``timed_targets``
    yields.
    """

    settings: Settings
    reader: BatchReader
    subscriptions: Rows[Subscription]
    lags_s: list[float]

    async def delivered(self, slug: str, target: dict[str, Any], spans_count: int) -> float:
        """Return the seconds from the first batch to the acknowledgement of the last span."""
        await _subscribe(self.subscriptions, slug, target, {}, Positions())
        begun_s: float | None = None
        while True:
            state = await self.subscriptions.find(slug)
            if state is not None and begun_s is None and state.batch_number:
                begun_s = time.monotonic()  # the lease took up to a second
            if state is not None and state.delivered_spans >= spans_count:
                await self._delete_all()
                return time.monotonic() - (begun_s or time.monotonic())
            if state is not None and state.status == "paused":
                raise RuntimeError(state.reason)
            await asyncio.sleep(0.02)

    async def lag(self, target: dict[str, Any], seconds: int, *, idle_count: int = 0) -> dict[str, float]:
        """Publish at a steady rate, and return percentiles of the lag in seconds.

        ``idle_count`` subscriptions, which match nothing, read the feed beside the measured one.
        """
        end = await _end(self.reader, self.settings)
        await _subscribe(self.subscriptions, "lag", target, {}, end)
        for number in range(idle_count):
            await _subscribe(self.subscriptions, f"idle-{number}", target, NEVER, end)
        await asyncio.sleep(2 + idle_count / 16)  # until all have a lease
        await self._lags(WARM_UP_S)  # a subscription that has found nothing for a minute reads less often
        busy_s, lags_s = await self._lags(seconds)
        await self._delete_all()
        return {
            "spans": len(lags_s),
            "p50_s": round(percentile(lags_s, 50), 2),
            "p99_s": round(percentile(lags_s, 99), 2),
            "cores": round(busy_s / seconds, 2),
        }

    async def _lags(self, seconds: int) -> tuple[float, list[float]]:
        self.lags_s.clear()
        busy_s = await _publish_steadily(self.settings, seconds)
        async with asyncio.timeout(LAST_S):
            while len(self.lags_s) < seconds * RATE_SPANS_PER_S:  # noqa: ASYNC110 - the target fills the list
                await asyncio.sleep(0.1)
        return busy_s, list(self.lags_s)

    async def _delete_all(self) -> None:
        for each in await self.subscriptions.all():
            await self.subscriptions.delete(each.id)


async def _publish_steadily(settings: Settings, seconds: int) -> float:
    """Publish ``RATE_SPANS_PER_S``; return the seconds of a processor that this process needed meanwhile."""
    publisher = KafkaPublisher(settings.kafka)
    records = plain_records(
        seconds * RATE_SPANS_PER_S, spans_per_record=SPANS_PER_RECORD, seed=int(time.monotonic() * 1_000)
    )
    begun_s, busy_s = time.monotonic(), time.process_time()
    for number, record in enumerate(records):
        await asyncio.sleep(max(0.0, begun_s + number * SPANS_PER_RECORD / RATE_SPANS_PER_S - time.monotonic()))
        await publisher.publish(TOPIC, record)
    busy_s = time.process_time() - busy_s
    await publisher.close()
    return busy_s


@dataclass(frozen=True, slots=True)
class TimedTarget:
    """A target that notes, for each span, the seconds from its storing to its acknowledgement."""

    target: Target
    lags_s: list[float]

    async def deliver(self, batch: DeliveryBatch, /) -> RejectedSpans | None:
        rejected = await self.target.deliver(batch)
        now = datetime.now(UTC)
        self.lags_s.extend((now - available_at(span)).total_seconds() for span in batch.spans)
        return rejected

    async def check(self) -> str | None:
        return await self.target.check()

    async def close(self) -> None:
        await self.target.close()


@contextmanager
def timed_targets() -> Iterator[list[float]]:
    """Let every target that is opened note its lags in the list."""
    lags_s: list[float] = []

    def opened(target: Any, secrets: Any, **about: Any) -> Target:
        return TimedTarget(open_target(target, secrets, **about), lags_s)

    with patch.object(delivery, "open_target", opened):
        yield lags_s


@asynccontextmanager
async def receiver() -> AsyncIterator[str]:
    """A receiver of webhooks in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.delivery", "receiver", stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/"
    finally:
        process.kill()
        await process.wait()


async def receive() -> None:
    """Parse what arrives, as a receiver would: protobuf below ``/v1/traces``, else JSON."""

    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.content.read()  # `request.read` takes at most 1 MiB
        if request.path == "/v1/traces":
            ExportTraceServiceRequest.FromString(body)
            return web.Response()
        orjson.loads(body)
        return web.Response(status=204)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["receiver"]:
        asyncio.run(receive())
    else:
        child_main(measure)
