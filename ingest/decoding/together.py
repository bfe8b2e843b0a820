"""Records of ``otlp_proto`` that are read together, in columns (ADR 0029).

Only a record that leaves no doubt is read here: ``common/codec`` reads one of which anything has to be repaired or
rejected, one of another encoding, and the records of a small chunk. What is read is the same: spans as values, which
are masked, normalized and made rows in one way (``chunk.py``). Only plain spans never become values: their rows follow
from the columns (``plain_rows.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from common.arrow_views import Numbers
from common.codec.checks import Bounds, bounds_of
from common.codec.decoded import Decoded, Rejections
from common.codec.otlp_columns import SpanArrays, Wrappers, is_available, read_plain, read_wrappers
from common.codec.otlp_protobuf import read_resource, read_scope
from common.codec.otlp_selected import select_spans
from common.codec.protobuf_values import WHOLE_BYTES_MAX
from common.errors import Rejected
from common.kafka.record import Encoding, Partition, Record, Signal
from common.span import Span
from ingest.codecs import encoding_of
from ingest.decode import DecodedRecord, Rules, empty_record, project_of_resources, with_projects
from ingest.decoding.plain_rows import RecordColumns, plain_rows
from ingest.decoding.plain_spans import KeySet, plain_spans
from ingest.semconv.named_spans import NAMED_KINDS


class ReadTogether(NamedTuple):
    """The records that were read together, by their position in the chunk, with the spans that are values.

    ``rows`` are those of the plain spans, in order; ``position_of`` has the position of the record of each row, and
    ``plain_counts`` their number by position. ``projects`` are those of the rows.
    """

    records: Mapping[int, DecodedRecord]
    rows: pa.Table | None
    position_of: Numbers
    plain_counts: Mapping[int, int]
    projects: frozenset[UUID]


NOTHING = ReadTogether({}, None, np.zeros(0, np.int64), {}, frozenset())


def read_together(
    records: Sequence[Record],
    partition_ids: Mapping[Partition, str],
    rules: Rules,
    *,
    now_ns: int,
    without_plain: Collection[UUID],
) -> ReadTogether:
    """Read the records that leave no doubt. No span of a project ``without_plain`` is plain, because it is masked or
    rejected. Never raises for the content of records.
    """
    positions = [at for at, record in enumerate(records) if _is_suitable(record, rules)] if is_available() else []
    values = [records[position].value or b"" for position in positions]
    if sum(map(len, values)) < rules.together_bytes_min:
        return NOTHING
    bounds = bounds_of(rules.limits, now_ns=now_ns)
    arrays = read_plain(values, bounds) if values else None
    if arrays is None:
        return NOTHING
    positions = [positions[index] for index in arrays.positions]
    read = _read([records[position] for position in positions], arrays, bounds)
    projects = _projects(read, rules, without_plain)
    doubtful = _with_rejected_source(read)
    key_sets, is_plain = plain_spans(
        arrays,
        ~_is_of(arrays, doubtful | {at for at, one in enumerate(projects) if not one}) & ~_is_of_named_kinds(read),
        min_count=rules.plain_spans_min,
    )
    spans, refused = _values(read, ~is_plain & ~_is_of(arrays, doubtful), bounds)
    doubtful |= refused
    is_plain &= ~_is_of(arrays, refused)
    rows = np.flatnonzero(is_plain)
    own = [
        RecordColumns((project or UUID(int=0)).bytes, partition_ids[record.source], record.offset, record.timestamp_ms)
        for project, record in zip(projects, read.records, strict=True)
    ]
    record_of = arrays.record_of[rows]
    kept = _kept(key_sets, is_plain)
    counts = np.bincount(record_of, minlength=len(positions)).tolist()
    return ReadTogether(
        {
            position: with_projects(record, Decoded(*spans[at], Rejections()), rules)
            if at in spans
            else empty_record(record, rules)
            for at, (position, record) in enumerate(zip(positions, read.records, strict=True))
            if at not in doubtful
        },
        plain_rows(arrays, kept, own, resources=read.resources, scopes=read.scopes) if kept else None,
        np.array(positions, np.int64)[record_of],
        dict(zip(positions, counts, strict=True)),
        frozenset(project for project, count in zip(projects, counts, strict=True) if project and count),
    )


def _is_suitable(record: Record, rules: Rules) -> bool:
    value, limits = record.value, rules.limits
    if not value or len(value) > min(WHOLE_BYTES_MAX, limits.record_bytes_max, limits.span_bytes_max):
        return False
    if rules.signal_of(record) is not Signal.TRACES:
        return False
    try:
        return encoding_of(record, rules.encoding_of(record)) is Encoding.OTLP_PROTO
    except Rejected:
        return False


class _Read(NamedTuple):
    """Records that were parsed together. ``resources`` and ``scopes`` are by index, ``None`` for a rejected one."""

    records: Sequence[Record]
    arrays: SpanArrays
    resources: Mapping[int, Any]
    scopes: Mapping[int, Any]

    @property
    def first_rows(self) -> Numbers:
        """The index of the first span of each record."""
        counts = self.arrays.span_counts
        first_rows: Numbers = np.cumsum(counts) - counts
        return first_rows


def _read(records: Sequence[Record], arrays: SpanArrays, bounds: Bounds) -> _Read:
    def read(read_one: Callable[..., Any], wrappers: Wrappers, index_of: Numbers) -> dict[int, Any]:
        return read_wrappers(read_one, wrappers, np.unique(index_of).tolist(), bounds)

    return _Read(
        records,
        arrays,
        resources=read(read_resource, arrays.resources, arrays.resource_of),
        scopes=read(read_scope, arrays.scopes, arrays.scope_of),
    )


def _with_rejected_source(read: _Read) -> set[int]:
    """Return the indexes of records with a resource or scope that is rejected."""
    arrays = read.arrays
    return {
        int(arrays.record_of[row])
        for index_of, sources in ((arrays.resource_of, read.resources), (arrays.scope_of, read.scopes))
        for row in np.flatnonzero(np.isin(index_of, [index for index, source in sources.items() if source is None]))
    }


def _is_of_named_kinds(read: _Read) -> Numbers:
    """Return a flag for each span: whether its name may say its kind."""
    indexes = [index for index, scope in read.scopes.items() if scope is not None and scope.name in NAMED_KINDS]
    return np.isin(read.arrays.scope_of, indexes)


def _projects(read: _Read, rules: Rules, without_plain: Collection[UUID]) -> list[UUID | None]:
    """Return the project of each record; ``None`` if it has not exactly one, or one that has no plain spans."""
    arrays, first_rows = read.arrays, read.first_rows
    projects: list[UUID | None] = []
    for at, record in enumerate(read.records):
        of_record = arrays.resource_of[first_rows[at] : first_rows[at] + arrays.span_counts[at]]
        sources = [source for index in np.unique(of_record).tolist() if (source := read.resources[index]) is not None]
        project = project_of_resources(record, rules, sources)
        projects.append(None if project in without_plain else project)
    return projects


def _is_of(arrays: SpanArrays, records: Collection[int]) -> Numbers:
    """Return for each span whether it is of one of these records."""
    is_of = np.zeros(len(arrays.positions), bool)
    is_of[list(records)] = True
    return is_of[arrays.record_of]


def _values(read: _Read, is_value: Numbers, bounds: Bounds) -> tuple[dict[int, tuple[list[Span], list[int]]], set[int]]:
    """Return spans as values with their indexes in their record, by record; and the records with one that cannot be
    read without doubt.
    """
    arrays, rows = read.arrays, np.flatnonzero(is_value)
    if not len(rows):
        return {}, set()
    selected = select_spans(arrays, rows, bounds, resources=read.resources, scopes=read.scopes)
    record_of = arrays.record_of[rows]
    span_indexes = (rows - read.first_rows[record_of]).tolist()
    ends = np.flatnonzero(np.diff(record_of, append=-1)) + 1
    spans = {
        int(record_of[first]): (selected.spans[first:end], span_indexes[first:end])
        for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    }
    return spans, set(arrays.record_of[list(selected.refused)].tolist()) if selected.refused else set()


def _kept(key_sets: Sequence[KeySet], is_plain: Numbers) -> list[KeySet]:
    if is_plain.all():
        return list(key_sets)
    kept = [key_set._replace(spans=key_set.spans[is_plain[key_set.spans]]) for key_set in key_sets]
    return [key_set for key_set in kept if len(key_set.spans)]
