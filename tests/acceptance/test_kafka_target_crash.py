"""The deliverer is killed while it publishes to Kafka: no span is missing, and each keeps the id of its batch."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from common.clickhouse.connect import open_store
from common.kafka.log import KafkaLog
from common.kafka.record import Record
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, KafkaSettings, PostgresSettings, QuerySettings
from tests.support.delivery import deliveries, delivery_settings
from tests.support.dying_targets import KAFKA_STEPS
from tests.support.kafka import Broker
from tests.support.ports import free_port
from tests.support.scale import scaled

pytestmark = [pytest.mark.long, pytest.mark.kafka]

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = scaled(1, 10)
SPANS_OF_A_STEP: Final = 7
ENDS_S: Final = 60.0


def exit_code(command: Sequence[str], log: Path) -> int | None:
    """Return the exit code of a process; ``None`` if it still runs after ``ENDS_S``."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        return process.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()


async def make_topic(kafka: Broker, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, 2, 1)])
    await admin.close()


def number_of(record: Record) -> int:
    return int(orjson.loads(record.value or b"")["span_id"], 16)


@pytest.mark.scaled
@pytest.mark.timeout(scaled(240, 1_800))
async def test_killed_deliverer_publishes_every_span_and_repeats_under_the_same_id(
    http_settings: Callable[[], ClickHouseSettings],
    shared_postgres: PostgresSettings,
    shared_database: Database,
    kafka: Broker,
    unique: str,
    tmp_path: Path,
) -> None:
    await make_topic(kafka, unique)
    own = KafkaSettings(bootstrap=f"127.0.0.1:{free_port()}")  # no broker: the table says what is stored
    configured = delivery_settings(lease_s=1, batch_spans_max=5, timeout_s=30).model_copy(
        update={"clickhouse": http_settings(), "query": QuerySettings(stored_reread_s=0.05), "kafka": own}
    )
    store = open_store(configured.clickhouse, data_dir=tmp_path)
    log, dsn, stored = tmp_path / "deliverer.log", shared_postgres.dsn.get_secret_value(), 0
    async with deliveries(store, shared_database, configured) as api:
        settings = api.context.settings.model_dump_json(exclude={"postgres"})
        await api.create("copy", {"kind": "kafka", "bootstrap": kafka.bootstrap, "topic": unique})
        command = [sys.executable, "-m", "tests.support.dying_targets", dsn, settings]
        for _ in range(ROUNDS):
            for step in KAFKA_STEPS:
                await api.store(range(stored + 1, stored + 1 + SPANS_OF_A_STEP))
                stored += SPANS_OF_A_STEP
                code = await asyncio.to_thread(exit_code, [*command, step], log)
                assert code == -signal.SIGKILL, (step, code, log.read_text()[-3_000:])
        async with api.delivering():
            await api.until(lambda state: state["delivered"]["spans"] >= stored, slug="copy", within_s=ENDS_S)
        reader = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap))
        records = [record async for chunk in reader.read(unique) for record in chunk]
    await store.close()

    batches = defaultdict[int, set[bytes | None]](set)
    for record in records:
        batches[number_of(record)].add(record.header("clearspan-batch-id"))
    assert sorted(batches) == list(range(1, stored + 1))
    assert {number: ids for number, ids in batches.items() if len(ids) > 1} == {}
    assert len(records) > stored
    for partition in (0, 1):
        numbers = list(dict.fromkeys(number_of(record) for record in records if record.partition == partition))
        assert numbers == sorted(numbers)
