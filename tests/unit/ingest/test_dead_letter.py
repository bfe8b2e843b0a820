from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from unittest.mock import ANY
from uuid import UUID

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.clickhouse.dead_letters import DeadLetter, DeadLetterContent, Envelope, dead_letter_id
from common.codec.decoded import Rejection, Rejections
from common.errors import RejectionCode, ServiceError, Unavailable
from common.kafka.record import Record
from common.limits import SpanLimits
from common.readiness import Readiness, Retry
from common.settings import Encoding, TopicSettings
from ingest.codecs import decode
from ingest.dead_letter import (
    WAITING_BYTES_MAX,
    WAITING_MAX,
    DeadLetters,
)
from ingest.rejected_spans import CutDeadLetter, cut_dead_letters
from tests.fakes.clock import ManualClock
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.kafka import MemoryBroker
from tests.support.otlp import START_NS

DEAD = "spans.dead_letter"
PROTO = Encoding.OTLP_PROTO
OF_TOPIC = UUID(int=9)
RECORD = Record("otlp_spans", 3, 41, 1_000, b"key", b"value", (("project-id", b"p"), ("clearspan-code", b"forged")))
WHOLE = Rejection(None, RejectionCode.UNDECODABLE, "It’s not protobuf.")


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def dead_letters_on(
    broker: MemoryBroker,
    readiness: Readiness | None = None,
    *,
    store: MemoryDeadLetters | None = None,
    sleep: Callable[[float], Awaitable[None]] = no_sleep,
) -> DeadLetters:
    retry = Retry(readiness=readiness or Readiness(), delay_s_max=1.0, sleep=sleep)
    return DeadLetters(
        store or MemoryDeadLetters(),
        broker.publisher(),
        topic=DEAD,
        topics={"otlp_spans": TopicSettings(encoding=Encoding.OTLP_PROTO, project_id=OF_TOPIC)},
        retry=retry,
        clock=ManualClock(now_ns=1_760_000_000_123_456_000),
    )


async def test_dead_letter_has_the_original_and_its_coordinates() -> None:
    broker = MemoryBroker(partitions=1)
    dead_letters = dead_letters_on(broker)

    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"value"), encoding=Encoding.OTLP_PROTO)
    await dead_letters.flush()

    (dead_letter,) = broker.records(DEAD)
    assert (dead_letter.key, dead_letter.value) == (b"key", b"value")
    assert len(dead_letter.headers) == 10
    assert dict(dead_letter.headers) == {
        "project-id": b"p",
        "content-type": b"application/x-protobuf",
        "clearspan-id": ANY,
        "clearspan-topic": b"otlp_spans",
        "clearspan-partition": b"3",
        "clearspan-offset": b"41",
        "clearspan-timestamp": b"1000",
        "clearspan-code": b"undecodable",
        "clearspan-reason": "It’s not protobuf.".encode(),
        "clearspan-time": b"2025-10-09T08:53:20.123456Z",
    }


async def test_row_has_the_original_and_its_coordinates() -> None:
    store, value = MemoryDeadLetters(), b"value"
    sent = RECORD._replace(headers=(*RECORD.headers, ("clearspan-id", b"of an earlier one"), ("null", None)))
    dead_letters = dead_letters_on(MemoryBroker(), store=store)
    codes = {RejectionCode.ABSURD_TIME: 3, RejectionCode.INVALID_LINK: 1}

    await dead_letters.add(sent, CutDeadLetter(WHOLE, value, codes), partition_id="c/otlp_spans/3", encoding=PROTO)
    await dead_letters.flush()

    [(row, content)] = store.rows.values()
    key = dead_letter_id("c/otlp_spans/3", 3, RECORD.offset, RECORD.timestamp_ms, None)
    assert row == DeadLetter(
        key,
        "otlp_spans",
        3,
        RECORD.offset,
        None,
        WHOLE.code.value,
        WHOLE.reason,
        1_760_000_000_123_456,
        5,
        {"absurd_time": 3, "invalid_link": 1},
        "p",
    )
    headers = (("project-id", b"p"), ("null", None), ("content-type", b"application/x-protobuf"))
    assert content == DeadLetterContent(Envelope(b"key", headers), value)


@pytest.mark.parametrize(
    ("header", "project"),
    [
        (str(OF_TOPIC).upper().encode(), str(OF_TOPIC)),
        (b"no id \xff", "no id \N{REPLACEMENT CHARACTER}"),
        (b"x" * 1_000, "x" * 100),
        (b"", str(OF_TOPIC)),
    ],
)
async def test_project_is_that_of_the_header_or_else_of_the_topic(header: bytes, project: str) -> None:
    store = MemoryDeadLetters()
    dead_letters = dead_letters_on(MemoryBroker(), store=store)

    record = RECORD._replace(headers=(("project-id", header),))
    await dead_letters.add(record, CutDeadLetter(WHOLE, b"v"), encoding=PROTO)
    await dead_letters.flush()

    assert [row.project for row, _ in store.rows.values()] == [project]


def test_id_tells_rejections_apart_and_is_the_same_again() -> None:
    rejections = [
        ("c/t/0", 0, 17, 5, None),
        ("c/t/0", 0, 17, 5, 0),
        ("c/t/0", 0, 17, 6, 0),  # another record at the same offset, after a truncation of the log
        ("d/t/0", 0, 17, 5, 0),
        ("c/u/0", 0, 17, 5, 0),
    ]

    ids = [dead_letter_id(*each) for each in rejections]

    assert len(set(ids)) == len(ids)
    assert ids == [dead_letter_id(*each) for each in rejections]
    assert all(each.startswith("0-17-") for each in ids)


async def test_row_is_stored_before_anything_is_published() -> None:
    broker = MemoryBroker()
    store = MemoryDeadLetters(broker.journal)
    store.faults.extend([Unavailable("away"), Unavailable("away")])
    readiness, while_waiting = Readiness(), []

    async def look(_: float) -> None:
        while_waiting.append((readiness.reasons, [*broker.journal]))

    dead_letters = dead_letters_on(broker, readiness, store=store, sleep=look)
    await dead_letters.add(RECORD, CutDeadLetter(WHOLE, b"1"), encoding=PROTO)
    await dead_letters.flush()

    assert while_waiting == [({"store": "away"}, [])] * 2
    assert broker.journal == ["dead letters", f"publish {DEAD}"]


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


LIMITS = SpanLimits()
ENCODINGS = list(Encoding)


def record_of(
    encoding: Encoding, names: list[str], *, resource: str = "", extra: dict[str, bytes] | None = None
) -> Record:
    """A record whose spans have only a name of 199 letters, in two scopes of one resource if the encoding has scopes."""
    names = [name.ljust(199, "_") for name in names]
    half = len(names) // 2
    if encoding is Encoding.OTLP_PROTO:
        request = ExportTraceServiceRequest()
        of_resource = request.resource_spans.add()
        of_resource.resource.attributes.add(key="r").value.string_value = resource
        for scope, some in (("one", names[:half]), ("two", names[half:])):
            of_scope = of_resource.scope_spans.add()
            of_scope.scope.name = scope
            for name in some:
                of_scope.spans.add(name=name)
        value = request.SerializeToString()
    elif encoding is Encoding.OTLP_JSON:
        scopes = [
            {"scope": {"name": scope}, "spans": [{"name": name} for name in some]}
            for scope, some in (("one", names[:half]), ("two", names[half:]))
        ]
        attributes = [{"key": "r", "value": {"stringValue": resource}}]
        value = orjson.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]})
    else:
        value = orjson.dumps({"spans": [{"span_name": name} for name in names]})
    return Record("t", 0, 0, 5, b"key", value, tuple((extra or {}).items()))


def cut(record: Record, encoding: Encoding) -> tuple[Rejections, list[CutDeadLetter]]:
    decoded = decode(record, encoding=encoding, limits=LIMITS, now_ns=START_NS)
    dead_letters = cut_dead_letters(record, decoded.rejections, encoding=encoding, layout=decoded.layout)
    return decoded.rejections, dead_letters


def again(dead_letter: CutDeadLetter, encoding: Encoding) -> Rejections:
    record = Record("t", 0, 1, 5, None, dead_letter.value)
    return decode(record, encoding=encoding, limits=LIMITS, now_ns=START_NS).rejections


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [1, 100])
def test_first_hundred_spans_have_a_dead_letter_each(encoding: Encoding, count: int) -> None:
    _, dead_letters = cut(record_of(encoding, [f"s{n}" for n in range(count)]), encoding)

    assert [dead_letter.rejection.span_index for dead_letter in dead_letters] == list(range(count))
    assert not any(dead_letter.codes for dead_letter in dead_letters)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [101, pytest.param(5_000, marks=pytest.mark.long), 30_000])
def test_further_spans_share_one_dead_letter(encoding: Encoding, count: int) -> None:
    """The largest record is too large to be parsed as a whole."""
    record = record_of(encoding, [f"s{n}" for n in range(count)])

    rejections, dead_letters = cut(record, encoding)

    assert len(rejections) == count
    assert len(dead_letters) == 101
    shared = dead_letters[-1]
    assert (shared.rejection.span_index, shared.rejection.code) == (None, RejectionCode.MANY_SPANS)
    assert sum(shared.codes.values()) == count - 100
    assert shared.rejection.reason.startswith("Span 100: The span has no trace")
    assert shared.rejection.reason.count("Span ") == min(count - 100, 10)
    assert len(shared.value) <= len(record.value or b"")
    assert len(again(shared, encoding)) == count - 100
    assert shared.value.count(b"s100_") == 1


@pytest.mark.parametrize("encoding", [Encoding.OTLP_PROTO, Encoding.OTLP_JSON])
def test_large_resource_is_copied_at_most_twice_and_once_shared(encoding: Encoding) -> None:
    record = record_of(encoding, [f"s{n}" for n in range(90)], resource="x" * 100_000)

    _, dead_letters = cut(record, encoding)

    size = len(record.value or b"")
    *alone, shared = dead_letters
    assert len(alone) in (1, 2)
    assert sum(len(dead_letter.value) for dead_letter in alone) <= 2 * size
    assert len(shared.value) <= size
    assert shared.value.count(b"x" * 100_000) == 1
    assert sum(shared.codes.values()) == 90 - len(alone)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_large_headers_and_keys_count_against_the_limit(encoding: Encoding) -> None:
    record = record_of(encoding, [f"s{n}" for n in range(90)], extra={"h": b"x" * 100_000})

    _, dead_letters = cut(record, encoding)

    assert len(dead_letters) == 3
    assert sum(dead_letters[-1].codes.values()) == 88


def test_record_rejected_as_a_whole_is_one_dead_letter() -> None:
    record = Record("t", 0, 0, 5, None, b"no json")

    (dead_letter,) = cut_dead_letters(
        record, Rejections.of_record(RejectionCode.UNDECODABLE, "r"), encoding=Encoding.SPAN_JSON
    )

    assert (dead_letter.value, dead_letter.rejection.code) == (b"no json", RejectionCode.UNDECODABLE)


def test_record_without_rejections_has_no_dead_letter() -> None:
    assert cut_dead_letters(Record("t", 0, 0, 5, None, b"{}"), Rejections(), encoding=Encoding.SPAN_JSON) == []


def test_unreadable_layout_sends_whole_records_within_the_limit() -> None:
    rejections = Rejections()
    for index in range(300):
        rejections.add(index, RejectionCode.OUR_FAILURE, "r")
    record = Record("t", 0, 0, 5, None, b"no json")

    dead_letters = cut_dead_letters(record, rejections, encoding=Encoding.SPAN_JSON)

    assert {dead_letter.value for dead_letter in dead_letters} == {b"no json"}
    assert len(dead_letters) == 3
    assert dead_letters[-1].codes == Counter({RejectionCode.OUR_FAILURE: 298})


def test_later_rejections_are_in_the_order_of_the_record() -> None:
    record = record_of(Encoding.SPAN_JSON, [f"s{n}" for n in range(200)])
    rejections = Rejections()
    for index in [*range(1, 200), 0]:
        rejections.add(index, RejectionCode.ABSURD_TIME, "r")

    shared = cut_dead_letters(record, rejections, encoding=Encoding.SPAN_JSON)[-1]

    names = [span["span_name"].rstrip("_") for span in orjson.loads(shared.value)["spans"]]
    assert names == ["s0", *(f"s{n}" for n in range(101, 200))]
