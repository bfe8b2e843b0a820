"""``clearspan deliver`` as processes of its own: two share the work, one is killed, one is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from common.clickhouse.connect import open_store
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, PostgresSettings
from tests.support.delivery import Deliveries, Receiver, deliveries, delivery_settings, receiving
from tests.support.ports import free_port
from tests.support.worker import WorkerProcess

LEASE_S: Final = 2
WITHIN_S: Final = 60.0
STOP_S: Final = 60.0
"""More than the 10 s after which a stop gives up a delivery."""

HELD: Final = "clearspan_subscriptions_held"
DELIVERED: Final = "clearspan_delivered_spans_total"


@dataclass
class Scene:
    """An API with its stores, a receiver, and the environment of deliverers."""

    api: Deliveries
    receiver: Receiver
    database: Database
    environment: dict[str, str]
    directory: Path

    @contextmanager
    def deliverer(self, name: str, **environment: str) -> Iterator[WorkerProcess]:
        """A deliverer that is starting; killed at the end."""
        log = self.directory / f"{name}.log"
        process = WorkerProcess({**self.environment, **environment}, log, command="deliver")
        try:
            process.start()
            yield process
        finally:
            process.end(signal.SIGKILL)

    async def leases_count(self) -> int:
        row = await self.database.fetch_one(
            "SELECT count(*) AS number FROM leases WHERE kind = 'subscription' AND holder IS NOT NULL"
        )
        return -1 if row is None else int(row["number"])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


async def ready(process: WorkerProcess) -> None:
    await asyncio.to_thread(process.wait_until_ready, within_s=WITHIN_S)


async def ended(process: WorkerProcess, number: signal.Signals) -> int:
    return await asyncio.to_thread(process.end, number, within_s=STOP_S)


def holds_all(process: WorkerProcess, count: int) -> Callable[[], bool]:
    return lambda: process.metric(HELD) == count


@pytest.fixture
async def scene(
    http_settings: Callable[[], ClickHouseSettings],
    shared_postgres: PostgresSettings,
    shared_database: Database,
    tmp_path: Path,
) -> AsyncIterator[Scene]:
    clickhouse = http_settings()
    store = open_store(clickhouse, data_dir=tmp_path)
    settings = delivery_settings(batch_spans_max=5, lease_s=LEASE_S).model_copy(update={"clickhouse": clickhouse})
    async with deliveries(store, shared_database, settings) as api, receiving() as receiver:
        environment = {
            "CLEARSPAN_AUTH": "off",
            "CLEARSPAN_DEFAULT_PROJECT_ID": str(api.context.settings.default_project_id),
            "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_port()}",  # no broker: the table says what is stored
            "CLEARSPAN_QUERY__STORED_REREAD_S": "0.05",
            "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
            "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
            "CLEARSPAN_POSTGRES__DSN": shared_postgres.dsn.get_secret_value(),
            "CLEARSPAN_DELIVERY__PRIVATE_ADDRESSES": "on",
            "CLEARSPAN_DELIVERY__LEASE_S": str(LEASE_S),
            "CLEARSPAN_DELIVERY__BATCH_SPANS_MAX": "5",
            "CLEARSPAN_LOG_FORMAT": "text",
        }
        yield Scene(api, receiver, shared_database, environment, tmp_path)
    await store.close()


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_other_process_takes_over_after_kill_and_after_stop(scene: Scene) -> None:
    api, receiver = scene.api, scene.receiver
    await api.webhook(receiver, slug="a", **{"from": "beginning"})
    await api.webhook(receiver, slug="b", filtering={"conditions": [{"field": "span_name", "value": "none"}]})
    with scene.deliverer("first") as first, scene.deliverer("second") as second:
        await ready(first)
        await ready(second)
        await until(lambda: first.metric(HELD) + second.metric(HELD) == 2)
        await api.store(range(1, 13))
        await receiver.until(12, within_s=WITHIN_S)
        await until(lambda: first.metric(DELIVERED) + second.metric(DELIVERED) == 12)
        holder, other = (first, second) if first.metric(DELIVERED) else (second, first)
        assert holder.text("/livez") == '{"status":"alive"}'

        assert await ended(holder, signal.SIGKILL) == -signal.SIGKILL
        await api.store(range(13, 20))
        await receiver.until(19, within_s=WITHIN_S)
        await until(holds_all(other, 2))

        holder.start()
        await ready(holder)
        assert await ended(other, signal.SIGTERM) == 0
        await api.store([20, 21])
        await receiver.until(21, within_s=WITHIN_S)
        await until(holds_all(holder, 2))

        assert await ended(holder, signal.SIGTERM) == 0
        assert await scene.leases_count() == 0
        state = await api.state("a")
    assert list(dict.fromkeys(receiver.span_ids)) == list(range(1, 22))
    assert {number: ids for number, ids in receiver.ids_of_spans().items() if len(ids) > 1} == {}
    assert (state["status"], state["delivered"]["spans"]) == ("active", 21)


@pytest.mark.timeout(240)
async def test_stop_waits_for_the_batch_that_is_being_delivered(scene: Scene) -> None:
    api, receiver, release, arrived = scene.api, scene.receiver, asyncio.Event(), asyncio.Event()

    async def respond(_: int) -> web.Response:
        arrived.set()
        await release.wait()
        return web.Response(status=204)

    receiver.respond = respond
    await api.webhook(receiver, **{"from": "beginning"})
    await api.store([1])
    with scene.deliverer("only") as process:
        async with asyncio.timeout(WITHIN_S):
            await arrived.wait()
        stopping = asyncio.create_task(ended(process, signal.SIGTERM))
        await until(lambda: "Stopping" in process.log.read_text())
        release.set()
        assert await stopping == 0
    state = await api.state()

    assert receiver.span_ids == [1]
    assert "pending" not in state
    assert state["delivered"]["spans"] == 1
    assert await scene.leases_count() == 0


@pytest.mark.timeout(240)
@pytest.mark.long
async def test_process_without_postgres_is_alive_and_names_what_is_not_ready(scene: Scene) -> None:
    dsn = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    with scene.deliverer("unready", CLEARSPAN_POSTGRES__DSN=dsn) as process:
        await until(lambda: "postgres" in process.readiness() and "clickhouse" not in process.readiness())
        assert process.text("/livez") == '{"status":"alive"}'
        assert await ended(process, signal.SIGTERM) == 0


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_stop_gives_up_a_target_that_never_answers(scene: Scene) -> None:
    api, receiver, arrived = scene.api, scene.receiver, asyncio.Event()

    async def respond(number: int) -> web.Response:
        arrived.set()
        await asyncio.sleep(0 if number else 3_600)
        return web.Response(status=204)

    receiver.keeps_refused = True
    receiver.respond = respond
    await api.webhook(receiver, **{"from": "beginning"})
    await api.store([1])
    with scene.deliverer("first") as process:
        async with asyncio.timeout(WITHIN_S):
            await arrived.wait()
        assert await ended(process, signal.SIGTERM) == 0
    pending = (await api.state())["pending"]
    with scene.deliverer("second") as process:
        await receiver.until(1, within_s=WITHIN_S)

    assert [message.id for message in receiver.messages] == [pending["batch_id"]]
