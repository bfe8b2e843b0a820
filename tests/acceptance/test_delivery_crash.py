"""The deliverer is killed at every step of a delivery: every span arrives, in order, and duplicates carry the same id."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from common.postgres.pool import Database
from common.settings import ClickHouseSettings, PostgresSettings, QuerySettings, Settings
from tests.support.delivery import Deliveries, Receiver, deliveries, delivery_settings, receiving
from tests.support.dying_deliverer import STEPS
from tests.support.ports import free_port
from tests.support.scale import scaled
from tests.support.stores import opened_store

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = ("cluster/spans/0", "cluster/spans/1")
SPANS_OF_A_RECORD: Final = 3
ROUNDS: Final = scaled(1, 10)
DIES_S: Final = 120.0


@contextmanager
def deliverer(settings: Settings, dsn: str, log: Path, step: str) -> Iterator[subprocess.Popen[bytes]]:
    """A deliverer as a child process; killed at the end."""
    text = settings.model_dump_json(exclude={"postgres"})
    command = [sys.executable, "-m", "tests.support.dying_deliverer", dsn, text, step]
    with log.open("ab") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for the end of a process; return its exit code, ``None`` if it runs on."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(DIES_S)
    return process.returncode


async def store_until(stopping: asyncio.Event, api: Deliveries) -> None:
    """Store a record in one partition after the other."""
    number = 1
    while not stopping.is_set():
        for partition_id in PARTITIONS:
            numbers = list(range(number, number + SPANS_OF_A_RECORD))
            await api.store(numbers, partition_id=partition_id)
            number += SPANS_OF_A_RECORD
        await asyncio.sleep(0.2)


def check(receiver: Receiver, stored: dict[str, list[int]]) -> None:
    """Compare what arrived with what was stored."""
    first_seen = list(dict.fromkeys(receiver.span_ids))
    assert sorted(first_seen) == sorted(number for numbers in stored.values() for number in numbers)
    for numbers in stored.values():
        assert [number for number in first_seen if number in set(numbers)] == numbers
    assert {number: ids for number, ids in receiver.ids_of_spans().items() if len(ids) > 1} == {}
    for message in receiver.messages:  # a retry holds no span that an earlier one did not hold
        earlier = next(each for each in receiver.messages if each.id == message.id)
        assert set(message.span_ids) <= set(earlier.span_ids)


@pytest.mark.scaled
@pytest.mark.timeout(scaled(600, 3_600))
async def test_killed_deliverer_misses_nothing_and_repeats_under_the_same_id(
    http_settings: Callable[[], ClickHouseSettings],
    shared_postgres: PostgresSettings,
    shared_database: Database,
    tmp_path: Path,
):
    configured = delivery_settings(batch_spans_max=20, lease_s=1).model_copy(
        update={"clickhouse": http_settings(), "query": QuerySettings(stored_reread_s=0.05)}
    )
    kafka = configured.kafka.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    log, dsn = tmp_path / "deliverer.log", shared_postgres.dsn.get_secret_value()
    async with (
        opened_store(configured.clickhouse, data_dir=tmp_path) as store,
        deliveries(store, shared_database, configured) as api,
        receiving() as receiver,
    ):
        receiver.respond = lambda number: web.Response(status=503 if number % 7 == 3 else 204)
        settings = api.context.settings.model_copy(update={"kafka": kafka})
        await api.webhook(receiver)
        stopping = asyncio.Event()
        storing = asyncio.create_task(store_until(stopping, api))
        for _ in range(ROUNDS):
            for step in STEPS:
                with deliverer(settings, dsn, log, step) as process:
                    code = await asyncio.to_thread(ended, process)
                    assert code == -signal.SIGKILL, (step, code, await api.state(), log.read_text()[-3_000:])
        stopping.set()
        await storing
        stored: dict[str, list[int]] = {each: [] for each in PARTITIONS}
        for partition_index, partition_id in enumerate(PARTITIONS):
            for record in range(api.offsets[partition_id] + 1):
                first = 1 + (record * len(PARTITIONS) + partition_index) * SPANS_OF_A_RECORD
                stored[partition_id] += range(first, first + SPANS_OF_A_RECORD)
        count = sum(map(len, stored.values()))
        with deliverer(settings, dsn, log, ""):
            await receiver.until(count, within_s=120)
        state = await api.state()

    check(receiver, stored)
    assert len(receiver.messages) > len({message.id for message in receiver.messages})
    assert state["status"] != "paused"
