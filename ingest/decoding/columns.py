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
    positions = [at for at, record in enumerate(records) if _is_suitable(record, rules)] if is_available() else []
    if sum(len(records[at].value or b"") for at in positions) < BYTES_MIN:
        return NOTHING
    for _ in range(3):  # what is left out is found in two steps
        if not positions:
            break
        arrays = read_plain([records[at].value or b"" for at in positions], bounds)
        if arrays is None:
            break
        decoding = _Decoding(arrays, [records[positions[at]] for at in arrays.positions], rules, bounds)
        left_out = decoding.left_out_by_project(excluded) or decoding.left_out_by_spans()
        positions = [positions[at] for at in arrays.positions]
        if not left_out:
            return decoding.decoded(positions, partition_ids)
        positions = [position for at, position in enumerate(positions) if at not in left_out]
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


class _Decoding:
    """The steps of decoding records in columns."""

    def __init__(self, arrays: SpanArrays, records: Sequence[Record], rules: Rules, bounds: Bounds) -> None:
        self._arrays = arrays
        self._records = records
        self._rules = rules
        self._bounds = bounds
        self._first_rows = np.cumsum(arrays.span_counts) - arrays.span_counts
        self._resources = self._read(read_resource, arrays.resources, arrays.resource_of)
        self._scopes = self._read(read_scope, arrays.scopes, arrays.scope_of)
        self._projects: list[UUID] = []
        self._key_sets: list[KeySet] = []
        self._selected: dict[int, Span] = {}

    def _read(self, read: Callable[..., Any], wrappers: Wrappers, index_of: Numbers) -> dict[int, Any]:
        return read_wrappers(read, wrappers, np.unique(index_of).tolist(), self._bounds)

    def left_out_by_project(self, excluded: frozenset[UUID]) -> set[int]:
        """Return the records without exactly one project, or with a resource or scope that is rejected."""
        arrays = self._arrays
        left_out = {
            int(arrays.record_of[row])
            for index_of, found in ((arrays.resource_of, self._resources), (arrays.scope_of, self._scopes))
            for row in np.flatnonzero(np.isin(index_of, [index for index, value in found.items() if value is None]))
        }
        for at, record in enumerate(self._records):
            first = self._first_rows[at]
            used = np.unique(arrays.resource_of[first : first + arrays.span_counts[at]]).tolist()
            resources = [resource for index in used if (resource := self._resources[index]) is not None]
            project = project_of_resources(record, self._rules, resources)
            if project is None or project in excluded:
                left_out.add(at)
            else:
                self._projects.append(project)
        return left_out

    def left_out_by_spans(self) -> set[int]:
        """Select the spans that are not plain; return the records of those that may have to be rejected."""
        arrays = self._arrays
        self._key_sets, is_plain = _plain(arrays)
        indexes = np.flatnonzero(~is_plain)
        if not len(indexes):
            return set()
        selected = select_spans(arrays, indexes, self._bounds, resources=self._resources, scopes=self._scopes)
        self._selected = dict(zip(indexes.tolist(), selected.spans, strict=True))
        return set(arrays.record_of[list(selected.refused)].tolist()) if selected.refused else set()

    def decoded(self, positions: Sequence[int], partition_ids: Mapping[Partition, str]) -> DecodedInColumns:
        """Return the rows of all records. ``positions`` are theirs in the chunk."""
        arrays = self._arrays
        own = [
            RecordColumns(project.bytes, partition_ids[record.source], record.offset, record.timestamp_ms)
            for project, record in zip(self._projects, self._records, strict=True)
        ]
        columns = sent_columns(arrays, own, resources=self._resources, scopes=self._scopes, selected=self._selected)
        derived, mapping_errors = self._derived()
        return DecodedInColumns(
            {
                position: ColumnRecord(first, count, project, errors)
                for position, first, count, project, errors in zip(
                    positions,
                    self._first_rows.tolist(),
                    arrays.span_counts.tolist(),
                    self._projects,
                    mapping_errors,
                    strict=True,
                )
            },
            table_of(columns | derived),
        )

    def _derived(self) -> tuple[dict[str, pa.Array], list[Counter[str]]]:
        """Return the derived columns of all spans, and the mapping errors of each record."""
        mapping_errors: list[Counter[str]] = [Counter() for _ in self._records]
        if not self._selected:
            return plain_columns(self._arrays, self._key_sets), mapping_errors
        normalized = NormalizedColumns()
        for at, spans in _by_record(self._selected, self._arrays):
            normalized_spans = normalize(spans, self._rules.prices)
            mapping_errors[at].update(reason for one in normalized_spans for reason in one.mapping_errors)
            normalized.append(normalized_spans)
        columns = normalized.columns()
        if not self._key_sets:
            return columns, mapping_errors
        places = np.empty(self._arrays.spans_count, np.int64)
        is_selected = np.zeros(len(places), bool)
        is_selected[list(self._selected)] = True
        places[is_selected] = np.arange(len(self._selected))
        places[~is_selected] = np.arange(len(self._selected), len(places))
        order, plain = pa.array(places), plain_columns(self._arrays, self._key_sets)
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
