"""The deliverer is killed while it delivers by OTLP, writes Parquet files and evaluates alerts: nothing is missing, files
are whole, and a message that is sent again has the same id.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pyarrow import dataset

from common.postgres.pool import Database
from common.settings import ClickHouseSettings, PostgresSettings, QuerySettings
from tests.support.delivery import SECRET, Deliveries, deliveries, delivery_settings, receiving, span_of
from tests.support.dying_targets import STEPS
from tests.support.ports import free_port
from tests.support.scale import scaled
from tests.support.span_corpus import store_record
from tests.support.stores import opened_store

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = scaled(1, 10)
DIES_S: Final = 120.0
ALERTS_OF_A_ROUND: Final = 2


async def until(condition: Callable[[], bool], *, within_s: float = 120.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


@asynccontextmanager
async def otlp_endpoint(span_ids: list[int]) -> AsyncIterator[str]:
    """Yield the address of an endpoint that appends the ids of the spans that it gets."""

    async def receive(request: web.Request) -> web.Response:
        body = ExportTraceServiceRequest.FromString(await request.read())
        spans = [span for each in body.resource_spans for scope in each.scope_spans for span in scope.spans]
        span_ids.extend(int.from_bytes(span.span_id, "big") for span in spans)
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", receive)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def store_recent_span(api: Deliveries) -> None:
    """Store a span that began now, which no worker announces: alerts see it, and the feed does not."""
    start_ns = time.time_ns()
    span = span_of(1_000_000)._replace(start_ns=start_ns, end_ns=start_ns)
    project_id = api.context.settings.default_project_id
    await store_record(api.context.store, [span], partition_id="cluster/recent/0", offset=0, project_id=project_id)


async def create_alerts(api: Deliveries, url: str, first: int) -> None:
    """Create alerts that are in breach at once."""
    target = {"kind": "webhook", "url": url, "secret": SECRET}
    for number in range(first, first + ALERTS_OF_A_ROUND):
        alert = {"slug": f"a{number}", "target": target, "measure": {"of": "count"}, "above": 0, "window": "1d"}
        await api.call("POST", "/alerts/", {"alert": alert})


def started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)


def run_until_it_dies(command: Sequence[str], log: Path) -> int | None:
    """Return the exit code of a process; ``None`` if it still runs after ``DIES_S``."""
    process = started(command, log)
    try:
        return process.wait(DIES_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()


@pytest.mark.scaled
@pytest.mark.timeout(scaled(600, 3_600))
async def test_killed_deliverer_misses_no_span_and_no_message(
    http_settings: Callable[[], ClickHouseSettings],
    shared_postgres: PostgresSettings,
    shared_database: Database,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    base = delivery_settings(lease_s=1, batch_spans_max=5, parquet_directory=folder, alerts_max=1_000)
    configured = base.model_copy(update={"clickhouse": http_settings(), "query": QuerySettings(stored_reread_s=0.05)})
    kafka = configured.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    log, stored, dsn = tmp_path / "deliverer.log", 0, shared_postgres.dsn.get_secret_value()
    by_otlp: list[int] = []
    async with (
        opened_store(configured.clickhouse, data_dir=tmp_path) as store,
        deliveries(store, shared_database, configured) as api,
        receiving() as receiver,
        otlp_endpoint(by_otlp) as endpoint,
    ):
        await store_recent_span(api)
        settings = api.context.settings.model_copy(update={"kafka": kafka}).model_dump_json(exclude={"postgres"})
        await api.create("otlp", {"kind": "otlp", "endpoint": endpoint})
        await api.create("files", {"kind": "parquet", "url": "file:///spans"})

        command = [sys.executable, "-m", "tests.support.dying_targets", dsn, settings]
        for round_number in range(ROUNDS):
            await create_alerts(api, receiver.url, round_number * ALERTS_OF_A_ROUND)
            for step in STEPS:
                await api.store(range(stored + 1, stored + 8))
                stored += 7
                code = await asyncio.to_thread(run_until_it_dies, [*command, step], log)
                assert code == -signal.SIGKILL, (step, code, log.read_text()[-3_000:])
        last = await asyncio.to_thread(started, [*command, ""], log)
        alerts = ROUNDS * ALERTS_OF_A_ROUND
        try:
            await until(lambda: len(set(by_otlp)) == stored and len({each.id for each in receiver.messages}) == alerts)
            await api.until(lambda found: found["delivered"]["spans"] >= stored, slug="files")
            waiting = [each["messages"]["waiting"] for each in (await api.call("POST", "/alerts/query"))["alerts"]]
        finally:
            last.kill()
            await asyncio.to_thread(last.wait)
        await shared_database.fetch_all("DELETE FROM alerts WHERE true")

    expected = list(range(1, stored + 1))
    assert list(dict.fromkeys(by_otlp)) == expected
    rows = dataset.dataset(
        str(folder / str(api.context.settings.default_project_id) / "spans"), format="parquet"
    ).to_table()
    assert sorted(rows["span_id"].to_pylist()) == [f"{number:016x}" for number in expected]
    assert sorted({message.body["data"]["alert"] for message in receiver.messages}) == sorted(
        f"a{number}" for number in range(alerts)
    )
    assert {message.body["type"] for message in receiver.messages} == {"alert.begins"}
    assert sum(waiting) <= 1
