"""``clearspan audit --verify`` over a real Kafka, worker, engine and Postgres: every span of a record is explained."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr

from clearspan.client.connection import RequestFailed, open_connection
from clearspan.client.verify import PartitionReport, _verify
from clearspan.options import ServerOptions
from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.producer import KafkaPublisher
from common.kafka.record import PROJECT_HEADER, Coordinates, Header
from common.postgres.pool import Database, open_database
from common.postgres.projects import Projects
from common.settings import (
    ClickHouseSettings,
    ComputeSettings,
    Encoding,
    IngestSettings,
    PostgresSettings,
    Settings,
    TopicSettings,
)
from common.times import SystemClock
from ingest.app import open_worker
from query_api.http.app import open_api
from tests.support.api import PATIENT
from tests.support.kafka import Broker

WAIT_S: Final = 120
BAD_COUNT: Final = 150


@dataclass
class Installation:
    """A worker and an API on real systems."""

    settings: Settings
    server: ServerOptions
    store: ColumnStore
    database: Database
    publisher: KafkaPublisher
    topic: str

    async def send(self, *spans: dict[str, Any], headers: Sequence[Header] = ()) -> Coordinates:
        return await self.send_bytes(json.dumps({"spans": spans}).encode(), headers=headers)

    async def send_bytes(self, value: bytes, *, headers: Sequence[Header] = ()) -> Coordinates:
        return await self.publisher.publish(self.topic, value, key=b"same partition", headers=headers)

    async def verified(self) -> PartitionReport:
        """Compare until all records are stored; return the report of the partition that has some."""
        async with asyncio.timeout(WAIT_S):
            while True:
                reports = await _verify(self.settings, self.server, [self.topic])
                if all(not report.behind_count for report in reports) and any(report.records for report in reports):
                    (found,) = [report for report in reports if report.records]
                    return found
                await asyncio.sleep(0.2)

    async def change(self, sql: str) -> None:
        await self.store.execute(Statement(f"{sql} SETTINGS mutations_sync = 2", {}), deadline_s=60)


@pytest.fixture
async def installation(
    kafka: Broker,
    unique: str,
    http_settings: Callable[[], ClickHouseSettings],
    database_settings: PostgresSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Installation]:
    topic = f"{unique}.spans"
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("verify"),
        auth="on",
        admin_key=SecretStr("root"),
        api_port=0,
        otlp_http_port=0,
        otlp_grpc_port=0,
        worker_port=0,
        kafka=kafka.settings(
            group=unique,
            topics={topic: TopicSettings(encoding=Encoding.SPAN_JSON)},
            intake_topic=topic,
            otlp_topic=topic,
            dead_letter_topic=f"{unique}.dead",
            stored_topic=f"{unique}.stored",
            partitions=2,
        ),
        clickhouse=http_settings(),
        postgres=database_settings,
        ingest=IngestSettings(decode_processes=0),
        compute=ComputeSettings(processes=0),
        query=PATIENT,
    )
    store = open_store(settings.clickhouse, data_dir=settings.data_dir)
    publisher = KafkaPublisher(settings.kafka)
    async with (
        open_database(database_settings) as database,
        open_worker(settings, projects=Projects(database, SystemClock()), database=database) as worker,
    ):
        working = asyncio.create_task(worker.run())
        async with open_api(settings) as port:
            server = ServerOptions(url=f"http://127.0.0.1:{port}", key="root")
            yield Installation(settings, server, store, database, publisher, topic)
        worker.stop()
        await working
    await publisher.close()
    await store.close()


def span(number: int, **members: Any) -> dict[str, Any]:
    return {
        "trace_id": f"{number + 1:032x}",
        "span_id": f"{number + 1:016x}",
        "span_name": f"s{number}",
        "start_time": "2026-01-01T00:00:00Z",
        **members,
    }


async def test_every_span_of_a_record_is_explained(installation: Installation) -> None:
    projects = Projects(installation.database, SystemClock())
    gone = await projects.create("gone")
    for number in range(10):
        await installation.send(span(number), span(100 + number))
    await installation.send(span(0, span_name="sent again"))
    await installation.send(span(20), {**span(21), "span_id": "0" * 16})
    await installation.send(*({**span(n), "start_time": "1970-01-02T00:00:00Z"} for n in range(200, 200 + BAD_COUNT)))
    await installation.send(span(30), headers=[(PROJECT_HEADER, str(uuid4()).encode())])
    await installation.send_bytes(b"no JSON", headers=[(PROJECT_HEADER, str(gone.id).encode())])
    await installation.send(span(40), span(41), headers=[(PROJECT_HEADER, str(gone.id).encode())])
    await installation.send_bytes(b"")

    report = await installation.verified()

    stored, dead = 20 + 1 + 1 + 2, 1 + BAD_COUNT + 1 + 1
    assert (report.records, report.spans) == (17, stored + dead)
    assert (report.stored, report.deleted, report.dead_lettered, report.missing) == (stored, 0, dead, 0)

    await projects.delete(gone.id)
    await installation.change(f"ALTER TABLE dead_letters DELETE WHERE project = '{gone.id}'")
    report = await installation.verified()
    assert (report.stored + report.deleted, report.dead_lettered, report.missing) == (stored + 1, dead - 1, 0)


async def test_rows_that_are_removed_behind_its_back_are_named(installation: Installation) -> None:
    where = [await installation.send(span(number)) for number in range(6)]
    assert (await installation.verified()).missing == 0
    lost, unknown = (f"unhex('{number + 1:032x}')" for number in (1, 2))

    await installation.change(f"ALTER TABLE spans DELETE WHERE trace_id = {lost}")
    for table in ("spans", "span_versions"):
        await installation.change(f"ALTER TABLE {table} DELETE WHERE trace_id = {unknown}")
    report = await installation.verified()

    named = {span.offset: (span.trace_id, (span.span_id or "")[:16], span.reason) for span in report.named}
    assert (report.topic, report.stored, report.missing) == (installation.topic, 4, 2)
    assert named == {
        where[1].offset: (f"{2:032x}", f"{2:016x}", "Its row is missing."),
        where[2].offset: (f"{3:032x}", f"{3:016x}", "It is not stored."),
    }


async def test_shared_dead_letter_explains_no_lost_span(installation: Installation) -> None:
    bad = ({**span(number), "span_id": "0" * 16} for number in range(BAD_COUNT))
    await installation.send(span(300), span(301), *bad)
    assert (await installation.verified()).dead_lettered == BAD_COUNT
    for table in ("spans", "span_versions"):
        await installation.change(f"ALTER TABLE {table} DELETE WHERE trace_id = unhex('{301:032x}')")

    report = await installation.verified()

    assert (report.stored, report.dead_lettered, report.missing) == (1, BAD_COUNT, 1)
    (lost,) = report.named
    assert (lost.span_index, lost.reason) == (0, "It is not stored.")


async def test_presence_is_that_of_this_version_or_a_later_one(installation: Installation) -> None:
    sent = await installation.send(span(0))
    await installation.verified()

    async def ask(
        offset: int, project_id: UUID = DEFAULT_PROJECT_ID, partition: int = sent.partition, **members: Any
    ) -> dict[str, Any]:
        asked = {"trace_id": f"{1:032x}", "span_id": f"{1:016x}", "offset": offset, "record_ms": 0, **members}
        body = {
            "project_id": str(project_id),
            "topic": sent.topic,
            "partition": partition,
            "spans": [asked],
        }
        async with open_connection(installation.settings, installation.server, scheme="Access") as api:
            return await api.post("/admin/presence/query", body)

    assert (await ask(sent.offset))["stored"] == 1
    (missing,) = (await ask(sent.offset + 1))["missing"]
    assert missing["reason"] == "Only an older version is stored."
    elsewhere = await ask(sent.offset, uuid4())
    assert (elsewhere["count"], elsewhere["project_exists"]) == (1, False)
    with pytest.raises(RequestFailed, match=r"spans\[0\]"):
        await ask(sent.offset, span_id="no id")
    with pytest.raises(RequestFailed, match="no partition 77"):
        await ask(sent.offset, partition=77)
    installation.server = installation.server._replace(key="wrong")
    with pytest.raises(RequestFailed) as refused:
        await ask(sent.offset)
    assert refused.value.status == 401


async def test_lost_dead_letter_is_missing(installation: Installation) -> None:
    await installation.send(span(0))
    bad = await installation.send({**span(1), "span_id": "0" * 16})
    assert (await installation.verified()).dead_lettered == 1
    await installation.change("ALTER TABLE dead_letters DELETE WHERE true")

    report = await installation.verified()

    assert (report.stored, report.dead_lettered, report.missing) == (1, 0, 1)
    (lost,) = report.named
    assert (lost.offset, lost.span_index) == (bad.offset, 0)
    assert "rejected" in lost.reason
