"""What was stored when a walk began (contract §3.3).

While others ingest, spans are added to traces and sessions that a walk has given already, or has still to give; by
these alone one of them would move over the walk's position and be given twice, or never. So a cursor remembers an
offset for each log: inside a log spans become queryable in the order of their offsets. What has spans of that time
stands where these put it, whatever came since.

A span that is sent again gets a later offset, and stays a span of that time: it must not move its trace or session
either. Once the engine has merged the earlier row away, ``span_arrivals`` still has its offset and start, and no row
of ``spans`` for them.

A log goes by a digest of its name, the same here and in statements.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from query_api.spans.tables import Table, read_from
from query_api.spans.version import Version

_LOG: Final = struct.Struct(">QQ")
LOGS_KNOWN_MAX: Final = 4_096
"""Whose digests are kept: a page asks for that of each of its spans."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last offset of each log that was stored then, as far as that was known."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    """By the digest of the log's name."""

    @classmethod
    def of_partitions(cls, offsets: Mapping[str, int]) -> Snapshot:
        """The snapshot of logs by name."""
        return cls({_digest(partition_id.encode()): offset for partition_id, offset in offsets.items()})

    @classmethod
    def unpack(cls, packed: bytes) -> Snapshot:
        """What ``pack`` wrote. Raises ``struct.error``."""
        return cls(dict(_LOG.iter_unpack(packed)))

    def pack(self) -> bytes:
        """As it stands in a cursor: 16 bytes a log."""
        return b"".join(_LOG.pack(*entry) for entry in self.offsets.items())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of what was stored then, so that it holds no version."""
        return not self.offsets

    def holds(self, version: Version) -> bool:
        """Whether the version was stored then."""
        return self.offsets.get(_digest(version.partition_id), -1) >= version.record_offset

    def holds_sql(self) -> tuple[str, Mapping[str, Any]]:
        """The same of a row with ``partition_id`` and ``record_offset``, as a condition and its values."""
        if self.is_empty:
            return "0", {}
        values = {"held_logs": list(self.offsets), "held_offsets": list(self.offsets.values())}
        through = (
            "transform(halfMD5(partition_id), {held_logs:Array(UInt64)}, {held_offsets:Array(Int64)}, toInt64(-1))"
        )
        return f"record_offset <= {through}", values

    def held_place_sql(self, *, starts: str | None = None) -> tuple[str, Mapping[str, Any]]:
        """Whether the span of a row was stored then at the place of the row, in this or an earlier version: as a
        condition on a row with ``start_us``, ``span_id``, ``trace_id``, ``partition_id`` and ``record_offset``, and
        its values.

        ``starts`` is the right side of an ``IN``: the starts of the rows that are asked about. Without it, those of
        all versions that came since.

        A new span is taken for one that was sent again if another one that was sent again starts in the same
        microsecond.
        """
        if self.is_empty:
            return "0", {}
        held, values = self.holds_sql()
        if starts is None:
            starts = f"(SELECT start_us {read_from(Table.ARRIVALS, f'NOT ({held})')})"
        at_starts = f"start_us IN {starts}"
        earlier_rows = f"SELECT start_us, span_id, trace_id {read_from(Table.SPANS, at_starts, held)}"
        rows = f"SELECT partition_id, record_offset, span_index {read_from(Table.SPANS, at_starts)}"
        is_gone = f"(partition_id, record_offset, span_index) NOT IN ({rows})"
        merged_away = f"SELECT start_us {read_from(Table.ARRIVALS, at_starts, held, is_gone)}"
        place = "(start_us, span_id, trace_id)"
        return f"({held} OR {place} IN ({earlier_rows}) OR start_us IN ({merged_away}))", values


@lru_cache(maxsize=LOGS_KNOWN_MAX)
def _digest(partition_id: bytes) -> int:
    """``halfMD5`` of the engine."""
    return int.from_bytes(hashlib.md5(partition_id, usedforsecurity=False).digest()[:8], "big")
