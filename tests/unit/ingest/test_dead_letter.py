from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from common.codec.decoded import Rejection
from common.errors import RejectionCode, ServiceError, Unavailable
from common.kafka.record import Record
from common.settings import Encoding
from ingest.dead_letter import WAITING_BYTES_MAX, WAITING_MAX, BulkPublisher, CutDeadLetter, DeadLetters
from ingest.readiness import Readiness, Retry
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker

DEAD = "spans.dead_letter"
RECORD = Record("otlp_spans", 3, 41, 1_000, b"key", b"value", (("project-id", b"p"), ("clearspan-code", b"forged")))
WHOLE = Rejection(None, RejectionCode.UNDECODABLE, "It’s not protobuf.")


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def dead_letters_on(
    broker: MemoryBroker,
    readiness: Readiness | None = None,
    *,
    sleep: Callable[[float], Awaitable[None]] = no_sleep,
) -> DeadLetters:
    retry = Retry(readiness=readiness or Readiness(), delay_s_max=1.0, sleep=sleep)
    bulk = BulkPublisher(broker.publisher(), topic=DEAD, retry=retry)
    return DeadLetters(bulk, clock=ManualClock(now_ns=1_760_000_000_123_456_000))


async def test_dead_letter_has_the_original_and_its_coordinates() -> None:
    broker = MemoryBroker(partitions=1)
    dead_letters = dead_letters_on(broker)

    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"value"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.flush()

    (dead_letter,) = broker.records(DEAD)
    assert (dead_letter.key, dead_letter.value) == (b"key", b"value")
    assert len(dead_letter.headers) == 9
    assert dict(dead_letter.headers) == {
        "project-id": b"p",
        "content-type": b"application/x-protobuf",
        "clearspan-topic": b"otlp_spans",
        "clearspan-partition": b"3",
        "clearspan-offset": b"41",
        "clearspan-timestamp": b"1000",
        "clearspan-code": b"undecodable",
        "clearspan-reason": "It’s not protobuf.".encode(),
        "clearspan-time": b"2025-10-09T08:53:20.123456Z",
    }


async def test_sent_content_type_is_the_only_one() -> None:
    broker = MemoryBroker(partitions=1)
    dead_letters = dead_letters_on(broker)
    record = RECORD._replace(headers=(("content-type", b"text/csv"),))

    await dead_letters.add(record, CutDeadLetter(WHOLE._replace(span_index=2), b"v"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.flush()

    (dead_letter,) = broker.records(DEAD)
    assert [value for name, value in dead_letter.headers if name == "content-type"] == [b"text/csv"]
    assert dead_letter.header("clearspan-span-index") == b"2"


async def test_full_window_is_published_before_more_is_queued() -> None:
    broker = MemoryBroker()
    dead_letters = dead_letters_on(broker)

    for count in range(1, WAITING_MAX + 1):
        assert len(broker.records(DEAD)) == 0, count
        await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"v"), encoding=Encoding.OTLP_PROTO)

    assert len(broker.records(DEAD)) == WAITING_MAX


async def test_window_of_large_dead_letters_is_published_early() -> None:
    broker = MemoryBroker(partitions=1)
    dead_letters = dead_letters_on(broker)
    half = bytes(WAITING_BYTES_MAX // 2)

    published = []
    for _ in range(5):
        await dead_letters.add(RECORD, CutDeadLetter(WHOLE, half), encoding=Encoding.OTLP_PROTO)
        published.append(len(broker.records(DEAD)))

    assert published == [0, 2, 2, 4, 4]


async def test_flush_returns_only_when_all_are_acknowledged() -> None:
    broker = MemoryBroker()
    broker.publish_faults.extend([Unavailable("away")] * 5)
    dead_letters = dead_letters_on(broker)

    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"1"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"2"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.flush()

    assert sorted(dead_letter.value or b"" for dead_letter in broker.records(DEAD)) == [b"1", b"2"]


async def test_worker_is_ready_again_once_the_dead_letter_is_acknowledged() -> None:
    broker = MemoryBroker()
    broker.publish_faults.append(Unavailable("away"))
    readiness = Readiness()
    while_waiting = []

    async def look(_: float) -> None:
        while_waiting.append(readiness.reasons)

    dead_letters = dead_letters_on(broker, readiness, sleep=look)
    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"1"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.flush()

    assert while_waiting == [{"dead letters": "away"}]
    assert readiness.reasons == {}


async def test_permanent_failure_is_raised() -> None:
    broker = MemoryBroker()
    broker.publish_faults.append(ServiceError("not authorised"))
    dead_letters = dead_letters_on(broker)

    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"1"), encoding=Encoding.OTLP_PROTO)
    with pytest.raises(ExceptionGroup):
        await dead_letters.flush()
