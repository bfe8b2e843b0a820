"""A batch: the columns of many records, and what is needed to settle them afterwards. No I/O.

A batch keeps its records until they are committed: a span that the store refuses is buried with the original bytes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import stamped
from common.codec.decoded import Rejection
from common.errors import RejectionCode
from common.kafka.record import Record
from common.limits import MIB
from common.settings import Encoding
from ingest.cut import CutDeadLetter, cut_dead_letters
from ingest.decoding.chunk import ChunkRecord

RECORD_BYTES: Final = 400
"""What a record costs beside its key and value, about: the tuple, its headers and its place in lists."""

BACKLOG_PATIENCE: Final = 4
"""While there is a backlog a batch may grow so many times as old: larger inserts leave less to merge, a third more spans a second."""


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When a batch is written: at so many spans, at so many bytes, or when its first record has waited so long."""

    rows_max: int = 20_000
    bytes_max: int = 64 * MIB
    age_s_max: float = 0.5

    def is_full(self, batch: SpanBatch) -> bool:
        """Whether nothing more goes in."""
        return batch.rows_count >= self.rows_max or batch.bytes_count >= self.bytes_max

    def is_due(self, batch: SpanBatch, *, now_s: float, is_behind: bool = False) -> bool:
        """Whether it is time to write it; an empty one never is. With a backlog a batch may wait longer, and so be larger."""
        age_s_max = self.age_s_max * BACKLOG_PATIENCE if is_behind else self.age_s_max
        return self.is_full(batch) or (not batch.is_empty and now_s - batch.opened_s >= age_s_max)


class DeadLetterOf(NamedTuple):
    """A dead letter and the record that it is about."""

    record: Record
    encoding: Encoding
    letter: CutDeadLetter


class Extent(NamedTuple):
    """Which part of a log a batch holds: offsets, both included, and the timestamp of the record at the last."""

    first_offset: int
    last_offset: int
    record_ms: int


class SpanBatch:
    """Filled record by record, then written, buried and committed as one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._rejected: list[ChunkRecord] = []
        self.opened_s = 0.0
        self.rows_count = 0
        self.bytes_count = 0
        self._runs: list[_Run] = []
        self._origins: list[ChunkRecord] = []
        self._origin_starts: list[int] = []
        self._extents: dict[str, Extent] = {}

    @property
    def is_empty(self) -> bool:
        """Whether it holds no record. A batch without spans may still hold offsets to commit."""
        return not self.records

    def add(self, decoded: ChunkRecord, *, now_s: float) -> None:
        """Take in one record: its rows to be written, its dead letters to be published. ``now_s`` is when it came."""
        record, partition_id, outcome, rows, first_row = decoded
        if self.is_empty:
            self.opened_s = now_s
        self.records.append(record)
        self.bytes_count += RECORD_BYTES + len(record.value or b"") + len(record.key or b"") + outcome.bytes_count
        first = self._extents[partition_id].first_offset if partition_id in self._extents else record.offset
        self._extents[partition_id] = Extent(first, record.offset, record.timestamp_ms)
        if outcome.dead_letters:
            self._rejected.append(decoded)
        if outcome.rows_count:
            self._origin_starts.append(self.rows_count)
            self._origins.append(decoded)
            self._take(rows, first_row, outcome.rows_count)
            self.rows_count += outcome.rows_count

    def _take(self, rows: pa.Table, first_row: int, count: int) -> None:
        """Rows that follow on each other are one run, be they of many records: a slice costs as much as fifty spans."""
        last = self._runs[-1] if self._runs else None
        if last is not None and last.rows is rows and last.first_row + last.rows_count == first_row:
            self._runs[-1] = last._replace(rows_count=last.rows_count + count)
        else:
            self._runs.append(_Run(rows, first_row, count))

    @property
    def dedup_token(self) -> str:
        """Names the content: the same records in the same order give the same token, so a repeated write changes nothing."""
        extents = [
            f"{partition_id}:{each.first_offset}-{each.last_offset}" for partition_id, each in self._extents.items()
        ]
        return hashlib.sha1("\n".join([*extents, str(self.rows_count)]).encode(), usedforsecurity=False).hexdigest()

    @property
    def extents(self) -> Mapping[str, Extent]:
        """The part of each log that it holds, also where that held no spans."""
        return dict(self._extents)

    def table(self, *, stored_us: int) -> pa.Table:
        """The rows in the order in which they were added, as ``stamped`` makes them. Call it on a batch that has rows."""
        runs = [run.rows.slice(run.first_row, run.rows_count) for run in self._runs]
        return stamped(pa.concat_tables(runs), stored_us=stored_us)

    def dead_letters(self, refused: Iterable[tuple[int, str]] = ()) -> Iterator[DeadLetterOf]:
        """The dead letters of the batch. ``refused`` are the rows that the store refuses: letters of their records are cut anew, so that
        a record never has more than its share."""
        refused_of: dict[int, list[Rejection]] = {}
        for row, reason in refused:
            at, span_index = self._place(row)
            refused_of.setdefault(at, []).append(Rejection(span_index, RejectionCode.REJECTED_BY_STORE, reason))
        anew = {id(self._origins[at]) for at in refused_of}
        for decoded in self._rejected:
            if id(decoded) not in anew:
                yield from _letters_of(decoded, decoded.outcome.dead_letters)
        for at, refusals in refused_of.items():
            decoded = self._origins[at]
            rejections = decoded.outcome.rejections.plus(refusals)
            yield from _letters_of(
                decoded, cut_dead_letters(decoded.record, rejections, encoding=decoded.outcome.encoding)
            )

    def _place(self, row: int) -> tuple[int, int]:
        """Which of ``_origins`` a row is of, and the index that its span has in the record."""
        at = bisect_right(self._origin_starts, row) - 1
        origin = self._origins[at]
        return at, origin.rows["span_index"][origin.first_row + row - self._origin_starts[at]].as_py()


def _letters_of(decoded: ChunkRecord, letters: Iterable[CutDeadLetter]) -> Iterator[DeadLetterOf]:
    return (DeadLetterOf(decoded.record, decoded.outcome.encoding, each) for each in letters)


class _Run(NamedTuple):
    """``rows_count`` rows of an opened chunk, from ``first_row`` on."""

    rows: pa.Table
    first_row: int
    rows_count: int
