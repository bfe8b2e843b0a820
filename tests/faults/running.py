"""Spans that begin and end while workers are killed: starts and ends in any order, some twice, in two topics."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from typing import Any, Final

from tests.faults.checker import pages_of
from tests.faults.client import ApiClient, Json
from tests.faults.later import EXAMPLES, LateProducer, Record
from tests.faults.producer import Plan
from tests.faults.spans import DURATION_NS, JSON_TOPIC, SPAN_JSON_TOPIC, NumberedSpan, encode, trace_id_of

RUNNING_FROM: Final = 2_000_000
"""The number of the first span that runs."""

START, END = 1, 2
"""The attempts. An end wins over a start, in whatever order they come."""

ASKED_MAX: Final = 50
"""Ends that one request waits for."""


def start_of(plan: Plan, number: int) -> Record:
    """Return a record that says that a span has begun."""
    numbered = _span(plan, number, START)
    [span] = json.loads(encode([numbered], SPAN_JSON_TOPIC))["spans"]
    del span["end_time"]
    return _record(plan, SPAN_JSON_TOPIC, numbered, json.dumps({**span, "running": True}).encode())


def end_of(plan: Plan, number: int) -> Record:
    """Return the record of the same span once it has ended, of every other span in another topic than its start."""
    numbered = _span(plan, number, END)
    topic = JSON_TOPIC if number % 2 else SPAN_JSON_TOPIC
    return _record(plan, topic, numbered, encode([numbered], topic))


class EndWatch:
    """Asks for running spans in a thread, each time after waiting for some of the ends that Kafka has acknowledged."""

    def __init__(self, client: ApiClient, producer: LateProducer) -> None:
        self._client = client
        self._producer = producer
        self._random = random.Random(1)
        self._asked_count = 0
        self._wrong: set[int] = set()
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> Iterator[str]:
        """Say which spans were shown as running after their end was stored."""
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._wrong:
            yield f"{len(self._wrong)} spans run after their end, such as {sorted(self._wrong)[:EXAMPLES]}"
        if not self._asked_count:
            yield "nothing was asked about running spans"

    def _run(self) -> None:
        try:
            while not self._stopped.wait(0.1):
                self._ask()
        except BaseException as exc:  # noqa: BLE001 - raised again by `finish`
            self._failure = exc

    def _ask(self) -> None:
        ended = {number: place for (number, attempt), place in [*self._producer.stored_at.items()] if attempt == END}
        if not ended:
            return
        asked = self._random.sample(sorted(ended), min(ASKED_MAX, len(ended)))
        places = {"X-Clearspan-Wait-For": ",".join(ended[number] for number in asked)}
        condition = {"field": "state", "operator": "is", "value": "running"}
        body: Json = {"filtering": {"conditions": [condition]}, "windowing": {"limit": 10_000}}
        page = self._client.ask("/spans/query", body, headers=places)
        self._wrong |= {span["attributes"]["fault"]["number"] for span in page["spans"]} & set(asked)
        self._asked_count += 1


def wrong_states(client: ApiClient, numbers: range) -> Iterator[str]:
    """Say which spans are not shown as ended once everything is stored."""
    shown: dict[int, Any] = {
        span["attributes"]["fault"]["number"]: (span.get("state"), "end_time" in span) for span in pages_of(client)
    }
    wrong = [number for number in numbers if shown.get(RUNNING_FROM + number) != (None, True)]
    if wrong:
        yield f"{len(wrong)} spans have not ended, such as {wrong[:EXAMPLES]}"


def _span(plan: Plan, number: int, attempt: int) -> NumberedSpan:
    duration_ns = DURATION_NS if attempt == END else 0
    return NumberedSpan(plan.round_name, RUNNING_FROM + number, attempt, plan.start_ns(number), duration_ns)


def _record(plan: Plan, topic: str, span: NumberedSpan, value: bytes) -> Record:
    key = trace_id_of(plan.round_name, span.number).hex().encode()
    return Record(topic, key, value, span.number, own=(span.number, span.attempt))
