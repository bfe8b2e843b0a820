from __future__ import annotations

import pytest

from common.errors import Unavailable
from common.kafka.record import Coordinates
from query_api.intake.publish import UNACKNOWLEDGED_MAX, publish
from query_api.intake.records import IntakeRecord, partition_of
from tests.fakes.kafka import MemoryBroker
from tests.support.api import PROJECT_A


async def _publish(broker: MemoryBroker, count: int) -> list[Coordinates]:
    records = [IntakeRecord(number.to_bytes(16, "big"), b"%d" % number) for number in range(1, count + 1)]
    return await publish(broker.publisher(), records, topic="spans", content_type="a/b", project_id=PROJECT_A)


async def test_record_carries_its_key_project_and_type() -> None:
    broker = MemoryBroker()

    await _publish(broker, 1)

    (record,) = broker.records("spans")
    assert record.key == (1).to_bytes(16, "big")
    assert record.headers == (("project-id", str(PROJECT_A).encode()), ("content-type", b"a/b"))


async def test_record_goes_to_its_partition() -> None:
    """Kafka's partitioner would send the key to the other partition."""
    broker = MemoryBroker()
    key = (1).to_bytes(16, "big")
    other = 1 - partition_of(key, 2)
    records = [IntakeRecord(key, b"value", other)]

    (where,) = await publish(broker.publisher(), records, topic="spans", content_type="a/b", project_id=PROJECT_A)

    assert where == Coordinates("spans", other, 0)


async def test_records_above_the_inflight_limit_all_arrive() -> None:
    broker = MemoryBroker()

    where = await _publish(broker, UNACKNOWLEDGED_MAX + 1)

    records = broker.records("spans")
    assert len({record.key for record in records}) == len(records) == UNACKNOWLEDGED_MAX + 1
    last = {record.partition: record.offset for record in records}
    assert {place.partition: place.offset for place in where} == last


async def test_unacknowledged_record_fails_the_request() -> None:
    broker = MemoryBroker()
    broker.publish_faults.extend([None, Unavailable("away"), None])

    with pytest.raises(Unavailable, match="away"):
        await _publish(broker, 3)
