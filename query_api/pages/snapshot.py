"""What was stored when a scan began, and the window of a scan of traces (contract §3.3).

While others ingest, spans are added to traces and sessions that pages have returned already, or have still to return.
Such a span alone could move one of them over the position of the scan, so that it would be returned twice, or never.
So a cursor remembers an offset for each partition: inside a partition spans become queryable in the order of their
offsets. Traces and sessions with spans of that time are placed by these, whatever arrived since.

A span that is sent again gets a later offset, but remains a span of that time: it must not move its trace or session
either. If retention has freed the earlier row, ``span_arrivals`` may still have its offset and start, and ``spans`` has
no row for them.

A partition is identified by a digest of its id, the same here and in statements.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import Select, Table
from common.errors import InvalidCursor
from common.span_version import ARRIVAL_SQL, OFFSET_SQL
from query_api.spans.versions import TracePosition, Version
from query_api.spans.window import Window, place_of_reference
from query_api.spans.windowing import Windowing

_ENTRY: Final = struct.Struct(">QQ")
_CURSOR: Final = struct.Struct(">q16sB")
_NEWEST_INCLUDED: Final = 1
PARTITIONS_CACHED_MAX: Final = 4_096
"""Digests in the cache: a page needs that of each of its spans."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last offset of each partition that was stored then, as far as that was known."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    """By the digest of the partition id."""

    @classmethod
    def of_partitions(cls, offsets: Mapping[str, int]) -> Snapshot:
        """Return the snapshot of offsets by partition id."""
        return cls({_digest(partition_id.encode()): offset for partition_id, offset in offsets.items()})

    @classmethod
    def unpack(cls, packed: bytes) -> Snapshot:
        """Return what ``pack`` wrote. Raises ``struct.error``."""
        return cls(dict(_ENTRY.iter_unpack(packed)))

    def pack(self) -> bytes:
        """Return what a cursor holds: 16 bytes for each partition."""
        return b"".join(_ENTRY.pack(*entry) for entry in self.offsets.items())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of what was stored then, so that no version is held."""
        return not self.offsets

    def holds(self, version: Version) -> bool:
        """Return whether the version was stored then."""
        return self.offsets.get(_digest(version.partition_id), -1) >= version.record_offset

    def holds_sql(self) -> tuple[str, Mapping[str, Any]]:
        """Return ``holds`` as a condition on a row with ``partition_id`` and ``version``, and its values."""
        return self._holds_sql(OFFSET_SQL)

    def _holds_sql(self, offset: str) -> tuple[str, Mapping[str, Any]]:
        if self.is_empty:
            return "0", {}
        values = {"held_partitions": list(self.offsets), "held_offsets": list(self.offsets.values())}
        through = (
            "transform(halfMD5(partition_id), {held_partitions:Array(UInt64)}, {held_offsets:Array(Int64)},"
            " toInt64(-1))"
        )
        return f"{offset} <= {through}", values

    def arrived_starts(self, project_id: UUID) -> str:
        """Return the right side of an ``IN``: the starts of all versions that arrived since, as ``span_arrivals`` has
        them.
        """
        held, _ = self._holds_sql("record_offset")
        return f"({Select(project_id, Table.ARRIVALS, ['start_us'], where=[f'NOT ({held})'])})"

    def not_in_arrivals_sql(self, project_id: UUID) -> str:
        """Return the condition that the version of a row arrived since, and that ``span_arrivals`` lacks it still.

        An insert reaches ``spans`` a moment before ``span_arrivals``. Takes the values of ``holds_sql``.
        """
        if self.is_empty:
            return "0"
        held, _ = self.holds_sql()
        return f"(NOT ({held}) AND start_us NOT IN {self.arrived_starts(project_id)})"

    def held_place_sql(self, project_id: UUID, *, starts: str) -> tuple[str, Mapping[str, Any]]:
        """Return the condition that the span of a row was stored then at the place of the row, and its values.

        It may have been stored in this or in an earlier version. The row has ``start_us``, ``span_id``, ``trace_id``,
        ``partition_id`` and ``version``. ``starts`` is the right side of an ``IN``: the starts of the rows to
        check, or ``arrived_starts()``.

        A new span is mistaken for one that was sent again if another span that was sent again starts in the same
        microsecond.
        """
        if self.is_empty:
            return "0", {}
        held, values = self.holds_sql()
        at_starts = f"start_us IN {starts}"
        place = ("start_us", "span_id", "trace_id")
        earlier_rows = Select(project_id, Table.SPANS, place, where=[at_starts, held])
        rows = Select(project_id, Table.SPANS, ARRIVAL_SQL, where=[at_starts])
        arrived, _ = self._holds_sql("record_offset")
        is_gone = f"(partition_id, record_offset, span_index) NOT IN ({rows})"
        freed = Select(project_id, Table.ARRIVALS, ["start_us"], where=[at_starts, arrived, is_gone])
        return f"({held} OR ({', '.join(place)}) IN ({earlier_rows}) OR start_us IN ({freed}))", values


@lru_cache(maxsize=PARTITIONS_CACHED_MAX)
def _digest(partition_id: bytes) -> int:
    """Compute what ``halfMD5`` of the engine returns."""
    return int.from_bytes(hashlib.md5(partition_id, usedforsecurity=False).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class TraceWindow(Window):
    """The spans that can make a trace match. In both orders ``oldest_us`` is included and ``newest_us`` is not.

    A trace is placed by its latest matching span. If matches of it were stored when the scan began (``snapshot``), it
    is placed by the latest of these, whatever arrived since.
    """

    includes_newest: bool = False
    """Whether ``newest_us`` is included after all: a cursor that a client of the reference made is a place on it."""

    snapshot: Snapshot = field(default_factory=Snapshot)

    @property
    def signs(self) -> tuple[str, str]:
        """How ``start_us`` compares with ``newest_us``, and with ``oldest_us``."""
        return "<=" if self.includes_newest else "<", ">="

    def includes(self, start_us: int) -> bool:
        """Return whether a span that starts then can make its trace match."""
        if self.oldest_us is not None and start_us < self.oldest_us:
            return False
        return self.newest_us is None or start_us < self.newest_us + self.includes_newest

    def pack(self, place: TracePosition) -> bytes:
        """Return what the cursor of a page that ends at ``place`` holds."""
        return _CURSOR.pack(*place, _NEWEST_INCLUDED if self.includes_newest else 0) + self.snapshot.pack()


def traces_window(windowing: Windowing, *, snapshot: Snapshot, position: bytes | None, now_us: int) -> TraceWindow:
    """Return the part of the traces that a page is taken from. Raises ``InvalidCursor``.

    ``snapshot`` is what is stored now, for a scan that begins; ``position`` and ``now_us`` are those of the
    ``PageCursor``.
    """
    window = replace(TraceWindow.of(windowing, now_us=now_us), snapshot=snapshot)
    if position is None:
        if windowing.next is None:
            return window
        place = place_of_reference(windowing.next, window, "a trace id", "the place of that trace")
        return replace(window, after=TracePosition(*place), includes_newest=window.is_descending)
    try:
        start_us, trace_id, flags = _CURSOR.unpack_from(position)
        snapshot = Snapshot.unpack(position[_CURSOR.size :])
    except struct.error as exc:
        raise InvalidCursor("The cursor in `next` cannot be read.") from exc
    includes_newest = bool(flags & _NEWEST_INCLUDED)
    return replace(window, after=TracePosition(start_us, trace_id), snapshot=snapshot, includes_newest=includes_newest)
