"""Spans as columns of the table ``spans``: the only place that knows both a span and the table.

A table is built record by record, column by column: one span costs a few list operations, its JSON texts and its
leaves; everything else is done once for a record. The JSON text of each member is stored as responses contain it, so
that a page is joined without parsing (``query_api/spans/rows.py``). Pure: no I/O, no clock.

To promote another value to a member and a column: a migration with the column, its bit of ``members`` and its index;
a field of ``Span`` and of ``NormalizedSpan`` and a row of ``PROMOTED_TEXTS`` (``common/span.py``); and the OpenAPI
model of promoted members (``query_api/request/json_body.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import orjson
import pyarrow as pa

from common.arrow_views import Numbers, bytes_of, lengths_of, offsets_of, sums_between
from common.clickhouse.leaves import MARK, SpanLeaves, Templates
from common.clickhouse.member_json import (
    attribute_values,
    events_json,
    links_json,
    repaired_json,
    scores_json,
    source_json,
    source_values,
)
from common.clickhouse.score_maps import SCORE_MAPS, ScoreMaps
from common.span import PROMOTED_TEXTS, Metrics, NormalizedSpan, Span
from common.span_version import version_of

SPANS_TABLE: Final = "spans"

NO_PARENT: Final = bytes(16)
"""The ``parent_id`` of a root."""

RESPONSE_FRAME_BYTES: Final = 420
"""The bytes of a response for the members of a span that are not JSON texts: ids, times, enums, names of members."""

_ID: Final = pa.binary(16)


class Member(NamedTuple):
    """A member of responses that spans may lack, stored in the column of its name."""

    kind: pa.DataType
    """The type of the column: text, a number, or bytes that are the JSON text of the member."""

    absent: bytes | int | None
    """The value of the column if the span lacks the member."""


_NULLABLE_TEXT: Final = Member(pa.string(), None)
_COUNT: Final = Member(pa.uint32(), 0)
_JSON: Final = Member(pa.binary(), b"")

OPTIONAL_MEMBERS: Final[Mapping[str, Member]] = {
    "status_message": _NULLABLE_TEXT,
    "session_id": _NULLABLE_TEXT,
    "user_id": _NULLABLE_TEXT,
    "agent_id": _NULLABLE_TEXT,
    "trace_state": Member(pa.string(), b""),
    "flags": _COUNT,
    "dropped_attributes_count": _COUNT,
    "dropped_events_count": _COUNT,
    "dropped_links_count": _COUNT,
    "events": _JSON,
    "links": _JSON,
    "references": _JSON,
    "hashes": _JSON,
    "resource": _JSON,
    "scope": _JSON,
    "repaired": _JSON,
    "scores": _JSON,
    "dropped_scores_count": _COUNT,
} | dict.fromkeys(PROMOTED_TEXTS, _NULLABLE_TEXT)
"""In the order of the bits of the column ``members``, lowest first; the engine sets them (``ddl/0001_baseline.sql``).
Stored rows depend on the order: append only. The union appends promoted texts after the first ones."""

ALL_MEMBERS: Final = 2 ** len(OPTIONAL_MEMBERS) - 1

_DICTIONARIES: Final = frozenset({"resource", "scope", "repaired"})
_KINDS: Final[Mapping[str, pa.DataType]] = {
    "project_id": _ID,
    "span_id": _ID,
    "trace_id": _ID,
    "version": pa.uint64(),
    "span_index": pa.uint32(),
    "record_ms": pa.int64(),
    "parent_id": _ID,
    "name": pa.string(),
    "kind": pa.uint8(),
    "status_code": pa.uint8(),
    "trace_type": pa.string(),
    "span_type": pa.string(),
    **{name: member.kind for name, member in OPTIONAL_MEMBERS.items() if name not in _DICTIONARIES},
}
"""The columns that are kept as lists until a chunk is complete."""

_FLAGS: Final = ("usage_is_own", "cost_is_computed")
"""The fields of ``NormalizedSpan`` that say how usage counts."""

_COLUMNS: Final = (
    *_KINDS,
    *Metrics._fields,
    "partition_id",
    "start_us",
    "start_ns_rest",
    "end_us",
    "end_ns_rest",
    *_FLAGS,
    "resource",
    "scope",
    "repaired",
    "resource_by_key",
    "scope_by_key",
    "attributes_template",
    "attributes_by_key",
    "response_bytes",
    *SCORE_MAPS,
    "leaves",
)
"""The columns of a table in their order, without ``stored_us``."""

_RENDERED: Final = frozenset({"parent_id", "events", "links", "references", "hashes", "scores"})
_FROM_NORMALIZED: Final = tuple(name for name in NormalizedSpan._fields if name in _KINDS and name not in _RENDERED)
_FROM_SPAN: Final = tuple(
    name for name in Span._fields if name in _KINDS and name not in _RENDERED and name not in NormalizedSpan._fields
)
"""The columns that hold fields of a span as they are."""

_DERIVED: Final = (*_FROM_NORMALIZED, "references", "hashes", "scores")
_SENT: Final = tuple(name for name in _KINDS if name not in _DERIVED)

NORMALIZED: Final = (
    *_DERIVED,
    "attributes_template",
    "attributes_by_key",
    *_FLAGS,
    *Metrics._fields,
    *SCORE_MAPS,
    "leaves",
)
"""The columns that ``NormalizedColumns`` fills."""


class SpanColumns:
    """The columns of the spans of a chunk of records that are values, in the order in which they were appended.

    They are Python lists, few enough to become Arrow while they are in the processor's cache: a whole batch at once
    takes three times as long. Not safe to append to from two threads.
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _SENT}
        self._start_ns: list[int] = []
        self._end_ns: list[int] = []
        self._partition_ids = _DictionaryColumn()
        self._resources = _DictionaryColumn()
        self._scopes = _DictionaryColumn()
        self._repaired = _DictionaryColumn()
        self._normalized = NormalizedColumns()

    @property
    def rows_count(self) -> int:
        """How many spans were appended."""
        return len(self._start_ns)

    def append_record(
        self,
        *,
        project_ids: UUID | Sequence[UUID],
        partition_id: str,
        record_offset: int,
        record_ms: int,
        spans: Sequence[Span],
        span_indexes: Sequence[int],
        normalized_spans: Sequence[NormalizedSpan],
    ) -> None:
        """Append the spans of one record; ``spans``, ``span_indexes`` and ``normalized_spans`` are parallel.

        ``project_ids`` is one for all spans or one for each. ``partition_id`` and ``record_offset`` decide which
        version of a span is the latest (``RecordSource.partition_id_of``), ``record_ms`` decides between partitions.
        """
        if not spans:
            return
        count, columns = len(spans), self._columns
        projects = repeat(project_ids, count) if isinstance(project_ids, UUID) else project_ids
        columns["project_id"].extend(project_id.bytes for project_id in projects)
        ended, running = version_of(record_offset), version_of(record_offset, is_running=True)
        columns["version"].extend(running if span.is_running else ended for span in spans)
        columns["record_ms"].extend(repeat(record_ms, count))
        columns["span_index"].extend(span_indexes)
        self._partition_ids.extend(repeat(partition_id, count), str.encode)
        self._append_spans(spans)
        self._normalized.append(normalized_spans)

    def _append_spans(self, spans: Sequence[Span]) -> None:
        columns = self._columns
        fields: dict[str, tuple[Any, ...]] = dict(zip(Span._fields, zip(*spans, strict=True), strict=True))
        for name in _FROM_SPAN:
            columns[name].extend(fields[name])
        self._start_ns.extend(fields["start_ns"])
        self._end_ns.extend(fields["end_ns"])
        columns["parent_id"].extend(parent_id or NO_PARENT for parent_id in fields["parent_id"])
        columns["events"].extend(map(events_json, fields["events"]))
        columns["links"].extend(map(links_json, fields["links"]))
        self._resources.extend(fields["resource"], source_json)
        self._scopes.extend(fields["scope"], source_json)
        self._repaired.extend(fields["repaired"], repaired_json)

    def rows(self) -> pa.Table:
        """Return all rows without ``stored_us``; ``stamped`` completes them."""
        columns = {name: pa.array(values, _KINDS[name]) for name, values in self._columns.items()}
        columns |= time_columns(np.array(self._start_ns, np.int64), np.array(self._end_ns, np.int64))
        columns |= {
            "partition_id": self._partition_ids.array(),
            "resource": self._resources.array(),
            "scope": self._scopes.array(),
            "repaired": self._repaired.array(),
        }
        return table_of(columns | self._normalized.columns())


class NormalizedColumns:
    """The columns that say what was derived from spans (``NORMALIZED``), while they are still Python lists."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _DERIVED}
        self._flags: dict[str, list[bool]] = {name: [] for name in _FLAGS}
        self._metrics: list[Metrics] = []
        self._templates = _DictionaryColumn()
        self._by_key: list[bytes] = []
        self._scores = ScoreMaps()
        self._leaf_offsets: list[int] = [0]
        self._leaf_paths: list[str] = []
        self._leaf_texts: list[str] = []

    def append(self, spans: Sequence[NormalizedSpan]) -> None:
        """Append at least one span."""
        columns = self._columns
        fields: dict[str, tuple[Any, ...]] = dict(zip(NormalizedSpan._fields, zip(*spans, strict=True), strict=True))
        for name in _FROM_NORMALIZED:
            columns[name].extend(fields[name])
        for name in ("references", "hashes"):
            columns[name].extend(b"" if value is None else orjson.dumps(value) for value in fields[name])
        columns["scores"].extend(map(scores_json, fields["scores"]))
        self._scores.extend(fields["scores"])
        for name, flags in self._flags.items():
            flags.extend(fields[name])
        self._metrics.extend(fields["metrics"])
        self._templates.extend(map(self._append_attributes, spans), bytes)

    def _append_attributes(self, span: NormalizedSpan) -> bytes:
        """Append the leaves of the attributes of a span; return their template."""
        leaves, flat = SpanLeaves(), span.flat
        if flat is not None and leaves.append_flat(flat):
            flat_keys = tuple(flat)
            leaves.append_ag(span.ag)
        else:
            flat_keys = None
            leaves.append(span.attributes)
        template = _templates.of(lambda: span.attributes, leaves, flat_keys)
        has_dots = template.stored_paths is not None
        self._by_key.append(attribute_values(span.attributes) if has_dots else b"")
        self._leaf_paths.extend(template.stored_paths or leaves.paths)
        self._leaf_texts.extend(leaves.texts)
        self._leaf_offsets.append(len(self._leaf_paths))
        return template.text

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns by name."""
        columns: dict[str, pa.Array] = {name: pa.array(values, _KINDS[name]) for name, values in self._columns.items()}
        columns["attributes_template"] = self._templates.array()
        columns["attributes_by_key"] = pa.array(self._by_key, pa.binary())
        columns |= {name: pa.array(np.array(flags, np.uint8)) for name, flags in self._flags.items()}
        leaf_paths, leaf_texts = pa.array(self._leaf_paths, pa.string()), pa.array(self._leaf_texts, pa.string())
        columns["leaves"] = pa.MapArray.from_arrays(pa.array(self._leaf_offsets, pa.int32()), leaf_paths, leaf_texts)
        return columns | self._scores.columns() | _metric_columns(self._metrics)


_NOTHING: Final = object()


class _DictionaryColumn:
    """A column of few distinct values: each is rendered once for a chunk, rows hold its index."""

    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._index_of_text: dict[bytes, int] = {}

    def extend(self, values: Iterable[Any], render: Callable[[Any], bytes]) -> None:
        """Append one row for each value; equal neighbors that are the same object are rendered once."""
        last: object = _NOTHING
        index = 0
        for value in values:
            if value is not last:
                last = value
                index = self._index_of_text.setdefault(render(value), len(self._index_of_text))
            self._indexes.append(index)

    def array(self) -> pa.DictionaryArray:
        """Return the column, dictionary-encoded like the engine's ``LowCardinality``."""
        texts = pa.array(list(self._index_of_text), pa.binary())
        return pa.DictionaryArray.from_arrays(pa.array(self._indexes, pa.int32()), texts)


def time_columns(start_ns: Numbers, end_ns: Numbers) -> dict[str, pa.Array]:
    """Return the columns of the times of spans, given in nanoseconds as ``int64``."""
    start_us, end_us = start_ns // 1000, end_ns // 1000
    return {
        "start_us": pa.array(start_us),
        "start_ns_rest": pa.array((start_ns - start_us * 1000).astype(np.uint16)),
        "end_us": pa.array(end_us),
        "end_ns_rest": pa.array((end_ns - end_us * 1000).astype(np.uint16)),
    }


def table_of(columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return the rows of these columns, with those that follow from the others."""
    lengths = _attributes_bytes(columns["attributes_template"], columns["leaves"])
    lengths += sum(lengths_of(columns[name]) for name in ("events", "links", "scores"))
    response_bytes = pa.array(lengths + RESPONSE_FRAME_BYTES, pa.uint32())
    followed = {f"{name}_by_key": _values_by_key(columns[name]) for name in ("resource", "scope")}
    complete = {**columns, **followed, "response_bytes": response_bytes}
    return pa.table({name: complete[name] for name in _COLUMNS})


_ESCAPED: Final = np.frombuffer(
    bytes(len(orjson.dumps(chr(byte))) - 3 if byte < 0x80 else 0 for byte in range(256)), np.uint8
)
"""By byte: how many more the escape of a character takes in JSON."""

_AROUND: Final = np.zeros(256, np.int64)
"""By the first byte of a leaf: how many more bytes its value takes in JSON than its typed text."""

_AROUND[list(b"snboa")] = [len('""') - len("s"), -len("n"), len("true") - len("b1"), -len("o"), -len("a")]


def _attributes_bytes(templates: pa.DictionaryArray, leaves: pa.MapArray) -> Numbers:
    """Return the sizes of the JSON texts of attributes: those of their templates and of the scalars in these."""
    texts, offsets, of_rows = leaves.items, offsets_of(leaves.items), offsets_of(leaves)
    content = bytes_of(texts)
    firsts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    kinds = content[firsts] if len(texts) else content
    around = _AROUND[kinds]
    booleans = np.flatnonzero(kinds == ord("b"))
    around[booleans[content[ends[booleans] - 1] == ord("0")]] += len("false") - len("true")
    templates_sizes = np.array([len(text) - text.count(MARK) for text in templates.dictionary.to_pylist()], np.int64)
    lengths: Numbers = templates_sizes[templates.indices.to_numpy()] + sums_between(around, of_rows)
    lengths += np.diff(offsets[of_rows]) + _escapes_bytes(content, offsets[of_rows] - offsets[0])
    return lengths


def _escapes_bytes(content: Numbers, offsets: Numbers) -> Numbers:
    """Return how many more bytes JSON takes between each two offsets, because it escapes characters."""
    escaped = np.flatnonzero((content < ord(" ")) | (content == ord('"')) | (content == ord("\\")))
    return sums_between(_ESCAPED[content[escaped]], np.searchsorted(escaped, offsets))


def _values_by_key(sources: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return what ``source_values`` says of each resource or scope."""
    numbers: dict[bytes, int] = {}
    number_of = [numbers.setdefault(source_values(text), len(numbers)) for text in sources.dictionary.to_pylist()]
    indexes = np.array(number_of, np.int32)[sources.indices.to_numpy()]
    return pa.DictionaryArray.from_arrays(pa.array(indexes), pa.array(list(numbers), pa.binary()))


def stamped(rows: pa.Table, *, stored_us: int) -> pa.Table:
    """Return rows of spans or of events, one table or several concatenated, in one piece and with the time at which
    they are stored.
    """
    whole = rows.unify_dictionaries().combine_chunks()
    times = pa.py_buffer(np.full(whole.num_rows, stored_us, np.int64))
    # From the buffer: given values, Arrow would check whether they are a pandas object, and import pandas for that
    # (`warm_up`).
    return whole.append_column("stored_us", pa.Array.from_buffers(pa.int64(), whole.num_rows, [None, times]))


def warm_up() -> None:
    """Import what the first table would import, so that the first chunk does not wait a second for it.

    Arrow checks whether a list is a pandas object, and imports pandas for that.
    """
    stamped(SpanColumns().rows(), stored_us=0)


_templates: Final = Templates()


def _metric_columns(metrics: Sequence[Metrics]) -> dict[str, pa.Array]:
    width = len(Metrics._fields)
    matrix = np.fromiter(chain.from_iterable(metrics), np.float64, width * len(metrics)).reshape(-1, width)
    return {name: pa.array(np.ascontiguousarray(matrix[:, index])) for index, name in enumerate(Metrics._fields)}
