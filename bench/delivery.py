"""Measures subscriptions: ``python -m bench.delivery [SPANS] [SECONDS]``.

Delivered spans per second for each target, next to a reader of the feed that delivers nothing; and the time from
storing a span to its arrival at 1,000 spans/s, with one subscription and with a hundred. The receiver of webhooks is a
process of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiohttp
import orjson
from aiohttp import web
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pydantic import SecretStr

from bench.freshness import RATE_SPANS_PER_S, SPANS_PER_RECORD
from bench.harness import bench_settings, broker, child_main, migrated_store, percentile, publish_all
from bench.ingest import TOPIC, AnyProject
from bench.records import plain_records
from clearspan.embedded.postgres import EmbeddedPostgres
from common.ids import DEFAULT_USER_ID
from common.kafka.cluster import ensure_topics
from common.kafka.producer import KafkaPublisher
from common.postgres.migrate import migrate
from common.postgres.pool import Database, open_database
from common.settings import Settings
from common.times import SystemClock
from ingest.app import open_worker
from query_api.delivery.deliverer import open_deliverer
from query_api.delivery.reading import BatchReader
from query_api.delivery.selection import selection_of
from query_api.delivery.store import NewSubscription, Subscriptions
from query_api.delivery.targets.webhook import new_secret
from query_api.pages.arrivals import Positions
from query_api.registry.kinds import QUERIES
from query_api.registry.store import Lineage, Owner
from query_api.request.progress import StoredThrough
from tests.support.kafka import apache_kafka

MANY: Final = 100
COPY_TOPIC: Final = "copy"
NEVER: Final = {"filtering": {"conditions": [{"field": "span_name", "value": "no such span"}]}}


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
            "delivery": settings.delivery.model_copy(update={"private_addresses": "on"}),
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
        aiohttp.ClientSession() as session,
    ):
        working = asyncio.create_task(worker.run(), name="worker")
        await publish_all(settings, TOPIC, plain_records(spans_count))
        reader = BatchReader(store, StoredThrough(), settings, SystemClock())
        count, bare_s = 0, 0.0
        while count < spans_count:  # until the worker has stored them all
            await asyncio.sleep(0.2)
            count, bare_s = await _read_all(reader, database, settings)
        results: dict[str, Any] = {"spans": spans_count, "bare_feed_spans_per_s": round(spans_count / bare_s)}
        async with open_deliverer(settings, store=store, database=database):
            webhook = {"kind": "webhook", "url": url}
            kafka = {"kind": "kafka", "bootstrap": bootstrap, "topic": COPY_TOPIC}
            for name, target in (("webhook", webhook), ("kafka", kafka)):
                took_s = await _delivered(database, settings, name, target, spans_count)
                results[f"{name}_spans_per_s"] = round(spans_count / took_s)
            subscriptions = _subscriptions(database, settings.default_project_id)
            for each in await subscriptions.all():
                await subscriptions.delete(each.id)
            end = await _end(reader, settings)
            await _subscribe(subscriptions, "lag", webhook, {}, end)
            results["lag_of_1"] = await _lag(settings, session, url, seconds)
            for number in range(MANY - 1):
                await _subscribe(subscriptions, f"never-{number}", webhook, NEVER, await _end(reader, settings))
            await asyncio.sleep(8)
            results[f"lag_of_{MANY}"] = await _lag(settings, session, url, seconds)
        worker.stop()
        await working
    return results


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
        positions = found.positions
    return count, time.monotonic() - begun_s


def _subscriptions(database: Database, project_id: UUID) -> Subscriptions:
    return Subscriptions(database, project_id, DEFAULT_USER_ID)


async def _end(reader: BatchReader, settings: Settings) -> Positions:
    await reader.learn(settings.default_project_id)
    through = reader.stored.through(settings.default_project_id)
    return Positions.at_end_of({id_: last.offset for id_, last in through.items()})


async def _subscribe(
    subscriptions: Subscriptions, slug: str, target: dict[str, Any], selection: dict[str, Any], positions: Positions
) -> None:
    new = NewSubscription(slug, None, selection, target, {"secret": new_secret()}, positions.pack(), datetime.now(UTC))
    await subscriptions.create(new, max_count=1_000)


async def _delivered(
    database: Database, settings: Settings, slug: str, target: dict[str, Any], spans_count: int
) -> float:
    """Return the seconds from the creation of a subscription to the acknowledgement of its last span."""
    subscriptions = _subscriptions(database, settings.default_project_id)
    await _subscribe(subscriptions, slug, target, {}, Positions())
    begun_s: float | None = None
    while True:
        state = await subscriptions.find(slug)
        if state is not None and begun_s is None and state.batch_number:
            begun_s = time.monotonic()  # the lease took up to a second
        if state is not None and (state.delivered_spans >= spans_count or state.status == "paused"):
            if state.status == "paused":
                raise RuntimeError(state.reason)
            return time.monotonic() - (begun_s or time.monotonic())
        await asyncio.sleep(0.02)


async def _lag(settings: Settings, session: aiohttp.ClientSession, url: str, seconds: int) -> dict[str, float]:
    """Publish at a steady rate, and return percentiles of the lag in seconds."""
    await session.delete(url)
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
    await asyncio.sleep(6)
    async with session.get(url) as response:
        lags_s = (await response.json())["lags_s"]
    return {
        "spans": len(lags_s),
        "p50_s": round(percentile(lags_s, 50), 2),
        "p99_s": round(percentile(lags_s, 99), 2),
        "cores": round(busy_s / seconds, 2),
    }


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
    """Keep the lags of spans: POST takes a batch, GET returns the lags in seconds, DELETE forgets them."""
    lags_s: list[float] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.json_response({"lags_s": lags_s})
        if request.method == "DELETE":
            lags_s.clear()
        if request.method == "POST":
            body = await request.content.read()  # `request.read` takes at most 1 MiB
            now = datetime.now(UTC)
            stored = (datetime.fromisoformat(span["created_at"]) for span in orjson.loads(body)["data"]["spans"])
            lags_s.extend((now - moment).total_seconds() for moment in stored)
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
