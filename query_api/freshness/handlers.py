"""``GET /status/freshness``: what was produced, and up to where it is queryable.

Partitions are shared by projects: their offsets, their timestamps and whether there is a backlog tell of the records of all of them. So a
project sees its own last record without its offset, and the latest time of asking Kafka at which all was stored that is stored now. The rest is for those
who may see all projects: the administrator, and everybody where there is one project (authentication off).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from common.stored_position import ALL_PROJECTS
from common.times import format_us, nearest_shown_us
from query_api.freshness.lookup import look_up_stored
from query_api.freshness.models import Freshness, LastStored, PartitionFreshness
from query_api.freshness.stored import Through
from query_api.freshness.through import PartitionState, asked_through_us, partition_states, through_us
from query_api.http.auth import sees_all_projects
from query_api.request.json_body import json_answer
from query_api.request.route import Request, Response

ENDS_TIMEOUT_S: Final = 2.0
_NOT_ASKED: Final = "Kafka is not asked by this process."
_NOT_YET: Final = "Kafka has not said yet where its logs end."
_NOTHING_STORED: Final = "Of a partition that holds records nothing is known to be queryable."


async def freshness_of_project(request: Request) -> Response:
    """Up to where what was produced is queryable, by partition and in all."""
    context = request.context
    await look_up_stored(context, request.project_id)
    return await _answer(request, mine=context.stored.through(request.project_id))


async def freshness_of_all(request: Request) -> Response:
    """The same with the offsets of the logs, which count the records of all projects."""
    return await _answer(request, mine={})


async def _answer(request: Request, *, mine: Mapping[str, Through]) -> Response:
    # An announcement may have been lost, and nobody is to be told of a backlog that is none.
    await look_up_stored(request.context, ALL_PROJECTS)
    known = request.context.ends
    stored = request.context.stored.through(ALL_PROJECTS)
    if known is None:
        return json_answer(Freshness(count=0, reason=_NOT_ASKED, partitions=[]))
    known.ask()
    ends = await known.heard(timeout_s=ENDS_TIMEOUT_S)
    if ends is None:
        return json_answer(Freshness(count=0, reason=known.failure or _NOT_YET, partitions=[]))
    sees_all = sees_all_projects(request)
    states = partition_states(ends, stored)
    complete_us = through_us(ends, stored) if sees_all else asked_through_us(known.answers, stored)
    partitions = [_partition(state, mine.get(state.partition_id), sees_all=sees_all) for state in states]
    return json_answer(
        Freshness(
            count=len(partitions),
            data_through=_time(complete_us),
            asked_at=_time(ends.asked_us),
            reason=known.failure or (_NOTHING_STORED if complete_us is None else None),
            partitions=partitions,
        )
    )


def _partition(state: PartitionState, mine: Through | None, *, sees_all: bool) -> PartitionFreshness:
    shown = PartitionFreshness(
        topic=state.partition.topic,
        partition=state.partition.partition,
        last_stored=_last_stored(mine, sees_all=sees_all) if mine is not None else None,
    )
    if not sees_all:
        return shown
    of_partition = {
        "is_behind": state.behind_records > 0,
        "data_through": _time(state.through_us),
        "produced_offset": state.end - 1 if state.end > 0 else None,
        "stored_offset": state.stored.offset if state.stored is not None else None,
        "behind_records": state.behind_records,
    }
    return shown.model_copy(update=of_partition)


def _last_stored(through: Through, *, sees_all: bool) -> LastStored:
    recorded_us = through.record_ms * 1_000 if through.record_ms >= 0 else None
    return LastStored(
        offset=through.offset if sees_all else None,
        recorded_at=_time(recorded_us),
        stored_at=format_us(through.stored_us),
    )


def _time(time_us: int | None) -> str | None:
    """A producer may give its record any time; one that cannot be shown is the nearest that can."""
    return None if time_us is None else format_us(nearest_shown_us(time_us))
