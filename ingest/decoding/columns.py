"""Records of ``otlp_proto`` that are decoded together, column by column (ADR 0029).

Only what can be read without any doubt is: a record in which anything has to be rejected, masked, or given to more than
one project is left to ``ingest/decoding/chunk.py``, which decodes it span by span. Both give equal rows.

Of the other records, the columns that say what was sent are made for all spans at once, and so are the derived ones of
plain spans (``plain_spans.py``). All other spans are normalized one by one, with the spans above them, which get the
sums of their usage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from common.arrow_views import Numbers, offsets_of
from common.clickhouse.sent_columns import RecordColumns, sent_columns
from common.clickhouse.span_columns import NORMALIZED, NormalizedColumns, table_of
from common.codec.checks import Bounds, bounds_of
from common.codec.otlp_arrays import SpanArrays, Wrappers
from common.codec.otlp_columns import is_available, read_plain
from common.codec.otlp_protobuf import WHOLE_BYTES_MAX, read_resource, read_scope
from common.codec.otlp_selected import read_wrappers, select_spans
from common.errors import Rejected
from common.kafka.record import Partition, Record
from common.limits import KIB, SpanLimits
from common.settings import Encoding
from common.span import Span
from ingest.decode import Rules, encoding_of, project_of_resources
from ingest.decoding.plain_spans import KeySet, plain_columns, plain_key_sets
from ingest.normalize import normalize

BYTES_MIN: Final = 64 * KIB
"""Fewer bytes of records are decoded span by span: columns take as much as 70 plain spans, however few there are."""


class ColumnRecord(NamedTuple):
    """A record that was decoded in columns: its rows are ``rows_count`` of the table, from ``first_row`` on."""

    first_row: int
    rows_count: int
    project_id: UUID
    mapping_errors: Counter[str]


class DecodedInColumns(NamedTuple):
    """The records that were decoded in columns, by their position among the records that were given."""

    records: Mapping[int, ColumnRecord]
    rows: pa.Table | None


NOTHING = DecodedInColumns({}, None)


def decode_in_columns(
    records: Sequence[Record],
    partition_ids: Mapping[Partition, str],
    rules: Rules,
    *,
    now_ns: int,
    excluded: frozenset[UUID],
) -> DecodedInColumns:
    """Return the records that can be decoded in columns. Those of ``excluded`` projects are left out."""
    bounds = bounds_of(rules.limits, now_ns=now_ns)
    kept = [at for at, record in enumerate(records) if _is_suitable(record, rules)] if is_available() else []
    if sum(len(records[at].value or b"") for at in kept) < BYTES_MIN:
        return NOTHING
    for _ in range(3):  # the first pass leaves records out for their project, the second for their spans
        arrays = read_plain([records[at].value or b"" for at in kept], bounds) if kept else None
        if arrays is None:
            break
        kept = [kept[at] for at in arrays.positions]
        read = _read([records[at] for at in kept], arrays, bounds)
        projects = _projects(read, rules, excluded)
        known = [project for project in projects if project is not None]
        if len(known) < len(projects):
            kept = [position for position, project in zip(kept, projects, strict=True) if project is not None]
            continue
        spans = _divided(read, bounds)
        if not spans.doubtful_records:
            return _decoded(read, known, spans, kept, partition_ids, rules)
        kept = [position for at, position in enumerate(kept) if at not in spans.doubtful_records]
    return NOTHING


def _is_suitable(record: Record, rules: Rules) -> bool:
    limits: SpanLimits = rules.limits
    value = record.value
    if not value or len(value) > min(WHOLE_BYTES_MAX, limits.record_bytes_max, limits.span_bytes_max):
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


class _Spans(NamedTuple):
    """All spans: plain ones by their keys, and the others by their index.

    ``doubtful_records`` are the indexes of records with a span that may have to be rejected.
    """

    key_sets: list[KeySet]
    others: Mapping[int, Span]
    doubtful_records: set[int]


def _read(records: Sequence[Record], arrays: SpanArrays, bounds: Bounds) -> _Read:
    def read(read_one: Callable[..., Any], wrappers: Wrappers, index_of: Numbers) -> dict[int, Any]:
        return read_wrappers(read_one, wrappers, np.unique(index_of).tolist(), bounds)

    return _Read(
        records,
        arrays,
        resources=read(read_resource, arrays.resources, arrays.resource_of),
        scopes=read(read_scope, arrays.scopes, arrays.scope_of),
    )


def _projects(read: _Read, rules: Rules, excluded: frozenset[UUID]) -> list[UUID | None]:
    """Return the project of each record; ``None`` if it has not exactly one, if that is excluded, or if a resource or
    scope is rejected.
    """
    arrays, first_rows = read.arrays, read.first_rows
    rejected = {
        int(arrays.record_of[row])
        for index_of, found in ((arrays.resource_of, read.resources), (arrays.scope_of, read.scopes))
        for row in np.flatnonzero(np.isin(index_of, [index for index, value in found.items() if value is None]))
    }
    projects: list[UUID | None] = []
    for at, record in enumerate(read.records):
        of_record = arrays.resource_of[first_rows[at] : first_rows[at] + arrays.span_counts[at]]
        resources = [found for index in np.unique(of_record).tolist() if (found := read.resources[index]) is not None]
        project = None if at in rejected else project_of_resources(record, rules, resources)
        projects.append(None if project in excluded else project)
    return projects


def _divided(read: _Read, bounds: Bounds) -> _Spans:
    """Divide the spans into plain ones and others, which become values."""
    key_sets, is_plain = _plain(read.arrays)
    indexes = np.flatnonzero(~is_plain)
    if not len(indexes):
        return _Spans(key_sets, {}, set())
    selected = select_spans(read.arrays, indexes, bounds, resources=read.resources, scopes=read.scopes)
    doubtful = read.arrays.record_of[list(selected.refused)].tolist() if selected.refused else []
    return _Spans(key_sets, dict(zip(indexes.tolist(), selected.spans, strict=True)), set(doubtful))


def _decoded(
    read: _Read,
    projects: Sequence[UUID],
    spans: _Spans,
    positions: Sequence[int],
    partition_ids: Mapping[Partition, str],
    rules: Rules,
) -> DecodedInColumns:
    """Return the rows of all records. ``positions`` are theirs in the chunk."""
    arrays = read.arrays
    own = [
        RecordColumns(project.bytes, partition_ids[record.source], record.offset, record.timestamp_ms)
        for project, record in zip(projects, read.records, strict=True)
    ]
    columns = sent_columns(arrays, own, resources=read.resources, scopes=read.scopes, selected=spans.others)
    derived, mapping_errors = _derived(arrays, spans, rules)
    counts = arrays.span_counts.tolist()
    of_records = zip(read.first_rows.tolist(), counts, projects, mapping_errors, strict=True)
    return DecodedInColumns(
        dict(zip(positions, starmap(ColumnRecord, of_records), strict=True)), table_of(columns | derived)
    )


def _derived(arrays: SpanArrays, spans: _Spans, rules: Rules) -> tuple[dict[str, pa.Array], list[Counter[str]]]:
    """Return the derived columns of all spans, and the mapping errors of each record."""
    mapping_errors: list[Counter[str]] = [Counter() for _ in arrays.positions]
    if not spans.others:
        return plain_columns(arrays, spans.key_sets), mapping_errors
    normalized = NormalizedColumns()
    for at, of_record in _by_record(spans.others, arrays):
        normalized_spans = normalize(of_record, rules.prices)
        mapping_errors[at].update(reason for one in normalized_spans for reason in one.mapping_errors)
        normalized.append(normalized_spans)
    columns = normalized.columns()
    if not spans.key_sets:
        return columns, mapping_errors
    places = np.empty(arrays.spans_count, np.int64)
    is_other = np.zeros(len(places), bool)
    is_other[list(spans.others)] = True
    places[is_other] = np.arange(len(spans.others))
    places[~is_other] = np.arange(len(spans.others), len(places))
    order, plain = pa.array(places), plain_columns(arrays, spans.key_sets)
    return {name: pa.concat_arrays([columns[name], plain[name]]).take(order) for name in NORMALIZED}, mapping_errors


def _by_record(selected: Mapping[int, Span], arrays: SpanArrays) -> Iterator[tuple[int, list[Span]]]:
    """Yield the selected spans of each record that has some."""
    spans: dict[int, list[Span]] = {}
    for at, span in zip(arrays.record_of[list(selected)].tolist(), selected.values(), strict=True):
        spans.setdefault(at, []).append(span)
    yield from spans.items()


def _plain(arrays: SpanArrays) -> tuple[list[KeySet], Numbers]:
    """Return the plain spans by their keys, and a flag for each span: whether it is plain."""
    may_be_plain = np.ones(arrays.spans_count, bool)
    for name in ("events", "links"):
        if len(arrays.fields[name].values):
            may_be_plain &= np.diff(offsets_of(arrays.fields[name])) == 0
    key_sets = plain_key_sets(arrays, may_be_plain)
    is_plain = np.zeros(arrays.spans_count, bool)
    for key_set in key_sets:
        is_plain[key_set.spans] = True
    if is_plain.all() or not key_sets:
        return key_sets, is_plain
    is_plain[_influenced(arrays, is_plain)] = False
    kept = [key_set._replace(spans=key_set.spans[is_plain[key_set.spans]]) for key_set in key_sets]
    return [key_set for key_set in kept if len(key_set.spans)], is_plain


def _influenced(arrays: SpanArrays, is_plain: Numbers) -> list[int]:
    """Return the plain spans on which other spans of their record have an influence: those above a span that is not
    plain, which get the sums of its usage, and those of a trace with links, which is an annotation.
    """
    mixed = np.unique(arrays.record_of[~is_plain])
    rows = np.flatnonzero(np.isin(arrays.record_of, mixed))
    records = arrays.record_of[rows].tolist()
    traces = list(zip(records, map(bytes, arrays.ids("trace_id", 16)[rows]), strict=True))
    span_ids, parent_ids = (list(map(bytes, arrays.ids(name, 8)[rows])) for name in ("span_id", "parent_span_id"))
    places = {(trace, span_id): place for place, (trace, span_id) in enumerate(zip(traces, span_ids, strict=True))}
    is_left = (~is_plain[rows]).tolist()
    others = [place for place, left in enumerate(is_left) if left]
    for place in others:  # grows during the loop
        above = places.get((traces[place], parent_ids[place]))
        if above is not None and not is_left[above]:
            is_left[above] = True
            others.append(above)
    has_links = np.diff(offsets_of(arrays.fields["links"]))[rows] > 0
    annotated = {traces[place] for place in np.flatnonzero(has_links).tolist()}
    found: list[int] = rows[[left or trace in annotated for left, trace in zip(is_left, traces, strict=True)]].tolist()
    return found
