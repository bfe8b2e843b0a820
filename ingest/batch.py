"""A batch: the columns of many records, and what is needed to finish them after the insert. No I/O.

A batch keeps its records until they are committed: a span that a sink rejects is dead-lettered with its original bytes.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from common.clickhouse.event_columns import NO_EVENTS
from common.clickhouse.span_columns import SpanColumns
from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.kafka.record import Record
from common.limits import MIB
from common.span_version import ENDED
from ingest.decoding.chunk import ChunkRecord
from ingest.masking.dead_letters import NO_MASKING
from ingest.rejected_spans import CutDeadLetter, cut_dead_letters

NAMING: Final = ("project_id", "trace_id", "span_id", "partition_id", "version", "span_index", "record_ms")
"""The columns that say which span a row is about, and where it came."""

_NO_ROWS: Final = pa.table({})
NO_SPANS: Final = SpanColumns().rows()


def named_in(*tables: pa.Table) -> pa.Table:
    """Return which spans the rows of spans and of events are about, and where they came: ``NAMING``, by offset."""
    rows = pa.concat_tables([table.select(NAMING) for table in tables]).unify_dictionaries().combine_chunks()
    return rows.take(pa.array(np.argsort(rows.column("version").to_numpy() % ENDED, kind="stable")))


RECORD_BYTES: Final = 400
"""Approximate memory of a record besides its key and value: the tuple, its headers, its entries in lists."""


PATIENCE: Final = 4
"""How many times older a batch may grow while there is a backlog, or if ingest gives way: larger inserts leave less to
merge, which gives a third more spans per second.
"""


class LastFlush(NamedTuple):
    """When the last flush ended, and how long it took, in seconds."""

    ended_s: float = -math.inf
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When a batch is flushed: at this many spans, at this many bytes, or when its first record is this old.

    Before that, when batches have been flushed for less than ``share`` of the time: an insert costs as much as
    thousands of its spans (ADR 0044). 0: not before that.
    """

    rows_max: int = 20_000
    bytes_max: int = 64 * MIB
    age_s_max: float = 0.5
    share: float = 0.0
    is_patient: bool = False
    """Whether a batch may always grow as old as with a backlog."""

    def is_full(self, batch: SpanBatch) -> bool:
        """Return whether the batch takes no more records."""
        return batch.rows_count + batch.events_count >= self.rows_max or batch.bytes_count >= self.bytes_max

    def is_due(self, batch: SpanBatch, last: LastFlush, *, now_s: float, is_behind: bool = False) -> bool:
        """Return whether to flush the batch now; an empty one never."""
        return self.is_full(batch) or (not batch.is_empty and now_s >= self.due_s(batch, last, is_behind=is_behind))

    def due_s(self, batch: SpanBatch, last: LastFlush, *, is_behind: bool = False) -> float:
        """Return when the batch, which is not empty, is flushed even if it is not full."""
        oldest_s = batch.opened_s + self.age_s_max * (PATIENCE if is_behind or self.is_patient else 1)
        if is_behind or not self.share:
            return oldest_s
        return min(oldest_s, last.ended_s + last.took_s * (1 / self.share - 1))


class Extent(NamedTuple):
    """The part of a partition that a batch holds: its first and last offset, and the timestamp of the last record."""

    first_offset: int
    last_offset: int
    record_ms: int


class _Run(NamedTuple):
    """Consecutive rows of a decoded chunk, ``rows_count`` from ``first_row`` on."""

    rows: pa.Table
    first_row: int
    rows_count: int


class _Runs:
    """Rows of decoded chunks in the order in which they were added."""

    def __init__(self, none: pa.Table) -> None:
        self.rows_count = 0
        self._none = none
        self._runs: list[_Run] = []
        self._table: pa.Table | None = None

    def add(self, rows: pa.Table, first_row: int, count: int) -> None:
        """Extend the last run if the rows follow it, also across records: a slice costs as much as fifty spans."""
        last = self._runs[-1] if self._runs else None
        if last is not None and last.rows is rows and last.first_row + last.rows_count == first_row:
            self._runs[-1] = last._replace(rows_count=last.rows_count + count)
        else:
            self._runs.append(_Run(rows, first_row, count))
        self.rows_count += count

    def table(self) -> pa.Table:
        """Return all rows. Call it only when no more are added."""
        if not self.rows_count:
            return self._none
        if self._table is None:
            runs = [run.rows.slice(run.first_row, run.rows_count) for run in self._runs]
            self._table = pa.concat_tables(runs).unify_dictionaries().combine_chunks()
            self._runs.clear()  # the rows are copied: those of the chunks take as much memory again
        return self._table


class SpanBatch:
    """Filled record by record, then stored, dead-lettered and committed as one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.opened_s = 0.0
        self.bytes_count = 0
        self.masking = NO_MASKING
        """The rules that its last record was masked by."""
        self._spans, self._events = _Runs(NO_SPANS), _Runs(NO_EVENTS)
        self._with_dead_letters: list[ChunkRecord] = []
        self._origins: list[ChunkRecord] = []
        self._origin_starts: list[int] = []
        self._extents: dict[str, Extent] = {}
        self._timestamps_ms = 0

    @property
    def rows_count(self) -> int:
        """How many spans it has."""
        return self._spans.rows_count

    @property
    def events_count(self) -> int:
        """How many log records it has that are events of spans."""
        return self._events.rows_count

    @property
    def is_empty(self) -> bool:
        """Whether it holds no record. A batch without spans may still hold offsets to commit."""
        return not self.records

    def add(self, decoded: ChunkRecord, *, now_s: float) -> None:
        """Add one record: its rows and its dead letters. ``now_s`` is when the record arrived."""
        record, partition_id, outcome, rows, first_row, self.masking, events, first_event = decoded
        if self.is_empty:
            self.opened_s = now_s
        self.records.append(record)
        self.bytes_count += RECORD_BYTES + len(record.value or b"") + len(record.key or b"") + outcome.bytes_count
        self._timestamps_ms += record.timestamp_ms
        first = self._extents[partition_id].first_offset if partition_id in self._extents else record.offset
        self._extents[partition_id] = Extent(first, record.offset, record.timestamp_ms)
        origin = decoded._replace(rows=_NO_ROWS, events=_NO_ROWS)
        if outcome.dead_letters:
            self._with_dead_letters.append(origin)
        if outcome.rows_count:
            self._origin_starts.append(self.rows_count)
            self._origins.append(origin)
            self._spans.add(rows, first_row, outcome.rows_count)
        if outcome.events_count:
            self._events.add(events, first_event, outcome.events_count)

    @property
    def dedup_token(self) -> str:
        """Identifies the content: the same records in the same order give the same token, so a repeated insert changes
        nothing. The timestamps tell records apart that follow a truncation of the log and take the offsets of others.
        """
        extents = [
            f"{partition_id}:{extent.first_offset}-{extent.last_offset}"
            for partition_id, extent in self._extents.items()
        ]
        return hashlib.sha1(
            "\n".join([*extents, str(self.rows_count), str(self.events_count), str(self._timestamps_ms)]).encode(),
            usedforsecurity=False,
        ).hexdigest()

    @property
    def extents(self) -> Mapping[str, Extent]:
        """The part of each partition that the batch holds, even if it held no spans."""
        return dict(self._extents)

    def rows(self) -> pa.Table:
        """Return the rows of all spans in the order in which they were added. Call it only on a complete batch."""
        return self._spans.table()

    def events(self) -> pa.Table:
        """Return those of all events; call it likewise."""
        return self._events.table()

    def named(self) -> pa.Table:
        """Return which spans it is about; call it likewise."""
        return named_in(self.rows(), self.events())

    def dead_letters(self, rejected_rows: Mapping[int, str]) -> Iterator[tuple[ChunkRecord, CutDeadLetter]]:
        """Yield the dead letters of the batch, each with its record.

        ``rejected_rows`` maps rows that a sink rejected to the reason.

        The dead letters of records with such rows are cut anew, so that no record has more than its maximum.
        """
        rejections: dict[int, list[Rejection]] = {}
        for row, reason in rejected_rows.items():
            at, span_index = self._origin_of(row)
            rejections.setdefault(at, []).append(Rejection(span_index, RejectionCode.REJECTED_BY_STORE, reason))
        cut_anew = {id(self._origins[at]) for at in rejections}
        for decoded in self._with_dead_letters:
            if id(decoded) not in cut_anew:
                yield from zip(repeat(decoded), decoded.outcome.dead_letters, strict=False)
        for at, more in rejections.items():
            origin = self._origins[at]
            united = origin.outcome.rejections.plus(more)
            dead_letters = cut_dead_letters(
                origin.record,
                united,
                encoding=origin.outcome.encoding,
                signal=origin.outcome.signal,
                masking=origin.masking,
            )
            yield from zip(repeat(origin), dead_letters, strict=False)

    def _origin_of(self, row: int) -> tuple[int, int]:
        """Return the index in ``_origins`` of a row's record, and the index of its span in that record."""
        at = bisect_right(self._origin_starts, row) - 1
        return at, self.rows()["span_index"][row].as_py()
