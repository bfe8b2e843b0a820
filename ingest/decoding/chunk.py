"""A chunk of records, opened: the one function that makes rows of records, wherever it runs (ADR 0006).

Everything here can be sent to another process and back. What needs the outside stays with the worker: whether a
project exists, whether a record is admitted, what is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from common.clickhouse.span_columns import SpanColumns
from common.codec.decoded import Rejections
from common.kafka.record import Partition, Record
from common.settings import Encoding
from ingest.consume import DecodedRecord, Rules, decode_record, is_undecodable, without_projects
from ingest.cut import CutDeadLetter, cut_dead_letters
from ingest.decoding.isolate_failures import isolate_failures
from ingest.decoding.rows import append_rows


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records that are opened together, in the order in which they came.

    ``partition_ids`` names the log of each partition among them (``RecordSource.partition_id_of``). ``unknown`` are the projects that are
    known not to exist: their spans are refused.
    """

    records: Sequence[Record]
    partition_ids: Mapping[Partition, str]
    now_ns: int
    unknown: frozenset[UUID] = frozenset()

    def refusing(self, unknown: frozenset[UUID]) -> Chunk:
        """The same chunk, to be opened again without the spans of these projects too."""
        return replace(self, unknown=self.unknown | unknown)


class RecordOutcome(NamedTuple):
    """What became of one record. ``bytes_count`` is the memory of its rows, dead letters and rejections, about.

    ``is_undecodable``: nothing of it can be read and it names no project (``consume.is_undecodable``). ``mapping_errors`` counts the values of known meaning that could not be read, by reason (``ingest/semconv/rows.py``).
    """

    encoding: Encoding
    rows_count: int
    bytes_count: int
    rejections: Rejections
    dead_letters: Sequence[CutDeadLetter]
    is_undecodable: bool
    base64_ids_count: int
    mapping_errors: Mapping[str, int]


class DecodedChunk(NamedTuple):
    """``outcomes`` go in parallel with the records; ``rows`` are those of all of them, in their order, but for ``stored_us``.

    ``claimed`` are the projects that rows belong to. ``seconds`` is how long it took.
    """

    outcomes: Sequence[RecordOutcome]
    claimed: frozenset[UUID]
    rows: pa.Table
    seconds: float


class ChunkRecord(NamedTuple):
    """One record of an opened chunk. Its rows are ``account.rows_count`` of ``rows`` from ``first_row`` on."""

    record: Record
    partition_id: str
    outcome: RecordOutcome
    rows: pa.Table
    first_row: int


def decode_chunk(chunk: Chunk, rules: Rules) -> DecodedChunk:
    """The rows of the records, and for each record what became of it.

    Never raises for what records hold. What Clearspan itself fails on is refused as well (``isolate_failures.py``).
    """
    started_s = time.monotonic()
    try:
        decoded = _decoded(chunk, rules, decode_record)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a defect of ours: which spans show it comes out by trying each
        decoded = _decoded(chunk, rules, isolate_failures)
    return decoded._replace(seconds=time.monotonic() - started_s)


def _decoded(chunk: Chunk, rules: Rules, decode_one: Callable[..., DecodedRecord]) -> DecodedChunk:
    columns = SpanColumns()
    claimed: set[UUID] = set()
    decoded = []
    dead_letters = []
    mapping_errors = []
    for record in chunk.records:
        each = without_projects(decode_one(record, rules, now_ns=chunk.now_ns), chunk.unknown)
        claimed.update(each.claimed)
        mapping_errors.append(append_rows(columns, each, rules.prices, partition_id=chunk.partition_ids[record.source]))
        dead_letters.append(cut_dead_letters(record, each.rejections, encoding=each.encoding, layout=each.layout))
        # The spans are columns by now; kept alive they would double the memory of the chunk.
        decoded.append(each._replace(spans=[], layout=None))
    rows = columns.rows()
    outcomes = _outcomes(decoded, dead_letters, mapping_errors, rules, rows_bytes=rows.nbytes)
    return DecodedChunk(outcomes, frozenset(claimed), rows, seconds=0.0)


def records_of(chunk: Chunk, decoded: DecodedChunk) -> Iterator[ChunkRecord]:
    """The records of a chunk with what became of them, in their order."""
    first_row = 0
    for record, outcome in zip(chunk.records, decoded.outcomes, strict=True):
        yield ChunkRecord(record, chunk.partition_ids[record.source], outcome, decoded.rows, first_row)
        first_row += outcome.rows_count


def _outcomes(
    decoded: Sequence[DecodedRecord],
    dead_letters: Sequence[Sequence[CutDeadLetter]],
    mapping_errors: Sequence[Mapping[str, int]],
    rules: Rules,
    *,
    rows_bytes: int,
) -> list[RecordOutcome]:
    """Rows are as large as what they were made of, so records share their memory by the size of their values."""
    values_bytes = sum(len(each.record.value or b"") for each in decoded) or 1
    return [
        RecordOutcome(
            each.encoding,
            len(each.span_indexes),
            rows_bytes * len(each.record.value or b"") // values_bytes
            + sum(len(letter.value) for letter in letters)
            + each.rejections.further_indexes.itemsize * len(each.rejections.further_indexes),
            each.rejections,
            letters,
            is_undecodable(each, rules),
            each.base64_ids_count,
            unread,
        )
        for each, letters, unread in zip(decoded, dead_letters, mapping_errors, strict=True)
    ]
