"""A batch: the columns of many records, and what is needed to settle them afterwards. No I/O.

A batch keeps its records until they are committed: a span that the store refuses is buried with the original bytes.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import SpanColumns
from common.codec.decoded import Refusal
from common.kafka.record import Record
from common.limits import MIB
from common.settings import Encoding
from common.span import Normal
from ingest.consume import Opened

RECORD_BYTES: Final = 400
"""What a record costs beside its key and value: about the tuple, its headers and its place in lists."""


BACKLOG_PATIENCE: Final = 4
"""Half a second more or less is nothing to who is behind; fewer, larger inserts leave less to merge: a third more spans a second."""


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


class Burial(NamedTuple):
    """A refusal and the record it is about; the bytes are cut when it is published."""

    record: Record
    encoding: Encoding
    refusal: Refusal


class SpanBatch:
    """Filled record by record in one thread, then written, buried and committed as one."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.burials: list[Burial] = []
        self.opened_s = 0.0
        self._columns = SpanColumns()
        self._origins: list[Opened] = []
        self._origin_starts: list[int] = []
        self._records_bytes = 0
        self._extents: dict[str, tuple[int, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether it holds no record. A batch without spans may still hold offsets to commit."""
        return not self.records

    @property
    def rows_count(self) -> int:
        """Spans that will be written."""
        return self._columns.rows_count

    @property
    def bytes_count(self) -> int:
        """What it keeps in memory, about: records and columns."""
        return self._records_bytes + self._columns.bytes_count

    def add(self, opened: Opened, normals: Sequence[Normal], *, log: str, now_s: float) -> None:
        """Take in one record: its spans as columns, its refusals to be buried. ``log`` is ``RecordSource.log_of``."""
        record = opened.record
        if self.is_empty:
            self.opened_s = now_s
        self.records.append(record)
        self._records_bytes += RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
        first, _ = self._extents.get(log, (record.offset, record.offset))
        self._extents[log] = (first, record.offset)
        self.burials += [Burial(record, opened.encoding, each) for each in opened.refusals]
        if opened.spans:
            self._origin_starts.append(self.rows_count)
            # The spans are columns by now; kept alive they would double the memory of the batch.
            self._origins.append(opened._replace(spans=[]))
            self._columns.append_record(
                project_ids=opened.projects,
                log=log,
                log_offset=record.offset,
                record_ms=record.timestamp_ms,
                spans=opened.spans,
                span_indexes=opened.span_indexes,
                normals=normals,
            )

    @property
    def dedup_token(self) -> str:
        """Names the content: the same records in the same order give the same token, so a repeated write changes nothing."""
        extents = [f"{log}:{first}-{last}" for log, (first, last) in self._extents.items()]
        return hashlib.sha1("\n".join([*extents, str(self.rows_count)]).encode(), usedforsecurity=False).hexdigest()

    def table(self, *, stored_us: int) -> pa.Table:
        """The rows in the order in which they were added; see ``SpanColumns.table``."""
        return self._columns.table(stored_us=stored_us)

    def burial_of_row(self, row: int, refusal_reason: Refusal) -> Burial:
        """The burial of a row that the store refused, with the span's own index in its record."""
        at = bisect_right(self._origin_starts, row) - 1
        origin = self._origins[at]
        span_index = origin.span_indexes[row - self._origin_starts[at]]
        return Burial(origin.record, origin.encoding, refusal_reason._replace(span_index=span_index))
