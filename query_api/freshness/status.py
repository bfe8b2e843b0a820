"""``GET /status/freshness``: what was produced, and up to which time it is queryable.

Projects share partitions: end offsets, timestamps and backlogs reveal the records of all of them. So a project sees its
own last record without its offset, and the latest time at which Kafka was asked and held only what is stored now. The
rest is for callers who see all projects: the administrator, and everybody when authentication is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from common.stored_position import ALL_PROJECTS
from common.times import format_us, nearest_formattable_us
from query_api.freshness.follow import look_up_stored
from query_api.request.context import ApiContext
from query_api.request.json_body import ApiModel, json_response
from query_api.request.progress import EndOffsetsRead, Through, asked_through_us, complete_us, through_us
from query_api.request.route import Request, Response

END_OFFSETS_TIMEOUT_S: Final = 2.0
_NOT_READ: Final = "This process does not read Kafka's end offsets."
_NOT_YET: Final = "Kafka's end offsets have not been read yet."
_NOTHING_STORED: Final = "A partition holds records, and none of them is known to be queryable."
_ALL_ONLY: Final = " Present only if the caller may see all projects."


class LastStored(ApiModel):
    """The last record with spans of this project that is queryable."""

    offset: int | None = Field(None, description=f"The offset of the record.{_ALL_ONLY}")
    recorded_at: str | None = Field(None, description="The timestamp of the record.")
    stored_at: str = Field(description="The time at which the record was known to be queryable.")


class PartitionFreshness(ApiModel):
    """One partition of one topic that the worker reads."""

    topic: str = Field(description="The Kafka topic.")
    partition: int = Field(description="The number of the partition.")
    is_behind: bool | None = Field(
        None, description=f"Whether Kafka holds records that are not queryable yet.{_ALL_ONLY}"
    )
    data_through: str | None = Field(
        None,
        description="Everything that Kafka had accepted by this time is queryable. Absent if the time is unknown."
        f"{_ALL_ONLY}",
    )
    last_stored: LastStored | None = Field(
        None, description="The last queryable record of this project. Absent if there is none."
    )
    produced_offset: int | None = Field(None, description=f"The offset of the last record in Kafka.{_ALL_ONLY}")
    stored_offset: int | None = Field(None, description=f"The offset of the last queryable record.{_ALL_ONLY}")
    behind_records: int | None = Field(
        None, description=f"The number of records that are in Kafka and not queryable yet.{_ALL_ONLY}"
    )


class Freshness(ApiModel):
    """The time up to which everything that was produced is queryable."""

    count: int = Field(description="The number of partitions in this response.")
    data_through: str | None = Field(
        None, description="Everything that Kafka had accepted by this time is queryable, in all partitions."
    )
    asked_at: str | None = Field(None, description="The time at which Kafka's end offsets were read.")
    reason: str | None = Field(None, description="Why `data_through` is absent or older than it could be.")
    partitions: list[PartitionFreshness] = Field(description="Every partition, ordered by topic and number.")


async def freshness_of_project(request: Request) -> Response:
    """Return the time up to which everything that was produced is queryable, overall and by partition."""
    context = request.context
    await look_up_stored(context, request.project_id)
    mine = context.stored.through(request.project_id)
    # An announcement may have been lost: without this a backlog could be reported that does not exist.
    await look_up_stored(context, ALL_PROJECTS)
    return json_response(await read_freshness(context, mine=mine, sees_all=request.sees_all_projects))


async def freshness_of_all(request: Request) -> Response:
    """Return the freshness of all projects, with Kafka offsets, which count the records of all projects."""
    await look_up_stored(request.context, ALL_PROJECTS)
    return json_response(await read_freshness(request.context, mine={}, sees_all=True))


async def read_freshness(context: ApiContext, *, mine: Mapping[str, Through], sees_all: bool) -> Freshness:
    """Return the freshness of all partitions, from what this process knows to be stored.

    ``mine`` is about the project whose last records are shown. Waits up to ``END_OFFSETS_TIMEOUT_S`` for Kafka.
    """
    known = context.ends
    stored = context.stored.through(ALL_PROJECTS)
    if known is None:
        return Freshness(count=0, reason=_NOT_READ, partitions=[])
    known.refresh()
    ends = await known.refreshed(timeout_s=END_OFFSETS_TIMEOUT_S)
    if ends is None:
        return Freshness(count=0, reason=known.failure or _NOT_YET, partitions=[])
    time_us = through_us(ends, stored) if sees_all else asked_through_us(known.recent, stored)
    partitions = partitions_of(ends, stored, mine, sees_all=sees_all)
    return Freshness(
        count=len(partitions),
        data_through=_time(time_us),
        asked_at=_time(ends.asked_us),
        reason=known.failure or (_NOTHING_STORED if time_us is None else None),
        partitions=partitions,
    )


def partitions_of(
    ends: EndOffsetsRead, stored: Mapping[str, Through], mine: Mapping[str, Through], *, sees_all: bool
) -> list[PartitionFreshness]:
    """Return the freshness of every partition, ordered by topic and number.

    ``stored`` is about all projects, ``mine`` about the one whose last records are shown.
    """
    partitions = []
    for (topic, partition), partition_id in sorted(ends.partition_ids.items()):
        through = mine.get(partition_id)
        last_stored = _last_stored(through, sees_all=sees_all) if through is not None else None
        freshness = PartitionFreshness(topic=topic, partition=partition, last_stored=last_stored)
        if sees_all:
            end = ends.offsets[partition_id]
            freshness = freshness.model_copy(update=_of_all_projects(end, stored.get(partition_id), ends.asked_us))
        partitions.append(freshness)
    return partitions


def _of_all_projects(end: int, stored: Through | None, asked_us: int) -> dict[str, Any]:
    """Return the members of a partition that reveal what other projects store."""
    behind_records = max(0, end - (stored.offset + 1 if stored is not None else 0))
    return {
        "is_behind": behind_records > 0,
        "data_through": _time(complete_us(end, stored, asked_us=asked_us)),
        "produced_offset": end - 1 if end > 0 else None,
        "stored_offset": stored.offset if stored is not None else None,
        "behind_records": behind_records,
    }


def _last_stored(through: Through, *, sees_all: bool) -> LastStored:
    recorded_us = through.record_ms * 1_000 if through.record_ms >= 0 else None
    return LastStored(
        offset=through.offset if sees_all else None,
        recorded_at=_time(recorded_us),
        stored_at=format_us(through.stored_us),
    )


def _time(time_us: int | None) -> str | None:
    """Format a time; one outside of the years 1 to 9999, as a producer may set it, becomes the nearest inside."""
    return None if time_us is None else format_us(nearest_formattable_us(time_us))
