"""What arrived behind a reader's positions: the narrow rows of ``span_arrivals``, merged over the logs (ADR 0007).

Inside a log the order is that of its offsets. Across logs it is by when things were stored; where a worker's clock or a
redelivery contradicts the order of a log, the log wins: an arrival counts as stored no earlier than the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from query_api.pages.feed_positions import WHOLE_RECORD, Place
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.tables import Table, read_from

PARTITIONS_MAX: Final = 64
"""Read in one statement, one branch each; the others have their turn when these are at their end."""

_COLUMNS: Final = "log_index, record_offset, span_index, start_us, stored_us"
_UNION: Final = "\nUNION ALL\n"
_BEGINNING: Final = Place(0, -1)
"""In front of the first span of the first record."""


class Pending(NamedTuple):
    """The part of a log that is stored and not read: behind ``after``, up to ``through_offset``, included."""

    partition_id: str
    after: Place | None
    through_offset: int

    @property
    def is_empty(self) -> bool:
        """Whether there can be nothing in it."""
        return self.after is not None and self.after >= (self.through_offset, WHOLE_RECORD)


@dataclass(frozen=True, slots=True)
class StartBounds:
    """Bounds of ``start_time``, as of an ascending page: the oldest excluded, the newest included; microseconds."""

    oldest_us: int | None = None
    newest_us: int | None = None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Spans in the order in which they became queryable; the lists go in parallel.

    ``ends`` are the places up to which these are all there is, of the logs that were read to the end.
    """

    partition_ids: Sequence[str]
    places: Sequence[Place]
    starts_us: Sequence[int]
    ends: Mapping[str, Place]

    def __len__(self) -> int:
        return len(self.places)

    def last_places(self, count: int) -> dict[str, Place]:
        """Where a reader stands in each log after the first ``count`` of these."""
        last = dict(zip(self.partition_ids[:count], self.places[:count], strict=True))
        return {**last, **self.ends} if count == len(self) else last


async def next_arrivals(spans: ProjectSpans, pending: Sequence[Pending], bounds: StartBounds, *, size: int) -> Arrivals:
    """The next ``size`` arrivals of these logs, ``PARTITIONS_MAX`` of them at most, or as many as there are."""
    sql, parameters = arrivals_statement(pending, bounds)
    rows = await spans.select(sql, {**parameters, "size": size}, step="arrivals")
    return merged_arrivals(rows, pending, size=size)


def arrivals_statement(pending: Sequence[Pending], bounds: StartBounds) -> tuple[str, dict[str, Any]]:
    """The statement for ``{size:UInt32}`` rows of each log, and its other values."""
    window = [
        f"start_us {sign} {{{name}:Int64}}"
        for sign, name, bound in ((">", "oldest_us", bounds.oldest_us), ("<=", "newest_us", bounds.newest_us))
        if bound is not None
    ]
    parameters: dict[str, Any] = {"oldest_us": bounds.oldest_us, "newest_us": bounds.newest_us}
    branches = []
    for index, (partition_id, after, through_offset) in enumerate(pending):
        from_offset, from_index = after or _BEGINNING
        parameters |= {
            f"log_{index}": partition_id,
            f"from_{index}": from_offset,
            f"index_{index}": from_index,
            f"through_{index}": through_offset,
        }
        places = (
            f"partition_id = {{log_{index}:String}}",
            f"record_offset >= {{from_{index}:UInt64}}",
            f"record_offset <= {{through_{index}:UInt64}}",
            f"record_offset > {{from_{index}:UInt64}} OR span_index > {{index_{index}:Int64}}",
        )
        branches.append(f"""\
(SELECT toUInt8({index}) AS log_index, record_offset, span_index, start_us, stored_us
{read_from(Table.ARRIVALS, *places, *window)}
ORDER BY record_offset, span_index
LIMIT {{size:UInt32}})""")
    used = {name: value for name, value in parameters.items() if value is not None}
    return f"SELECT {_COLUMNS}\nFROM (\n{_UNION.join(branches)}\n)", used


def merged_arrivals(rows: pa.Table, pending: Sequence[Pending], *, size: int) -> Arrivals:
    """The first ``size`` of the rows, of which there are ``size`` at most of each log, in the order of the feed."""
    partition_index, record_offset, span_index, start_us, stored_us = (
        rows[name].to_numpy() for name in ("log_index", "record_offset", "span_index", "start_us", "stored_us")
    )
    by_partition = np.lexsort((stored_us, span_index, record_offset, partition_index))
    has_more = np.bincount(partition_index, minlength=len(pending)) == size
    by_partition = _distinct(by_partition, partition_index, record_offset, span_index)
    at_us = np.empty(len(partition_index), np.int64)
    for index in range(len(pending)):
        of_partition = by_partition[partition_index[by_partition] == index]
        at_us[of_partition] = np.maximum.accumulate(stored_us[of_partition])
    merged = by_partition[
        np.lexsort([column[by_partition] for column in (span_index, record_offset, partition_index, at_us)])
    ]
    taken = merged[: min(size, _known_count(partition_index[merged], has_more))]
    is_whole = len(taken) == len(merged)
    return Arrivals(
        partition_ids=[pending[index].partition_id for index in partition_index[taken].tolist()],
        places=list(map(Place, record_offset[taken].tolist(), span_index[taken].tolist())),
        starts_us=start_us[taken].tolist(),
        ends={
            each.partition_id: Place(each.through_offset, WHOLE_RECORD)
            for index, each in enumerate(pending)
            if is_whole and not has_more[index]
        },
    )


def _known_count(partition_index: np.ndarray[Any, Any], has_more: np.ndarray[Any, Any]) -> int:
    """How many of the merged rows come before everything that was not read: none behind the last of a log that has more."""
    lasts = [np.flatnonzero(partition_index == index)[-1] for index in np.flatnonzero(has_more)]
    return int(min(lasts, default=len(partition_index) - 1)) + 1


def _distinct(rows: np.ndarray[Any, Any], *columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows without those that are there again because the engine has not merged yet, which stand beside each other."""
    keys = np.stack([column[rows] for column in columns])
    is_again = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    return rows[np.concatenate(([True], ~is_again))] if len(rows) else rows
