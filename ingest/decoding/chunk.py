"""A chunk of records, decoded: the one function that turns records into rows, in whatever process it runs (ADR 0006).

Everything here can be sent to another process and back. What needs I/O stays in the worker: whether a project exists,
whether a record is admitted, what is committed.

If a whole chunk fails, its records are decoded again one at a time, to find what Clearspan itself fails on, down to the
span. Such a span is rejected like any other: a defect of ours that one span triggers costs that span (contract §4). Its
bytes are kept and can be replayed once the defect is fixed. Otherwise such a record would stop the worker at each
start. This path does everything twice.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from common.clickhouse.event_columns import NO_EVENTS, EventRow, event_rows, rows_of_events
from common.clickhouse.span_columns import SpanColumns
from common.codec.checks import shown
from common.codec.decoded import Rejection, Rejections
from common.errors import RejectionCode
from common.kafka.record import Encoding, Partition, Record, Signal
from common.log_refusals import LogRefusal
from common.prices.table import PriceTable
from common.span import NormalizedSpan
from ingest.decode import DecodedRecord, Rules, decode_record, empty_record, is_undecodable, only, without_projects
from ingest.decoding.together import NOTHING, ReadTogether, read_together
from ingest.masking.dead_letters import NO_MASKING, Masking
from ingest.masking.planned import PlannedMask
from ingest.masking.spans import masked_record
from ingest.normalize import normalize
from ingest.rejected_spans import CutDeadLetter, cut_dead_letters
from ingest.semconv.logfire import with_readable_name

_ANY_PARTITION: Final = ""
NO_RULES: Final[Mapping[UUID, PlannedMask]] = {}
MakeRows: TypeAlias = Callable[[DecodedRecord], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records that are decoded together, in the order in which they arrived.

    ``partition_ids`` has the id of each of their partitions (``RecordSource.partition_id_of``). ``unknown`` are
    projects that do not exist: their spans are rejected.
    """

    records: Sequence[Record]
    partition_ids: Mapping[Partition, str]
    now_ns: int
    unknown: frozenset[UUID] = frozenset()
    masking: Masking = NO_MASKING

    def rejecting(self, unknown: frozenset[UUID]) -> Chunk:
        """Return the same chunk, to be decoded again without the spans of these projects."""
        return replace(self, unknown=self.unknown | unknown)


class RecordOutcome(NamedTuple):
    """The outcome of one record. ``bytes_count`` is the approximate memory of its rows, dead letters and rejections.
    ``repaired_count`` is how many of its spans had to be repaired (``common/codec/repair.py``).

    ``is_undecodable``: see ``decode.is_undecodable``. ``mapping_errors`` counts the values of known meaning that could
    not be read, by reason (``ingest/semconv/rows.py``). ``refused`` counts the log records that are not kept.
    """

    encoding: Encoding
    rows_count: int
    bytes_count: int
    rejections: Rejections
    dead_letters: Sequence[CutDeadLetter]
    is_undecodable: bool
    base64_ids_count: int
    mapping_errors: Mapping[str, int]
    repaired_count: int = 0
    signal: Signal = Signal.TRACES
    refused: Mapping[LogRefusal, int] = {}
    events_count: int = 0


class DecodedChunk(NamedTuple):
    """``outcomes`` are in the order of the records; ``rows`` and ``events`` are those of all records in that order,
    without ``stored_us``: of spans, and of log records that are events of spans.

    ``claimed`` are the projects that the rows belong to. ``seconds`` is how long decoding took. ``masked`` counts the
    values that were masked, by project.
    """

    outcomes: Sequence[RecordOutcome]
    claimed: frozenset[UUID]
    rows: pa.Table
    seconds: float
    masked: Mapping[UUID, int] = {}
    events: pa.Table = NO_EVENTS


class ChunkRecord(NamedTuple):
    """One record of a decoded chunk. Its rows are ``outcome.rows_count`` of ``rows``, from ``first_row`` on, and its
    events ``outcome.events_count`` of ``events``, from ``first_event`` on.
    """

    record: Record
    partition_id: str
    outcome: RecordOutcome
    rows: pa.Table
    first_row: int
    masking: Masking = NO_MASKING
    events: pa.Table = NO_EVENTS
    first_event: int = 0


def decode_chunk(chunk: Chunk, rules: Rules) -> DecodedChunk:
    """Return the rows of the records, and the outcome of each record.

    Never raises for the content of records. What Clearspan itself fails on is rejected as well.
    """
    started_s = time.monotonic()
    try:
        together = read_together(
            chunk.records,
            chunk.partition_ids,
            rules,
            now_ns=chunk.now_ns,
            without_plain=chunk.unknown.union(chunk.masking.by_project()),
        )
        decoded = _decoded(chunk, rules, decode_and_mask, together)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a defect of ours; trying each span shows which ones trigger it
        decoded = _decoded(chunk, rules, isolate_failures)
    return decoded._replace(seconds=time.monotonic() - started_s)


def reject_records(chunk: Chunk, rules: Rules, reason: str) -> DecodedChunk:
    """Return the result of a chunk none of whose records can be decoded, which is a defect of ours."""

    def rejected(record: Record, rules: Rules, **_: object) -> DecodedRecord:
        return _rejected(record, rules, reason)

    return _decoded(chunk, rules, rejected)


def records_of(chunk: Chunk, decoded: DecodedChunk) -> Iterator[ChunkRecord]:
    """Yield the records of a chunk, in order, with their outcomes."""
    first_row = first_event = 0
    rows, events = decoded.rows, decoded.events
    for record, outcome in zip(chunk.records, decoded.outcomes, strict=True):
        partition_id = chunk.partition_ids[record.source]
        yield ChunkRecord(record, partition_id, outcome, rows, first_row, chunk.masking, events, first_event)
        first_row += outcome.rows_count
        first_event += outcome.events_count


def _decoded(
    chunk: Chunk,
    rules: Rules,
    decode_one: Callable[..., DecodedRecord],
    together: ReadTogether = NOTHING,
) -> DecodedChunk:
    """Return the rows of all records: of plain spans and of the values that ``decode_one`` returns."""
    claimed, outcomes = set(together.projects), []
    columns = SpanColumns()
    events: list[EventRow] = []
    masks = chunk.masking.by_project()
    for mask in masks.values():
        mask.begin()
    counts_before = {project: mask.count for project, mask in masks.items()}
    for position, record in enumerate(chunk.records):
        read = together.records.get(position)
        decoded = decode_one(record, rules, now_ns=chunk.now_ns, masks=masks) if read is None else _masked(read, masks)
        decoded = without_projects(decoded, chunk.unknown)
        claimed.update(decoded.claimed)
        partition_id = chunk.partition_ids[record.source]
        errors = append_rows(columns, decoded, rules.prices, partition_id=partition_id, masks=masks)
        if decoded.events:
            place = {"record_offset": record.offset, "record_ms": record.timestamp_ms}
            events += rows_of_events(decoded.events, partition_id=partition_id, **place)
        dead_letters: Sequence[CutDeadLetter] = ()
        if decoded.rejections.in_full:
            dead_letters = cut_dead_letters(
                record,
                decoded.rejections,
                encoding=decoded.encoding,
                signal=decoded.signal,
                layout=decoded.layout,
                masking=chunk.masking,
            )
        # Only the outcome is kept: the spans are columns by now, and would double the memory of the chunk.
        outcome = _outcome(decoded, rules, dead_letters, errors)
        outcomes.append(outcome._replace(rows_count=outcome.rows_count + together.plain_counts.get(position, 0)))
    rows = _in_order(together, columns, outcomes)
    rows_of_logs = event_rows(events) if events else NO_EVENTS
    # Rows are as large as their records, so records share the memory of the rows by the size of their values.
    bytes_per_value_byte = (rows.nbytes + rows_of_logs.nbytes) / (
        sum(len(record.value or b"") for record in chunk.records) or 1
    )
    outcomes = [
        outcome._replace(bytes_count=outcome.bytes_count + int(len(record.value or b"") * bytes_per_value_byte))
        for record, outcome in zip(chunk.records, outcomes, strict=True)
    ]
    counts = {project: mask.count - counts_before[project] for project, mask in masks.items()}
    masked = {project: count for project, count in counts.items() if count}
    return DecodedChunk(outcomes, frozenset(claimed), rows, seconds=0.0, masked=masked, events=rows_of_logs)


def _in_order(together: ReadTogether, columns: SpanColumns, outcomes: Sequence[RecordOutcome]) -> pa.Table:
    """Return the rows of plain spans and of values in the order of their records, and in them of their spans."""
    if together.rows is None:
        return columns.rows()
    if not columns.rows_count:
        return together.rows
    value_counts = [
        outcome.rows_count - together.plain_counts.get(position, 0) for position, outcome in enumerate(outcomes)
    ]
    rows = pa.concat_tables([together.rows, columns.rows()]).unify_dictionaries().combine_chunks()
    positions = np.concatenate([together.position_of, np.repeat(np.arange(len(outcomes)), value_counts)])
    return rows.take(pa.array(np.lexsort((rows["span_index"].to_numpy(), positions))))


def _outcome(
    decoded: DecodedRecord, rules: Rules, dead_letters: Sequence[CutDeadLetter], mapping_errors: Mapping[str, int]
) -> RecordOutcome:
    """Return the outcome of a record, without the memory of its rows."""
    further = decoded.rejections.further_indexes
    return RecordOutcome(
        encoding=decoded.encoding,
        rows_count=len(decoded.span_indexes),
        bytes_count=sum(len(dead_letter.value) for dead_letter in dead_letters) + further.itemsize * len(further),
        rejections=decoded.rejections,
        dead_letters=dead_letters,
        is_undecodable=is_undecodable(decoded, rules),
        base64_ids_count=decoded.base64_ids_count,
        mapping_errors=mapping_errors,
        repaired_count=sum(1 for span in decoded.spans if span.repaired),
        signal=decoded.signal,
        refused=decoded.refused,
        events_count=len(decoded.events),
    )


def decode_and_mask(record: Record, rules: Rules, *, now_ns: int, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
    """Return the content of a record, with the spans of projects that have rules masked."""
    return _masked(decode_record(record, rules, now_ns=now_ns), masks)


def _masked(decoded: DecodedRecord, masks: Mapping[UUID, PlannedMask]) -> DecodedRecord:
    return masked_record(decoded, masks) if masks else decoded


def append_rows(
    columns: SpanColumns,
    decoded: DecodedRecord,
    prices: PriceTable,
    *,
    partition_id: str,
    masks: Mapping[UUID, PlannedMask] = NO_RULES,
) -> Counter[str]:
    """Append the spans of a record; return how many values of known meaning could not be read, by reason."""
    decoded = decoded._replace(spans=[with_readable_name(span) for span in decoded.spans])
    normalized_spans = _normalized(decoded, prices, masks)
    columns.append_record(
        project_ids=decoded.projects,
        partition_id=partition_id,
        record_offset=decoded.record.offset,
        record_ms=decoded.record.timestamp_ms,
        spans=decoded.spans,
        span_indexes=decoded.span_indexes,
        normalized_spans=normalized_spans,
    )
    return Counter(reason for normalized in normalized_spans for reason in normalized.mapping_errors)


def _normalized(decoded: DecodedRecord, prices: PriceTable, masks: Mapping[UUID, PlannedMask]) -> list[NormalizedSpan]:
    """Normalize the spans of each project separately: only spans of its own project influence a span."""
    if isinstance(decoded.projects, UUID) or len(set(decoded.projects)) < 2:
        if not decoded.spans:
            return []
        project = decoded.projects if isinstance(decoded.projects, UUID) else decoded.projects[0]
        return normalize(decoded.spans, prices, masks.get(project))
    normalized_spans: dict[int, NormalizedSpan] = {}
    for project in set(decoded.projects):
        own = [position for position, its_project in enumerate(decoded.projects) if its_project == project]
        normalized_spans.update(
            zip(own, normalize([decoded.spans[at] for at in own], prices, masks.get(project)), strict=True)
        )
    return [normalized_spans[position] for position in range(len(decoded.spans))]


def isolate_failures(
    record: Record, rules: Rules, *, now_ns: int, masks: Mapping[UUID, PlannedMask] = NO_RULES
) -> DecodedRecord:
    """Decode like ``decode_and_mask``, but reject spans of which no rows can be made. Raises only ``MemoryError``."""
    try:
        decoded = decode_and_mask(record, rules, now_ns=now_ns, masks=masks)
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001 - any failure is rejected, with its name
        return _rejected(record, rules, _reason_of(exc, shows_text=not masks))
    make_rows = partial(_make_rows, prices=rules.prices, masks=masks)
    return (
        decoded
        if _failure_of(decoded, make_rows, shows_text=not masks) is None
        else _without_failures(decoded, make_rows, shows_text=not masks)
    )


def _rejected(record: Record, rules: Rules, reason: str) -> DecodedRecord:
    return empty_record(record, rules)._replace(rejections=Rejections.of_record(RejectionCode.OUR_FAILURE, reason))


def _make_rows(decoded: DecodedRecord, *, prices: PriceTable, masks: Mapping[UUID, PlannedMask]) -> None:
    """Make rows of a record, only to see whether that fails."""
    columns = SpanColumns()
    append_rows(columns, decoded, prices, partition_id=_ANY_PARTITION, masks=masks)
    columns.rows()


def _without_failures(decoded: DecodedRecord, make_rows: MakeRows, *, shows_text: bool) -> DecodedRecord:
    """Reject the spans that fail alone; reject all spans if the others fail together."""
    positions = range(len(decoded.spans))
    failures = dict(_failures(decoded, positions, make_rows, shows_text=shows_text))
    kept = only(decoded, [at for at in positions if at not in failures])
    if failure := _failure_of(kept, make_rows, shows_text=shows_text):
        failures = {at: failures.get(at, failure) for at in positions}
        kept = only(decoded, [])
    rejections = decoded.rejections.plus(
        Rejection(decoded.span_indexes[at], RejectionCode.OUR_FAILURE, reason) for at, reason in failures.items()
    )
    return kept._replace(rejections=rejections)


def _failures(
    decoded: DecodedRecord, positions: Sequence[int], make_rows: MakeRows, *, shows_text: bool
) -> Iterator[tuple[int, str]]:
    """Yield the spans that fail alone, and why. Found by halving: a record may have a hundred thousand good ones."""
    failure = _failure_of(only(decoded, positions), make_rows, shows_text=shows_text)
    if failure is None:
        return
    if len(positions) == 1:
        yield positions[0], failure
        return
    half = len(positions) // 2
    yield from _failures(decoded, positions[:half], make_rows, shows_text=shows_text)
    yield from _failures(decoded, positions[half:], make_rows, shows_text=shows_text)


def _failure_of(decoded: DecodedRecord, make_rows: MakeRows, *, shows_text: bool) -> str | None:
    """Return why no rows can be made of these spans."""
    try:
        make_rows(decoded)
    except MemoryError:
        raise
    except Exception as exc:  # noqa: BLE001 - as above
        return _reason_of(exc, shows_text=shows_text)
    return None


def _reason_of(failure: Exception, *, shows_text: bool) -> str:
    """Return a reason that names the failure; its text, which may repeat content, only if nothing is masked."""
    text = f", {shown(str(failure))}" if shows_text else ""
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    return (
        f"Clearspan failed on it, which is a defect of Clearspan: {type(failure).__name__}{text},"
        f" in {Path(frame.filename).name}, line {frame.lineno}. Replay it once the defect is fixed."
    )
