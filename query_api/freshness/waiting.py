"""Read your own write: a request waits until the Kafka coordinates that it names are queryable.

It names them as intake gave them (``X-Clearspan-Coordinates``), in ``X-Clearspan-Wait-For``. A coordinate is there once
everything up to it is settled: stored, or refused and in the dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.errors import DeadlineExceeded, InvalidInput
from common.kafka.record import Coordinates, Partition
from common.settled import ALL_PROJECTS
from common.telemetry import CALLS_WAITING
from query_api.context import ApiContext
from query_api.freshness.stored import Through
from query_api.intake.publish import COORDINATES_MAX

WAIT_FOR_HEADER: Final = "X-Clearspan-Wait-For"
ENDS_TIMEOUT_S: Final = 1.0
"""So long Kafka may take to say which logs there are, before the last that it said counts."""

_DIGITS_MAX: Final = 18
"""Of a number: more than any offset has, less than 64 bits."""


def read_coordinates(text: str, *, topics: Mapping[str, object]) -> dict[Partition, int]:
    """The highest offset that is named of each partition. Raises ``InvalidInput`` that says what is legal."""
    named = [part.strip() for part in text.split(",") if part.strip()]
    if len(named) > COORDINATES_MAX:
        raise InvalidInput(f"{WAIT_FOR_HEADER}: {len(named)} coordinates; legal are at most {COORDINATES_MAX}.")
    wanted: dict[Partition, int] = {}
    for each in named:
        where = _coordinates(each)
        if where.topic not in topics:
            raise InvalidInput(
                f"{WAIT_FOR_HEADER}: '{each}' is of a topic that is not read; legal: {', '.join(topics)}."
            )
        partition = Partition(where.topic, where.partition)
        wanted[partition] = max(where.offset, wanted.get(partition, 0))
    return wanted


async def wait_until_stored(context: ApiContext, wanted: Mapping[Partition, int]) -> None:
    """Return once every coordinate is settled. Raises ``DeadlineExceeded`` that names what is missing, ``Overloaded``."""
    settings = context.settings.query
    ends_s = context.clock.monotonic_s() + settings.wait_for_max_s
    while True:
        since = context.stored.news_count(ALL_PROJECTS)
        missing = await _missing(context, wanted)
        if not missing:
            return
        async with context.waiting.place(timeout_s=settings.queue_s):
            remaining_s = ends_s - context.clock.monotonic_s()
            with CALLS_WAITING.track_inprogress():
                is_news = await context.stored.wait_for_news(ALL_PROJECTS, since=since, timeout_s=remaining_s)
        if not is_news:
            raise DeadlineExceeded(
                f"{WAIT_FOR_HEADER}: not queryable after {settings.wait_for_max_s:g} s: {', '.join(missing)}."
            )


async def _missing(context: ApiContext, wanted: Mapping[Partition, int]) -> list[str]:
    logs = await _logs(context, wanted)
    stored = context.stored.through(ALL_PROJECTS)
    return [
        f"{partition.topic}/{partition.partition}/{offset}"
        for partition, offset in wanted.items()
        if not _is_stored(stored.get(logs.get(partition, "")), offset)
    ]


async def _logs(context: ApiContext, wanted: Mapping[Partition, int]) -> dict[Partition, str]:
    """The log behind each partition: a cluster that was made anew begins all of them again."""
    if context.ends is None:
        return {}
    # Without a first answer nothing is known of logs, and no news would tell of what is stored already.
    is_first = context.ends.latest is None
    timeout_s = context.settings.query.wait_for_max_s if is_first else ENDS_TIMEOUT_S
    context.ends.ask()
    ends = await context.ends.heard(timeout_s=timeout_s)
    if ends is None:
        return {}
    logs = {partition: ends.log_of(partition) for partition in wanted}
    return {partition: log for partition, log in logs.items() if log is not None}


def _is_stored(stored: Through | None, offset: int) -> bool:
    return stored is not None and offset <= stored.offset


def _coordinates(text: str) -> Coordinates:
    topic, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not topic or not all(_is_number(number) for number in numbers):
        raise InvalidInput(f"{WAIT_FOR_HEADER}: '{text[:100]}' is not topic/partition/offset.")
    return Coordinates(topic, int(numbers[0]), int(numbers[1]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
