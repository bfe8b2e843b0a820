"""Read your own write: a request waits until the Kafka coordinates that it names are queryable (ADR 0011).

It names them in ``X-Clearspan-Wait-For``: as intake signed them (``X-Clearspan-Coordinates``), or as ``topic/partition/offset``,
for a producer that writes to Kafka itself. The wait ends once everything up to a coordinate is stored, or rejected and in the
dead-letter topic. A project that names a place itself waits for a record of its own at exactly this place: whether
another project has one there makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from common.errors import DeadlineExceeded, InvalidCursor, InvalidInput
from common.kafka.record import Coordinates, Partition
from common.stored_position import ALL_PROJECTS
from common.telemetry import CALLS_WAITING
from query_api.freshness.own_records import OwnRecords, Place
from query_api.freshness.stored import Through
from query_api.request.context import ApiContext
from query_api.request.coordinates import (
    COORDINATES_HEADER,
    COORDINATES_MAX,
    parse_coordinates,
    read_signed_coordinates,
)
from query_api.request.route import Request

WAIT_FOR_HEADER: Final = "X-Clearspan-Wait-For"
ENDS_TIMEOUT_S: Final = 1.0
"""So long Kafka may take to say which logs there are, before the last that it said counts."""

_NAME_CHARS_MAX: Final = 24
"""Of a signed text in a message: enough to tell it from others."""


class Wanted(NamedTuple):
    """One element of the header. ``name`` is how messages call it."""

    name: str
    coordinates: Sequence[Coordinates]
    is_own_record: bool = False
    """Whether only a record of the project at this place counts, and not that everything up to it is settled."""


def read_wanted(text: str, request: Request, *, sees_all: bool) -> list[Wanted]:
    """The elements of the header. Raises ``InvalidInput`` that says what is legal.

    ``sees_all``: the caller may know what all projects store, so a place counts once everything up to it is settled.
    """
    named = [part.strip() for part in text.split(",") if part.strip()]
    if len(named) > COORDINATES_MAX:
        raise InvalidInput(f"{WAIT_FOR_HEADER}: {len(named)} coordinates; legal are at most {COORDINATES_MAX}.")
    wanted = [_wanted(each, request, sees_all=sees_all) for each in named]
    topics = request.context.settings.kafka.topics
    for each in wanted if sees_all else ():
        if any(where.topic not in topics for where in each.coordinates):
            raise InvalidInput(
                f"{WAIT_FOR_HEADER}: '{each.name}' is of a topic that is not read; legal: {', '.join(topics)}."
            )
    return wanted


def _wanted(text: str, request: Request, *, sees_all: bool) -> Wanted:
    try:
        if "/" in text:
            return Wanted(text, [parse_coordinates(text)], is_own_record=not sees_all)
        signed = read_signed_coordinates(text, project_id=request.project_id, secret=request.context.cursor_secret)
        return Wanted(f"{text[:_NAME_CHARS_MAX]}…", signed)
    except (ValueError, InvalidCursor) as exc:
        raise InvalidInput(
            f"{WAIT_FOR_HEADER}: '{text[:100]}' is neither a value of {COORDINATES_HEADER} that this project was given"
            " nor topic/partition/offset."
        ) from exc


async def wait_until_stored(request: Request, wanted: Sequence[Wanted]) -> None:
    """Return once everything that is wanted is there. Raises ``DeadlineExceeded`` that names what is missing, ``Overloaded``."""
    context, own_records = request.context, OwnRecords(request)
    settings = context.settings.query
    ends_s = context.clock.monotonic_s() + settings.wait_for_max_s
    while True:
        since = context.stored.news_count(ALL_PROJECTS)
        missing = await _missing(context, wanted, own_records)
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


async def _missing(context: ApiContext, wanted: Sequence[Wanted], own_records: OwnRecords) -> list[str]:
    partition_ids = await _partition_ids(context, {_partition(where) for each in wanted for where in each.coordinates})
    stored = context.stored.through(ALL_PROJECTS)
    places = [
        [Place(partition_ids.get(_partition(where), ""), where.offset) for where in each.coordinates] for each in wanted
    ]
    own = await own_records.find(
        [place for each, at in zip(wanted, places, strict=True) if each.is_own_record for place in at]
    )
    return [
        each.name
        for each, at in zip(wanted, places, strict=True)
        if not all(
            place in own if each.is_own_record else _is_stored(stored.get(place.partition_id), place.offset)
            for place in at
        )
    ]


async def _partition_ids(context: ApiContext, wanted: Set[Partition]) -> dict[Partition, str]:
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
    partition_ids = {partition: ends.partition_id_of(partition) for partition in wanted}
    return {partition: partition_id for partition, partition_id in partition_ids.items() if partition_id is not None}


def _is_stored(stored: Through | None, offset: int) -> bool:
    return stored is not None and offset <= stored.offset


def _partition(where: Coordinates) -> Partition:
    return Partition(where.topic, where.partition)
