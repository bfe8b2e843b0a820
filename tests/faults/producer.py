"""A producer as services have one: it numbers its spans, waits for acknowledgements, and resends."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.faults.log import LoggedRecord, Mark, header_of, read_log
from tests.faults.spans import DURATION_NS, SPANS_PER_TRACE, TOPICS, NumberedSpan, encode, trace_id_of

FAR_FROM_NOW_NS: Final = 3_600_000_000_000
"""Spans start an hour before they are sent."""

BAD_FROM: Final = 1_000_000
"""The numbers of spans that are refused."""

IN_FLIGHT_MAX: Final = 64
RETRY_S: Final = 0.1
ACKNOWLEDGED_S: Final = 120.0
"""How long a producer goes on after its last record."""

REQUEST_MS: Final = 5_000

STARTED_NS: Final = time.time_ns()


class Place(NamedTuple):
    """Where a span of a record is: ``span_index`` is ``None`` for the whole record."""

    topic: str
    partition: int
    offset: int
    span_index: int | None


@dataclass(frozen=True)
class Plan:
    """What one producer sends. Shares are of spans or records; times in seconds."""

    round_name: str
    spans_count: int
    seed: int
    first_number: int = 0
    first_attempt: int = 1
    lasting_s: float = 3.0
    spans_per_record: int = 2 * SPANS_PER_TRACE
    updated_share: float = 0.15
    repeated_share: float = 0.1
    bad_span_share: float = 0.0
    bad_record_share: float = 0.0
    topics: Sequence[str] = TOPICS
    padding: str = ""
    duration_ns: int = DURATION_NS
    start_of: Callable[[int], int] | None = None
    """The start of a span by its number, in ns since 1970; by default an hour ago, with ties."""

    is_log_whole: bool = True
    """Whether the log has every record of the plan at the end: nothing deletes records or the topic."""

    headers_of: Callable[[int], Sequence[tuple[str, bytes | None]]] = lambda _record: ()
    faults: Sequence[str] = ("of_1970", "of_2200", "zero_id")

    def start_ns(self, number: int) -> int:
        """Return the start of a span."""
        if self.start_of is not None:
            return self.start_of(number)
        return STARTED_NS - FAR_FROM_NOW_NS + number // 3 * 1_000_000


@dataclass
class Sent:
    """What a producer knows: the truth that the checker compares with.

    ``latest`` has the last attempt of each good span that Kafka has acknowledged, and ``acknowledged_s`` its time.
    ``copies`` counts the records in the log by span and attempt. If the log is not whole, it counts those that were
    handed to the driver or those in the log, whichever are more: the driver may send one twice by itself.
    ``joins`` counts the records about a span that are not the span: a reader may see it once more after each.
    ``places`` are where spans are, by number and attempt, and ``refused`` are the places of bad spans and records, as
    Kafka has acknowledged them or as the log has them.
    """

    latest: dict[int, int] = field(default_factory=dict)
    acknowledged_s: dict[int, float] = field(default_factory=dict)
    copies: Counter[tuple[int, int]] = field(default_factory=Counter)
    joins: Counter[int] = field(default_factory=Counter)
    places: dict[tuple[int, int], list[Place]] = field(default_factory=dict)
    refused: set[Place] = field(default_factory=set)

    def add(self, later: Sent) -> None:
        """Add what a producer has sent after this."""
        self.latest |= later.latest
        self.acknowledged_s |= later.acknowledged_s
        self.copies |= later.copies
        self.joins |= later.joins
        self.places |= later.places
        self.refused |= later.refused

    def read_log(self, records: Iterable[LoggedRecord], *, is_whole: bool) -> None:
        """Take from the log which attempt is the latest, how many copies there are, and what must be refused.

        All records of a span are in one partition, so the last one there is the latest.
        """
        logged: Counter[tuple[int, int]] = Counter()
        for mark, partition, offset in sorted(records, key=lambda record: record.offset):
            self.refused |= {Place(partition.topic, partition.partition, offset, index) for index in mark.refused}
            for number in mark.numbers:
                logged[number, mark.attempt] += 1
                if number in self.latest:
                    self.latest[number] = mark.attempt
        self.copies = logged if is_whole else self.copies | logged


class Producer:
    """Sends a plan in a thread. ``sent`` is complete after ``finish``."""

    def __init__(self, bootstrap: str, project_id: str, plan: Plan) -> None:
        self.sent = Sent()
        self._bootstrap = bootstrap
        self._headers = (("project-id", project_id.encode()),)
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._failure: BaseException | None = None
        self._acknowledged = 0
        self._since_ms = time.time_ns() // 1_000_000 - 1_000
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def acknowledged_share(self) -> float:
        """The share of the records that is acknowledged. Raises what has ended the producer."""
        if self._failure is not None:
            raise self._failure
        return self._acknowledged / max(1, len(self._records()))

    def join(self) -> None:
        """Return when everything is acknowledged. Raises ``AssertionError`` if it is not."""
        self._thread.join(ACKNOWLEDGED_S + self._plan.lasting_s)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise AssertionError(f"Kafka has not acknowledged everything within {ACKNOWLEDGED_S:g} s")

    def finish(self) -> Sent:
        """Return what was sent, when everything is acknowledged; the log of Kafka must be readable."""
        self.join()
        self.sent.read_log(asyncio.run(self.logged()), is_whole=self._plan.is_log_whole)
        return self.sent

    async def logged(self) -> list[LoggedRecord]:
        """Return the records that Kafka's log holds now."""
        plan = self._plan
        return await read_log(self._bootstrap, plan.topics, plan.round_name, since_ms=self._since_ms)

    def _run(self) -> None:
        try:
            asyncio.run(self._send_all())
        except BaseException as exc:  # noqa: BLE001 - raised again by `finish`
            self._failure = exc

    def _records(self) -> list[range]:
        step = self._plan.spans_per_record
        end = self._plan.first_number + self._plan.spans_count
        return [range(first, min(first + step, end)) for first in range(self._plan.first_number, end, step)]

    async def _send_all(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            enable_idempotence=False,  # a resent record may be stored twice, as with most producers
            max_request_size=16 * 1024 * 1024,
            request_timeout_ms=REQUEST_MS,
        )
        await producer.start()
        room = asyncio.Semaphore(IN_FLIGHT_MAX)
        records = self._records()
        began_s = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                for at, numbers in enumerate(records):
                    due_s = began_s + self._plan.lasting_s * at / len(records)
                    await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                    await room.acquire()
                    task = tasks.create_task(self._send(producer, at, numbers))
                    task.add_done_callback(lambda _: room.release())
        finally:
            await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, at: int, numbers: range) -> None:
        """Send one record until Kafka acknowledges it; then perhaps the same again, or its spans once more, changed."""
        topic = self._random.choice(list(self._plan.topics))
        if self._random.random() < self._plan.bad_record_share:
            mark = Mark(range(0), 0, refused=(None,))
            self.sent.refused.add(await self._acknowledge(producer, topic, at, b"\xff no record", mark, key=None))
        attempts = 1 + (self._random.random() < self._plan.updated_share)
        for attempt in range(self._plan.first_attempt, self._plan.first_attempt + attempts):
            if attempt > self._plan.first_attempt:
                await asyncio.sleep(self._random.random() * self._plan.lasting_s)
            spans = [self._span(number, attempt) for number in numbers]
            spans += self._bad_spans(numbers, attempt)
            self._random.shuffle(spans)
            for _ in range(1 + (self._random.random() < self._plan.repeated_share)):
                await self._send_spans(producer, topic, at, numbers, spans)
        self._acknowledged += 1

    async def _send_spans(
        self, producer: AIOKafkaProducer, topic: str, at: int, numbers: range, spans: Sequence[NumberedSpan]
    ) -> None:
        key = trace_id_of(self._plan.round_name, numbers.start).hex()
        mark = Mark(numbers, spans[0].attempt, tuple(index for index, span in enumerate(spans) if span.fault))
        where = await self._acknowledge(producer, topic, at, encode(spans, topic), mark, key=key.encode())
        for number in numbers:
            self.sent.latest[number] = mark.attempt
            self.sent.acknowledged_s[number] = time.monotonic()
            self.sent.places.setdefault((number, mark.attempt), []).append(where)
        self.sent.refused |= {where._replace(span_index=index) for index in mark.refused}

    async def _acknowledge(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        at: int,
        value: bytes,
        mark: Mark,
        *,
        key: bytes | None,
    ) -> Place:
        headers = [*self._headers, header_of(self._plan.round_name, mark), *self._plan.headers_of(at)]
        while True:
            self.sent.copies.update((number, mark.attempt) for number in mark.numbers)
            try:
                stored = await producer.send_and_wait(topic, value, key=key, headers=headers)
            except KafkaError:
                await asyncio.sleep(RETRY_S)
            else:
                return Place(stored.topic, stored.partition, stored.offset, None)

    def _span(self, number: int, attempt: int, fault: str = "") -> NumberedSpan:
        plan = self._plan
        return NumberedSpan(
            plan.round_name,
            number,
            attempt,
            plan.start_ns(number),
            duration_ns=plan.duration_ns,
            fault=fault,
            padding=plan.padding,
        )

    def _bad_spans(self, numbers: range, attempt: int) -> list[NumberedSpan]:
        """Return further spans, which are refused; their numbers are beyond those of good ones."""
        wanted = [number for number in numbers if self._random.random() < self._plan.bad_span_share]
        return [
            self._span(BAD_FROM + number, attempt, self._random.choice(list(self._plan.faults))) for number in wanted
        ]
