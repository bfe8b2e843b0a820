"""The dead letters of the journal are published to a new broker; a stop in between loses none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clearspan.embedded.journal import CarryOver, Journal
from common.errors import ServiceError, Unavailable
from common.readiness import Readiness, Retry
from ingest.dead_letter import BulkPublisher, DeadLetterMessage
from tests.fakes.kafka import MemoryBroker

VALUES = [b"%d" % number for number in range(10)]


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Ten dead letters, of which four are published at the same time."""
    monkeypatch.setattr("ingest.dead_letter.WAITING_MAX", 4)
    journal = Journal(tmp_path / "letters.jsonl")
    journal.append([DeadLetterMessage(value, None, (("null", None),)) for value in VALUES])
    return journal


def carrying(journal: Journal, broker: MemoryBroker, sleep=asyncio.sleep) -> CarryOver:
    retry = Retry(readiness=Readiness(), delay_s_max=1.0, sleep=sleep)
    bulk = BulkPublisher(broker.publisher(), topic="dead", retry=retry)
    return CarryOver(journal, bulk)


def values_left(carried: CarryOver) -> list[bytes]:
    return [entry.value for entry in carried.left()]


async def test_carry_over_publishes_what_the_journal_held_at_its_start(journal: Journal) -> None:
    broker = MemoryBroker(partitions=1)
    carried = carrying(journal, broker)
    journal.append([DeadLetterMessage(b"published by the worker", None, ())])

    await carried.run()

    assert [record.value for record in broker.records("dead")] == VALUES
    assert values_left(carried) == []


async def test_unacknowledged_dead_letters_are_left_after_a_stop(journal: Journal) -> None:
    broker = MemoryBroker(partitions=1)
    broker.publish_faults.extend([None] * 6 + [Unavailable("away")])
    tried = asyncio.Event()

    async def never(_: float) -> None:
        tried.set()
        await asyncio.Event().wait()

    carried = carrying(journal, broker, never)
    running = asyncio.create_task(carried.run())
    await tried.wait()
    running.cancel()
    await asyncio.wait({running})

    assert values_left(carried) == VALUES[4:]


async def test_permanent_failure_ends_only_the_carry_over(journal: Journal) -> None:
    broker = MemoryBroker(partitions=1)
    broker.publish_faults.extend([None] * 4 + [ServiceError("not authorised")])
    carried = carrying(journal, broker)

    await carried.run()

    assert values_left(carried) == VALUES[4:]


async def test_missing_journal_has_nothing_to_carry_over(tmp_path: Path) -> None:
    carried = carrying(Journal(tmp_path / "none.jsonl"), MemoryBroker())

    await carried.run()

    assert values_left(carried) == []
