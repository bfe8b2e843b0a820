"""d and e. Records and spans that are refused, and spans of strange times."""

from __future__ import annotations

import signal
import time
from typing import Final

from tests.faults.installation import STREAK_MAX
from tests.faults.processes import ServerProcess
from tests.faults.producer import STARTED_NS, Place
from tests.faults.round import Round, Scenario
from tests.faults.spans import PROTO_TOPIC
from tests.support.produce import produce

DAY_NS: Final = 86_400 * 10**9
DAYS: Final = 200


def bad_records_and_spans(played: Round) -> None:
    """One record in a hundred cannot be decoded, one span in a hundred is refused; headers are null, many and huge."""
    huge = ("x-huge", b"\xff" * 200_000)
    few = (("x-null", None), ("", b""), ("x-twice", b"1"), ("x-twice", b"2"))
    played.produce(
        bad_record_share=0.01,
        bad_span_share=0.01,
        headers_of=lambda record: (*few, huge) if record % 20 == 0 else few,
    )


def flood_of_bad_spans(played: Round) -> None:
    """Every record holds more bad spans than good ones."""
    played.produce(bad_span_share=1.0)


def flood_that_nobody_can_decode(played: Round) -> None:
    """More records in a row than allowed cannot be decoded and name no project: their partition is held, others go on.

    A worker that is started again takes it up.
    """
    played.produce()
    held = [b"\xff no record"] * (STREAK_MAX + 50)
    places = produce(played.installation.bootstrap, PROTO_TOPIC, held, key=b"flood")
    played.refused = {Place(at.topic, at.partition, at.offset, None) for at in places}
    name = f"{places[0].topic}/{places[0].partition}"

    def holders() -> list[ServerProcess]:
        return [worker for worker in played.installation.workers if name in worker.waiting_for()]

    played.until(lambda: bool(holders()), f"/readyz of a worker names {name}")
    for worker in holders():
        worker.end(signal.SIGTERM)
        worker.start()


def clocks_jump(played: Round) -> None:
    """The clock of a worker jumps by up to an hour, back and forth, while spans arrive."""
    worker = played.random.choice(played.installation.workers)
    worker.end(signal.SIGTERM)
    worker.start("tests.faults.jumping_worker", str(played.seed))
    worker.wait_until_ready()
    producer = played.produce()
    played.until(lambda: producer.acknowledged_share >= 1.0, "everything is acknowledged")
    time.sleep(1.0)
    worker.end(signal.SIGTERM)
    worker.start()


def spans_over_200_days(played: Round) -> None:
    """The spans of every batch are spread over 200 days, some of them exactly at midnight."""

    def start_ns(number: int) -> int:
        day_ns = STARTED_NS // DAY_NS * DAY_NS
        return day_ns - number % DAYS * DAY_NS + number // DAYS % 3

    played.produce(start_of=start_ns)


def spans_that_end_before_they_start(played: Round) -> None:
    """The clock of a service has jumped: spans end before they start, and start at random times of ten years."""
    source = played.random

    starts = [STARTED_NS - source.randrange(3_650) * DAY_NS - source.randrange(DAY_NS) for _ in range(10_000)]
    played.produce(start_of=lambda number: starts[number % len(starts)], duration_ns=-5_000_000)


SCENARIOS: tuple[Scenario, ...] = (
    bad_records_and_spans,
    flood_of_bad_spans,
    flood_that_nobody_can_decode,
    clocks_jump,
    spans_over_200_days,
    spans_that_end_before_they_start,
)
