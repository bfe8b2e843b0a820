"""What arrived after a reader's positions: the narrow rows of ``span_arrivals``, merged over the partitions (ADR
0007).

A reader has one place in each partition, and its cursor holds them::

    entry of a partition = first 8 bytes of the SHA-256 of its id │ offset 8 B │ span index 8 B

All entries have the same size: the size of a cursor must not reveal how many records of all projects a partition holds.
A partition without an entry is at its beginning.

Inside a partition the order is that of its offsets. Across partitions it is by when spans were stored; where a
worker's clock or a redelivery contradicts the order of a partition, the partition wins: an arrival counts as stored
no earlier than the one before it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from typing_extensions import override

from common.clickhouse.select import Select, Table, Union
from common.errors import InvalidCursor, Unavailable
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.window import Window

CURSOR_PARTITIONS_MAX: Final = 4_000
"""Partitions in one cursor: up to 128 KB of text. The embedded broker adds partitions at each start."""

READ_PARTITIONS_MAX: Final = 64
"""Partitions in one statement, a branch for each; the others follow when these are read to their end."""

WHOLE_RECORD: Final = 2**32
"""An index after every span that a record can hold."""

_ENTRY: Final = struct.Struct(">8sQQ")
_COLUMNS: Final = ("record_offset", "span_index", "start_us", "stored_us")
_IS_STORED: Final = (
    "record_offset <= transform(toString(partition_id), {partitions:Array(String)}, {offsets:Array(Int64)},"
    " toInt64(-1))"
)


class ArrivalPlace(NamedTuple):
    """A span in its partition: the last one that a reader has passed."""

    record_offset: int
    span_index: int


BEGINNING: Final = ArrivalPlace(0, -1)
"""Before the first span of the first record."""


class Positions:
    """The places of one reader, by partition. Immutable: moving returns new positions."""

    def __init__(self, places: Mapping[bytes, ArrivalPlace] | None = None) -> None:
        self._places = {id_hash: place for id_hash, place in (places or {}).items() if place > BEGINNING}

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and self._places == other._places

    @override
    def __hash__(self) -> int:
        return hash(frozenset(self._places.items()))

    @classmethod
    def at_end_of(cls, offsets: Mapping[str, int]) -> Positions:
        """Return the positions after these offsets, by partition id. Other partitions are at their beginning."""
        return cls().moved({id_: ArrivalPlace(offset, WHOLE_RECORD) for id_, offset in offsets.items()})

    def after(self, partition_id: str) -> ArrivalPlace:
        """Return the last place that the reader has passed in a partition."""
        return self._places.get(_id(partition_id), BEGINNING)

    def moved(self, places: Mapping[str, ArrivalPlace]) -> Positions:
        """Return the same reader, moved to these places."""
        return Positions({**self._places, **{_id(partition_id): place for partition_id, place in places.items()}})

    def covers(self, other: Positions) -> bool:
        """Return whether the reader has passed everything that a reader at ``other`` has passed."""
        return all(self._places.get(id_hash, BEGINNING) >= place for id_hash, place in other._places.items())

    def pack(self) -> bytes:
        """Return what a cursor holds. Raises ``Unavailable`` above ``CURSOR_PARTITIONS_MAX``."""
        if len(self._places) > CURSOR_PARTITIONS_MAX:
            raise Unavailable(
                f"This project has spans of more than {CURSOR_PARTITIONS_MAX} partitions,"
                " which is the most that a cursor can hold."
            )
        return b"".join(_ENTRY.pack(id_hash, *place) for id_hash, place in sorted(self._places.items()))

    @classmethod
    def unpack(cls, packed: bytes) -> Positions:
        """Return what ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            return cls({id_hash: ArrivalPlace(*place) for id_hash, *place in _ENTRY.iter_unpack(packed)})
        except struct.error as exc:
            raise InvalidCursor("The cursor in `next` cannot be read.") from exc


class Pending(NamedTuple):
    """The part of a partition that is stored and not read: after ``after``, up to and including ``through_offset``; of
    the record there up to ``through_index``.
    """

    partition_id: str
    after: ArrivalPlace
    through_offset: int
    through_index: int = WHOLE_RECORD

    @property
    def through(self) -> ArrivalPlace:
        """The last place of this part."""
        return ArrivalPlace(self.through_offset, self.through_index)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be in it."""
        return self.after >= self.through


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Spans in the order in which they became queryable, as parallel lists.

    ``ends`` are the places up to which partitions are read completely.
    """

    partition_ids: Sequence[str]
    places: Sequence[ArrivalPlace]
    starts_us: Sequence[int]
    ends: Mapping[str, ArrivalPlace]

    def __len__(self) -> int:
        return len(self.places)

    def last_places(self, count: int) -> dict[str, ArrivalPlace]:
        """Return the place of a reader in each partition after the first ``count`` of these."""
        last = dict(zip(self.partition_ids[:count], self.places[:count], strict=True))
        return {**last, **self.ends} if count == len(self) else last


async def positions_at(spans: ProjectSpans, created_us: int, offsets: Mapping[str, int]) -> Positions:
    """Return the positions before the first arrival of each partition whose ``created_at`` is after ``created_us``.

    ``offsets`` is how far partitions are stored, by partition id. A partition is at that offset if no arrival up to it
    is that late, and at its beginning if it is not among them: what becomes queryable later is after the positions.
    """
    values = {"created_us": created_us, "partitions": list(offsets), "offsets": list(offsets.values())}
    firsts = Select(
        spans.project_id,
        Table.ARRIVALS,
        ["toString(partition_id) AS partition", "min((record_offset, span_index)) AS first"],
        where=["stored_us > {created_us:Int64}", _IS_STORED],
        group_by=["partition_id"],
        parameters=values,
    )
    places = ["tupleElement(first, 1) AS first_offset", "tupleElement(first, 2) AS first_index"]
    query = Select(spans.project_id, firsts, ["partition", *places])
    rows = await spans.select(query, step="beginning of the feed")
    columns = (rows.column(name).to_pylist() for name in ("partition", "first_offset", "first_index"))
    first = {
        partition_id.decode(): _place_before(offset, index)
        for partition_id, offset, index in zip(*columns, strict=True)
    }
    return Positions.at_end_of(offsets).moved(first)


def _place_before(record_offset: int, span_index: int) -> ArrivalPlace:
    if span_index or not record_offset:
        return ArrivalPlace(record_offset, span_index - 1)
    return ArrivalPlace(record_offset - 1, WHOLE_RECORD)


async def next_arrivals(spans: ProjectSpans, pending: Sequence[Pending], window: Window, *, size: int) -> Arrivals:
    """Return the next ``size`` arrivals, or all; of at most ``READ_PARTITIONS_MAX`` partitions."""
    rows = await spans.select(arrivals_query(spans.project_id, pending, window, size=size), step="arrivals")
    return merged_arrivals(rows, pending, size=size)


def arrivals_query(project_id: UUID, pending: Sequence[Pending], window: Window, *, size: int) -> Select:
    """Return the query of ``size`` rows of each partition."""
    bounds, parameters = window.bounds()
    parameters["size"] = size
    branches = []
    for index, part in enumerate(pending):
        partition_id, (from_offset, from_index), through_offset, through_index = part
        parameters |= {
            f"partition_{index}": partition_id,
            f"from_{index}": from_offset,
            f"index_{index}": from_index,
            f"through_{index}": through_offset,
        }
        places = [
            f"partition_id = {{partition_{index}:String}}",
            f"record_offset >= {{from_{index}:UInt64}}",
            f"record_offset <= {{through_{index}:UInt64}}",
            f"record_offset > {{from_{index}:UInt64}} OR span_index > {{index_{index}:Int64}}",
        ]
        if through_index < WHOLE_RECORD:
            parameters[f"last_{index}"] = through_index
            places.append(
                f"record_offset < {{through_{index}:UInt64}} OR span_index <= {{last_{index}:Int64}}",
            )
        branch = Select(
            project_id,
            Table.ARRIVALS,
            [f"toUInt8({index}) AS partition_index", *_COLUMNS],
            where=[*places, *bounds],
            order_by=["record_offset", "span_index"],
            limit="{size:UInt32}",
        )
        branches.append(branch)
    return Select(project_id, Union(branches), ["partition_index", *_COLUMNS], parameters=parameters)


def merged_arrivals(rows: pa.Table, pending: Sequence[Pending], *, size: int) -> Arrivals:
    """Return the first ``size`` rows in the order of the feed. ``rows`` has at most ``size`` of each partition."""
    partition_index, record_offset, span_index, start_us, stored_us = (
        rows[name].to_numpy() for name in ("partition_index", "record_offset", "span_index", "start_us", "stored_us")
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
        places=list(map(ArrivalPlace, record_offset[taken].tolist(), span_index[taken].tolist())),
        starts_us=start_us[taken].tolist(),
        ends={
            part.partition_id: part.through for index, part in enumerate(pending) if is_whole and not has_more[index]
        },
    )


def _known_count(partition_index: np.ndarray[Any, Any], has_more: np.ndarray[Any, Any]) -> int:
    """Return how many merged rows come before everything unread: none after the last of a partition that has more."""
    lasts = [np.flatnonzero(partition_index == index)[-1] for index in np.flatnonzero(has_more)]
    return int(min(lasts, default=len(partition_index) - 1)) + 1


def _distinct(rows: np.ndarray[Any, Any], *columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return sorted rows without duplicates, which exist until the engine has merged."""
    keys = np.stack([column[rows] for column in columns])
    is_again = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    return rows[np.concatenate(([True], ~is_again))] if len(rows) else rows


def _id(partition_id: str) -> bytes:
    return hashlib.sha256(partition_id.encode()).digest()[:8]
