"""How fresh a response is: the time up to which everything that Kafka had taken is queryable, in ``X-Data-Through``.

A partition that is stored to its end is complete up to the time at which Kafka was asked for the end. Any other is
complete up to the timestamp of its last stored record, because Kafka took everything earlier before it. The clocks are
those of this process and of the producers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from common.kafka.record import Partition
from common.stored_position import ALL_PROJECTS
from common.telemetry import DATA_BEHIND_SECONDS
from common.times import format_us
from query_api.filter.parse import parse
from query_api.filter.sql.compile import compile_filter
from query_api.freshness.read_your_writes import WAIT_FOR_HEADER, read_wanted, wait_until_stored
from query_api.request.progress import EndOffsetsRead, Through
from query_api.request.route import Handler, Request, Response

DATA_THROUGH_HEADER: Final = "X-Data-Through"
END_OFFSETS_TIMEOUT_S: Final = 0.25
"""How long a finished response waits for Kafka's end offsets; a usual query takes longer than reading them."""


async def with_freshness(request: Request, handler: Handler) -> Response:
    """Return the handler's response with ``X-Data-Through``, after the wait that ``X-Clearspan-Wait-For`` asks for.

    An illegal filter is rejected before the wait, because no new data makes it legal. Stored positions are read before
    the handler reads spans, so that the response contains everything that the header says.
    """
    context = request.context
    if text := ",".join(request.headers.getall(WAIT_FOR_HEADER, [])):
        wanted = read_wanted(text, request)
        _check_filter(request)
        await wait_until_stored(request, wanted)
    if context.ends is None:
        return await handler(request)
    stored = context.stored.through(ALL_PROJECTS)
    context.ends.refresh()
    response = await handler(request)
    ends = await context.ends.refreshed(timeout_s=END_OFFSETS_TIMEOUT_S)
    time_us = through_us(ends, stored) if ends is not None else None
    if time_us is not None:
        DATA_BEHIND_SECONDS.set(max(0.0, context.clock.now_ns() / 1e9 - time_us / 1e6))
    if not request.sees_all_projects:  # the time may be that of another project's record
        time_us = asked_through_us(context.ends.recent, stored)
    if time_us is None:
        return response
    return replace(response, headers={**response.headers, DATA_THROUGH_HEADER: format_us(time_us)})


def _check_filter(request: Request) -> None:
    """Raise ``InvalidFilter`` if the filter in use is illegal: ``filter`` of the body, else of the query string, else
    ``filtering``."""
    for sent, name in ((request.body, "filter"), (request.query, "filter"), (request.body, "filtering")):
        if (filtering := getattr(sent, name, None)) is not None:
            compile_filter(parse(filtering, path=name))
            return


class PartitionState(NamedTuple):
    """One partition: its end offset, how far it is stored, and the time up to which it is complete."""

    partition: Partition
    partition_id: str
    end: int
    stored: Through | None
    through_us: int | None

    @property
    def behind_records(self) -> int:
        """Records that are in Kafka and not queryable yet."""
        return max(0, self.end - (self.stored.offset + 1 if self.stored is not None else 0))


def through_us(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> int | None:
    """Return the time up to which every partition is complete, in microseconds since 1970; ``None`` if one is unknown.

    ``stored`` is what ``StoredThrough`` knows of ``ALL_PROJECTS``. Every response calls this: 0.5 µs a partition.
    """
    earliest_us: int | None = None
    for partition_id, end in ends.offsets.items():
        time_us = _complete_us(end, stored.get(partition_id), asked_us=ends.asked_us)
        if time_us is None:
            return None
        if earliest_us is None or time_us < earliest_us:
            earliest_us = time_us
    return earliest_us


def asked_through_us(reads: Iterable[EndOffsetsRead], stored: Mapping[str, Through]) -> int | None:
    """Return the latest time of asking at which Kafka held nothing that is not stored now; ``None`` if there is none.

    The counterpart of ``through_us`` for callers who do not see all projects: it reveals no record's timestamp.
    ``reads``: the latest first.
    """
    return next((ends.asked_us for ends in reads if _is_all_stored(ends, stored)), None)


def partition_states(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> list[PartitionState]:
    """Return the state of every partition, ordered by topic and number."""
    return sorted(
        _state(partition_id, end, stored.get(partition_id), asked_us=ends.asked_us)
        for partition_id, end in ends.offsets.items()
    )


def _state(partition_id: str, end: int, stored: Through | None, *, asked_us: int) -> PartitionState:
    _cluster, topic, number = partition_id.rsplit("/", 2)
    complete_us = _complete_us(end, stored, asked_us=asked_us)
    return PartitionState(Partition(topic, int(number)), partition_id, end, stored, complete_us)


def _complete_us(end: int, stored: Through | None, *, asked_us: int) -> int | None:
    if stored is None:
        return asked_us if end == 0 else None
    # A producer whose clock is ahead promises nothing.
    stored_us = min(stored.record_ms * 1_000, stored.stored_us) if stored.record_ms >= 0 else None
    if stored.offset + 1 < end:
        return stored_us
    return asked_us if stored_us is None else max(asked_us, stored_us)


def _is_all_stored(ends: EndOffsetsRead, stored: Mapping[str, Through]) -> bool:
    return all(
        end == 0 or ((through := stored.get(partition_id)) is not None and through.offset + 1 >= end)
        for partition_id, end in ends.offsets.items()
    )
