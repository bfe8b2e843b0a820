"""``clearspan reset-offsets`` over a real Kafka: the group is moved back to what the tables hold, and never forward."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from common.clickhouse.connect import open_store
from common.clickhouse.stored_through import STORED_THROUGH_TABLE, positions_table
from common.errors import ServiceError
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.cluster import ensure_topics, open_admin, read_cluster_id
from common.kafka.consumer import KafkaSource
from common.kafka.driver import open_reader
from common.kafka.offsets import MovedBack, move_back
from common.kafka.record import Partition
from common.kafka.starts import CommittedOffset, read_committed
from common.kafka.topics import read_topics
from common.postgres.audit import AuditEntry, AuditFilter, AuditLog, AuditOutcome
from common.postgres.pool import open_database
from common.settings import Encoding, KafkaSettings, PostgresSettings, TopicSettings
from common.stored_position import ALL_PROJECTS, StoredPosition
from tests.fixtures_clickhouse import FreshSettings
from tests.support.command_line import runner
from tests.support.kafka import Broker
from tests.support.produce import produce

pytestmark = pytest.mark.kafka

PRODUCED = 10
COMMITTED = 8


@pytest.fixture
def settings(kafka: Broker, unique: str) -> KafkaSettings:
    """A topic of two partitions: the first has ten records, of which eight are committed."""
    topics = {unique: TopicSettings(encoding=Encoding.SPAN_JSON)}
    names = {"intake_topic": unique, "otlp_topic": unique, "dead_letter_topic": f"{unique}.dead"}
    settings = kafka.settings(group=unique, topics=topics, partitions=2, **names)
    asyncio.run(ensure_topics(settings))
    records = produce(kafka.bootstrap, unique, [b"{}"] * PRODUCED, key=b"one partition")
    asyncio.run(_commit(settings, records[0].partition))
    return settings


async def _commit(settings: KafkaSettings, partition: int) -> None:
    at = TopicPartition(next(iter(settings.topics)), partition)
    async with open_reader(settings, group=settings.group) as reader:
        reader.assign([at])
        await reader.commit({at: COMMITTED})


async def _committed(settings: KafkaSettings) -> dict[int, int]:
    topic = next(iter(settings.topics))
    async with open_reader(settings, group=settings.group) as reader:
        found = {number: await reader.committed(TopicPartition(topic, number)) for number in (0, 1)}
    return {number: offset for number, offset in found.items() if offset is not None}


async def _through(settings: KafkaSettings, offset: int) -> Mapping[str, int]:
    """Say that both partitions are stored up to this offset."""
    return {await _partition_id(settings, number): offset for number in (0, 1)}


async def _partition_id(settings: KafkaSettings, number: int) -> str:
    topic = next(iter(settings.topics))
    async with open_admin(settings) as admin:
        return (await read_topics(admin._client, [topic])).partition_id(Partition(topic, number))


async def _used(settings: KafkaSettings) -> Partition:
    [number] = await _committed(settings)
    return Partition(next(iter(settings.topics)), number)


@pytest.mark.parametrize(("through", "next_offset"), [(4, 5), (0, 1), (-1, 0)])
async def test_group_reads_again_what_is_not_stored(settings: KafkaSettings, through: int, next_offset: int) -> None:
    used = await _used(settings)
    stored = await _through(settings, through) if through >= 0 else {}

    planned = await move_back(settings, stored, dry_run=True)
    before = await _committed(settings)
    moved = await move_back(settings, stored)

    assert planned == moved == [MovedBack(used, COMMITTED, next_offset, 0)]
    assert before == {used.partition: COMMITTED}
    assert await _committed(settings) == {used.partition: next_offset}
    assert await move_back(settings, stored) == []


async def test_id_of_the_topic_is_committed_with_the_offset(settings: KafkaSettings) -> None:
    """Without it a worker would not notice that the topic is created again."""
    used = await _used(settings)
    async with open_admin(settings) as admin:
        _, topic_ids = await read_topics(admin._client, [used.topic])

    await move_back(settings, {})

    async with open_reader(settings, group=settings.group) as reader:
        committed = await read_committed(reader, [TopicPartition(*used)])
    assert list(committed.values()) == [CommittedOffset(0, topic_ids[used.topic])]


async def test_what_was_stored_of_an_older_topic_of_the_same_name_does_not_count(settings: KafkaSettings) -> None:
    used = await _used(settings)
    of_the_older_topic = f"{await read_cluster_id(settings)}/{'A' * 22}/{used.topic}/{used.partition}"

    moved = await move_back(settings, {of_the_older_topic: PRODUCED})

    assert moved == [MovedBack(used, COMMITTED, 0, 0)]


@pytest.mark.parametrize("through", [COMMITTED - 1, COMMITTED, PRODUCED])
async def test_group_is_never_moved_forward(settings: KafkaSettings, through: int) -> None:
    used = await _used(settings)

    assert await move_back(settings, await _through(settings, through)) == []

    assert await _committed(settings) == {used.partition: COMMITTED}


async def test_positions_of_another_cluster_say_nothing(settings: KafkaSettings) -> None:
    used = await _used(settings)
    stored = {f"another/{used.topic}/{used.partition}": 7}

    assert await move_back(settings, stored, dry_run=True) == [MovedBack(used, COMMITTED, 0, 0)]


async def test_group_with_a_worker_is_not_moved(settings: KafkaSettings) -> None:
    used = await _used(settings)
    source, assigned = KafkaSource(settings), asyncio.Event()

    async def on_assigned(_partitions: object) -> None:
        assigned.set()

    async def on_revoked(_partitions: object) -> None:
        """Nothing to do."""

    await source.open(on_revoked=on_revoked, on_assigned=on_assigned)
    async with asyncio.timeout(60):
        await assigned.wait()
    with pytest.raises(ServiceError, match=f"The group {settings.group} has members: stop every"):
        await move_back(settings, {})
    await source.close()

    assert await _committed(settings) == {used.partition: COMMITTED}


async def _delete_before(settings: KafkaSettings, offset: int) -> None:
    used = await _used(settings)
    async with open_admin(settings) as admin:
        await admin.delete_records({TopicPartition(*used): RecordsToDelete(before_offset=offset)})


async def _store_through(settings: KafkaSettings, engine: FreshSettings, data_dir: Path) -> str:
    """Write to a new database that the partition is stored up to offset 2; return the name of the database."""
    used, database = await _used(settings), engine()
    partition_id = await _partition_id(settings, used.partition)
    rows = [
        StoredPosition(ALL_PROJECTS, partition_id, 2, 1, 1),
        StoredPosition(DEFAULT_PROJECT_ID, partition_id, 1, 1, 1),
    ]
    store = open_store(database, data_dir=data_dir)
    await store.insert(STORED_THROUGH_TABLE, positions_table(rows), dedup_token="1", deadline_s=60)
    await store.close()
    return database.database


def test_command_reports_records_that_kafka_has_deleted(
    settings: KafkaSettings,
    chdb_dir: Path,
    chdb_settings: FreshSettings,
    shared_postgres: PostgresSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, used = next(iter(settings.topics)), asyncio.run(_used(settings))
    database = asyncio.run(_store_through(settings, chdb_settings, chdb_dir))
    environment = {
        "CLEARSPAN_DATA_DIR": str(chdb_dir),
        "CLEARSPAN_CLICKHOUSE__INTERFACE": "chdb",
        "CLEARSPAN_CLICKHOUSE__DATABASE": database,
        "CLEARSPAN_POSTGRES__DSN": shared_postgres.dsn.get_secret_value(),
        "CLEARSPAN_KAFKA__BOOTSTRAP": settings.bootstrap,
        "CLEARSPAN_KAFKA__GROUP": settings.group,
        "CLEARSPAN_KAFKA__TOPICS": json.dumps({topic: {"encoding": "span_json"}}),
    }
    run = runner(monkeypatch, capsys, environment)

    planned = run("reset-offsets", "--dry-run")
    asyncio.run(_delete_before(settings, 5))
    moved = run("reset-offsets", "--json")
    again = run("reset-offsets")

    assert planned.code == 0
    assert "5 records would be read again. Nothing was changed." in planned.stdout
    assert moved.code == 1
    members = {"topic": topic, "partition": used.partition, "committed_offset": 8, "next_offset": 5, "gone_count": 2}
    assert json.loads(moved.stdout) == members
    assert f"Kafka has deleted records that the tables lack: 2 of {topic}/{used.partition}." in moved.stderr
    assert again.code == 1
    assert asyncio.run(_committed(settings)) == {used.partition: 5}
    entries = asyncio.run(_audit_entries(shared_postgres))
    assert [entry.entities for entry in entries] == [[{"id": f"{topic}/{used.partition}"}]] * 2
    assert {(entry.operation, entry.outcome) for entry in entries} == {("clearspan reset-offsets", AuditOutcome.DONE)}


async def _audit_entries(postgres: PostgresSettings) -> list[AuditEntry]:
    """Return all entries, newest first."""
    async with open_database(postgres) as database:
        return await AuditLog(database).read(AuditFilter(), count_max=10)
