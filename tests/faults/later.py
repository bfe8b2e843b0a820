"""What comes later than its span, or before it: log events, evaluations and annotations, each perhaps sent twice."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.faults.checker import pages_of
from tests.faults.client import ApiClient
from tests.faults.producer import ACKNOWLEDGED_S, RETRY_S, Plan, Sent
from tests.faults.spans import DURATION_NS, LOGS_TOPIC, SHARDS, SPAN_JSON_TOPIC, trace_id_of

EVENT: Final = "fault.event"
EVALUATION: Final = "gen_ai.evaluation.result"
ANNOTATIONS_FROM: Final = 1_000_000
"""The number of the first annotation; the others follow the numbers of the spans that they judge."""

REPEATED_SHARE: Final = 0.2
EXAMPLES: Final = 5


class Record(NamedTuple):
    """A record about the span with this number. ``own``: the number and the attempt of the span that it holds, if any."""

    topic: str
    key: bytes
    value: bytes
    number: int
    own: tuple[int, int] | None = None


class LateProducer:
    """Sends records about the spans of a plan in any order, in a thread, for as long as the plan lasts."""

    def __init__(self, bootstrap: str, project_id: str, plan: Plan, records: Sequence[Record]) -> None:
        self._bootstrap = bootstrap
        self._headers = (("project-id", project_id.encode()),)
        self._lasting_s = plan.lasting_s
        source = random.Random(plan.seed)
        repeated = [record for record in records if source.random() < REPEATED_SHARE]
        self._records = source.sample([*records, *repeated], len(records) + len(repeated))
        self._sent = Sent()
        self.stored_at: dict[tuple[int, int], str] = {}
        """Where Kafka has acknowledged a span that a record holds, by number and attempt: topic, partition and offset."""

        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return when everything is acknowledged. Raises ``AssertionError`` if it is not."""
        self._thread.join(ACKNOWLEDGED_S + self._lasting_s)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise AssertionError(f"Kafka has not acknowledged everything within {ACKNOWLEDGED_S:g} s")

    def finish(self) -> Sent:
        """Return what was sent, when everything is acknowledged."""
        self.join()
        return self._sent

    def _run(self) -> None:
        try:
            asyncio.run(self._send_all())
        except BaseException as exc:  # noqa: BLE001 - raised again by `join`
            self._failure = exc

    async def _send_all(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._bootstrap, acks="all", request_timeout_ms=5_000)
        await producer.start()
        try:
            for record in self._records:
                await asyncio.sleep(self._lasting_s / len(self._records))
                await self._send(producer, record)
        finally:
            await producer.stop()

    async def _send(self, producer: AIOKafkaProducer, record: Record) -> None:
        sent = self._sent
        while True:
            if record.own is not None:
                sent.copies[record.own] += 1
            if record.own is None or record.own[0] != record.number:
                sent.joins[record.number] += 1
            try:
                place = await producer.send_and_wait(
                    record.topic, record.value, key=record.key, headers=[*self._headers]
                )
            except KafkaError:
                await asyncio.sleep(RETRY_S)
                continue
            if record.own is not None:
                number, attempt = record.own
                sent.latest[number] = max(attempt, sent.latest.get(number, attempt))
                self.stored_at[record.own] = f"{place.topic}/{place.partition}/{place.offset}"
            return


def event_of(plan: Plan, number: int) -> Record:
    """Return a log record that names a span."""
    return _log_record(plan, number, EVENT, {"number": str(number)})


def evaluation_of(plan: Plan, number: int) -> Record:
    """Return an evaluation that names a span."""
    said = {"gen_ai.evaluation.name": "quality", "gen_ai.evaluation.score.value": str(number)}
    return _log_record(plan, number, EVALUATION, said)


def annotation_of(plan: Plan, number: int) -> Record:
    """Return an annotation that links to a span."""
    own = ANNOTATIONS_FROM + number
    trace_id = trace_id_of(plan.round_name, own)
    span = {
        "trace_id": trace_id.hex(),
        "span_id": (own + 1).to_bytes(8, "big").hex(),
        "span_name": f"annotation of {number}",
        "start_time_unix_nano": str(plan.start_ns(number)),
        "end_time_unix_nano": str(plan.start_ns(number) + DURATION_NS),
        "attributes": {
            "fault": {"number": own, "attempt": 1, "shard": f"shard {own % SHARDS}"},
            "ag": {"data": {"outputs": {"verdict": number}}},
        },
        "links": [_ids_of(plan, number)],
    }
    return Record(SPAN_JSON_TOPIC, trace_id.hex().encode(), json.dumps(span).encode(), number, own=(own, 1))


def wrong_events(client: ApiClient, numbers: range) -> Iterator[str]:
    """Say which spans lack their event, or have it twice."""
    shown = {
        span["attributes"]["fault"]["number"]: [event["name"] for event in span.get("events", ())]
        for span in pages_of(client)
    }
    yield from _wrong("events", numbers, {number: shown.get(number) == [EVENT] for number in numbers})


def wrong_scores(client: ApiClient, numbers: range) -> Iterator[str]:
    """Say which spans lack a score, have one twice or with another value."""
    shown = {
        span["attributes"]["fault"]["number"]: Counter(
            (score["name"], score.get("value")) for score in span.get("scores", ())
        )
        for span in pages_of(client)
    }
    expected = {number: Counter([("quality", number), ("verdict", number)]) for number in numbers}
    yield from _wrong("scores", numbers, {number: shown.get(number) == expected[number] for number in numbers})


def _wrong(what: str, numbers: range, is_right: dict[int, bool]) -> Iterator[str]:
    wrong = [number for number in numbers if not is_right[number]]
    if wrong:
        yield f"{len(wrong)} spans have other {what} than were sent, such as {wrong[:EXAMPLES]}"


def _log_record(plan: Plan, number: int, name: str, attributes: dict[str, str]) -> Record:
    ids = _ids_of(plan, number)
    record: dict[str, Any] = {
        "timeUnixNano": str(plan.start_ns(number) + DURATION_NS),
        "eventName": name,
        "traceId": ids["trace_id"],
        "spanId": ids["span_id"],
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    return Record(LOGS_TOPIC, ids["trace_id"].encode(), json.dumps(request).encode(), number)


def _ids_of(plan: Plan, number: int) -> dict[str, str]:
    return {
        "trace_id": trace_id_of(plan.round_name, number).hex(),
        "span_id": (number + 1).to_bytes(8, "big").hex(),
    }
