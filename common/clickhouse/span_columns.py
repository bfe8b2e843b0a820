"""Spans as columns of the table ``spans``: the only place that knows both a span and the table.

A table is built record by record, column by column; one span costs a few list operations, its JSON texts and its
leaves, everything else is done a record at a time. What answers show is stored as the JSON text of each member, so
that a page is put together without parsing (``query_api/spans/render.py``). Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final
from uuid import UUID

import numpy as np
import orjson
import pyarrow as pa

from common.clickhouse.leaves import append_ag_leaves, append_flat_leaves, append_leaves
from common.ids import span_id_hex, trace_id_hex
from common.span import NO_METRICS, Attributes, Event, Link, Metrics, NormalizedSpan, Resource, Scope, Span
from common.times import format_us

SPANS_TABLE: Final = "spans"
VERSIONS_TABLE: Final = "span_versions"

NO_PARENT: Final = bytes(16)
"""What ``parent_id`` holds for a root."""

ANSWER_FRAME_BYTES: Final = 420
"""What the members that are not JSON texts add to an answer: ids, times, enums, names of members."""

OPTIONAL_MEMBERS: Final = (
    "status_message",
    "session_id",
    "user_id",
    "agent_id",
    "trace_state",
    "flags",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    "events",
    "links",
    "references",
    "hashes",
    "resource",
    "scope",
)
"""Members of an answer that a span may lack, columns of their names. The bits of the column ``members``, lowest first, say which a row
has; the engine sets them (``ddl/0001_spans.sql``)."""

ALL_MEMBERS: Final = 2 ** len(OPTIONAL_MEMBERS) - 1

CHUNK_ROWS: Final = 2_000
CHUNK_BYTES: Final = 4 * 1024 * 1024

_ID = pa.binary(16)


class SpanColumns:
    """The columns of one chunk of records, in the order in which spans were appended.

    Not safe to append to from two threads; ``rows`` and ``table`` may be called once all is appended.
    """

    def __init__(self) -> None:
        self._chunks: list[pa.Table] = []
        self._open = _Chunk()

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
        """Append the spans of one record; ``spans``, ``span_indexes`` and ``normalized_spans`` go in parallel.

        ``project_ids`` is one for all of them or one each. ``partition_id`` and ``record_offset`` decide which version of a span is
        the latest (``RecordSource.partition_id_of``), ``record_ms`` decides between logs.
        """
        if not spans:
            return
        count = len(spans)
        projects = (
            repeat(project_ids.bytes, count) if isinstance(project_ids, UUID) else (each.bytes for each in project_ids)
        )
        self._open.append(projects, partition_id, record_offset, record_ms, spans, span_indexes, normalized_spans)
        if self._open.rows_count >= CHUNK_ROWS or self._open.bytes_count >= CHUNK_BYTES:
            self._seal()

    def rows(self) -> pa.Table:
        """All rows but for ``stored_us``, in as many chunks as they were made in; see ``stamped``."""
        if self._open.rows_count or not self._chunks:
            self._seal()
        return pa.concat_tables(self._chunks)

    def table(self, *, stored_us: int) -> pa.Table:
        """All rows as Arrow columns, named and typed as the table ``spans`` has them; ``stored_us`` is one for all."""
        return stamped(self.rows(), stored_us=stored_us)

    def _seal(self) -> None:
        self._chunks.append(self._open.table())
        self._open = _Chunk()


class _Chunk:
    """Rows that are still Python lists. Few enough that they become Arrow while the processor still has them at hand:
    a whole chunk at once costs three times as much, and keeps a hundred times the objects alive."""

    def __init__(self) -> None:
        self.bytes_count = 0
        self._projects: list[bytes] = []
        self._partition_ids = _Dictionary()
        self._record_offsets: list[int] = []
        self._record_ms: list[int] = []
        self._span_indexes: list[int] = []
        self._sent: dict[str, list[Any]] = {column: [] for column in _SENT_COLUMNS}
        self._derived: dict[str, list[Any]] = {column: [] for column in _DERIVED_COLUMNS}
        self._metrics: list[Metrics] = []
        self._resources = _Dictionary()
        self._scopes = _Dictionary()
        self._leaf_offsets: list[int] = [0]
        self._leaf_paths: list[str] = []
        self._leaf_texts: list[str] = []

    @property
    def rows_count(self) -> int:
        return len(self._projects)

    def append(
        self,
        projects: Iterable[bytes],
        partition_id: str,
        record_offset: int,
        record_ms: int,
        spans: Sequence[Span],
        span_indexes: Sequence[int],
        normalized_spans: Sequence[NormalizedSpan],
    ) -> None:
        count = len(spans)
        self._projects.extend(projects)
        self._partition_ids.extend(repeat(partition_id, count), _utf8)
        self._record_offsets.extend(repeat(record_offset, count))
        self._record_ms.extend(repeat(record_ms, count))
        self._span_indexes.extend(span_indexes)
        self._append_sent(spans)
        self._append_derived(normalized_spans)

    def _append_sent(self, spans: Sequence[Span]) -> None:
        fields: dict[str, tuple[Any, ...]] = dict(zip(Span._fields, zip(*spans, strict=True), strict=True))
        for column in _SENT_AS_IS:
            self._sent[column].extend(fields[column])
        self._sent["parent_id"].extend(parent or NO_PARENT for parent in fields["parent_id"])
        events = [_events_json(each) if each else b"" for each in fields["events"]]
        links = [b"" if each is None else _links_json(each) for each in fields["links"]]
        self._sent["events"].extend(events)
        self._sent["links"].extend(links)
        self._resources.extend(fields["resource"], _resource_json)
        self._scopes.extend(fields["scope"], _scope_json)
        self._sent["payload_bytes"].extend(len(event) + len(link) for event, link in zip(events, links, strict=True))

    def _append_derived(self, normalized_spans: Sequence[NormalizedSpan]) -> None:
        fields: dict[str, tuple[Any, ...]] = dict(
            zip(NormalizedSpan._fields, zip(*normalized_spans, strict=True), strict=True)
        )
        for column in _DERIVED_AS_IS:
            self._derived[column].extend(fields[column])
        for column in ("references", "hashes"):
            self._derived[column].extend(b"" if each is None else orjson.dumps(each) for each in fields[column])
        attributes = [self._appended(*each) for each in zip(fields["attributes"], fields["flat"], strict=True)]
        self._derived["attributes"].extend(attributes)
        self.bytes_count += 2 * sum(map(len, attributes)) + sum(self._sent["payload_bytes"][-len(normalized_spans) :])
        self.bytes_count += len(normalized_spans) * ANSWER_FRAME_BYTES
        self._metrics.extend(fields["metrics"])

    def _appended(self, nested: Attributes, flat: Attributes | None) -> bytes:
        """The JSON text of attributes whose leaves are appended: both at once, while the processor has them at hand."""
        paths, texts = self._leaf_paths, self._leaf_texts
        if flat is None or not append_flat_leaves(flat, paths, texts):
            append_leaves({name: member for name, member in nested.items() if name != "ag"}, paths, texts)
        append_ag_leaves(nested["ag"], paths, texts)
        self._leaf_offsets.append(len(paths))
        return orjson.dumps(nested)

    def table(self) -> pa.Table:
        """The rows, all columns but ``stored_us``."""
        start_us, start_rest = _split_ns(self._sent["start_ns"])
        end_us, end_rest = _split_ns(self._sent["end_ns"])
        payload = np.array(self._sent["payload_bytes"], np.int64)
        lengths = np.fromiter(map(len, self._derived["attributes"]), np.int64, self.rows_count)
        columns: dict[str, pa.Array] = {
            "project_id": pa.array(self._projects, _ID),
            "start_us": pa.array(start_us),
            "span_id": pa.array(self._sent["span_id"], _ID),
            "trace_id": pa.array(self._sent["trace_id"], _ID),
            "partition_id": self._partition_ids.array(),
            "record_offset": pa.array(self._record_offsets, pa.uint64()),
            "span_index": pa.array(self._span_indexes, pa.uint32()),
            "record_ms": pa.array(self._record_ms, pa.int64()),
            "parent_id": pa.array(self._sent["parent_id"], _ID),
            "end_us": pa.array(end_us),
            "start_ns_rest": pa.array(start_rest),
            "end_ns_rest": pa.array(end_rest),
        }
        columns |= {column: pa.array(self._sent[column], kind) for column, kind in _SENT_TYPES.items()}
        columns |= {column: pa.array(self._derived[column], kind) for column, kind in _DERIVED_TYPES.items()}
        columns |= _metric_columns(self._metrics)
        columns["usage_is_own"] = pa.array(np.array(self._derived["usage_is_own"], np.uint8))
        columns |= {
            "resource": self._resources.array(),
            "scope": self._scopes.array(),
            "answer_bytes": pa.array(payload + lengths + ANSWER_FRAME_BYTES, pa.uint32()),
            "leaves": pa.MapArray.from_arrays(
                pa.array(self._leaf_offsets, pa.int32()),
                pa.array(self._leaf_paths, pa.string()),
                pa.array(self._leaf_texts, pa.string()),
            ),
        }
        return pa.table(columns)


def stamped(rows: pa.Table, *, stored_us: int) -> pa.Table:
    """What ``SpanColumns.rows`` gave, or several of them in a row, in one piece and with the moment at which they are stored."""
    whole = rows.unify_dictionaries().combine_chunks()
    moments = pa.py_buffer(np.full(whole.num_rows, stored_us, np.int64))
    # Of the buffer, not of the values: of those Arrow asks whether they are pandas', and loads it to know (`warm_up`).
    return whole.append_column("stored_us", pa.Array.from_buffers(pa.int64(), whole.num_rows, [None, moments]))


def warm_up() -> None:
    """Load what the first table would load, so that the first chunk does not wait a second for it.

    Arrow asks of each list whether it is a pandas one, and imports pandas to know.
    """
    SpanColumns().table(stored_us=0)


class _Dictionary:
    """A column of few distinct values: each is rendered once a chunk, rows hold its index."""

    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._index_of_text: dict[bytes, int] = {}

    def extend(self, values: Iterable[Any], render: Callable[[Any], bytes]) -> None:
        """Append a row each; neighbours that are the same object are rendered once."""
        last: object = _NOTHING
        index = 0
        for value in values:
            if value is not last:
                last = value
                index = self._index_of_text.setdefault(render(value), len(self._index_of_text))
            self._indexes.append(index)

    def array(self) -> pa.DictionaryArray:
        """The column, dictionary-encoded as the engine's ``LowCardinality`` is."""
        texts = pa.array(list(self._index_of_text), pa.binary())
        return pa.DictionaryArray.from_arrays(pa.array(self._indexes, pa.int32()), texts)


_NOTHING: Final = object()


def _utf8(text: str) -> bytes:
    return text.encode()


def _split_ns(times_ns: Sequence[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    whole = np.array(times_ns, np.int64)
    us = whole // 1000
    return us, (whole - us * 1000).astype(np.uint16)


def _metric_columns(metrics: Sequence[Metrics]) -> dict[str, pa.Array]:
    matrix = np.zeros((len(metrics), len(Metrics._fields)))
    for row, each in enumerate(metrics):
        if each is not NO_METRICS:  # most spans used nothing
            matrix[row] = each
    return {name: pa.array(np.ascontiguousarray(matrix[:, index])) for index, name in enumerate(Metrics._fields)}


def _events_json(events: Sequence[Event]) -> bytes:
    return orjson.dumps([_event(event) for event in events])


def _event(event: Event) -> dict[str, Any]:
    return {
        "name": event.name,
        "timestamp": format_us(event.time_ns // 1000),
        "time_unix_nano": str(event.time_ns),
        **_present(attributes=event.attributes, dropped_attributes_count=event.dropped_attributes_count),
    }


def _links_json(links: Sequence[Link]) -> bytes:
    return orjson.dumps([_link(link) for link in links])


def _link(link: Link) -> dict[str, Any]:
    return {
        "trace_id": trace_id_hex(link.trace_id),
        "span_id": span_id_hex(link.span_id),
        **_present(
            attributes=link.attributes,
            trace_state=link.trace_state,
            flags=link.flags,
            dropped_attributes_count=link.dropped_attributes_count,
        ),
    }


def _resource_json(resource: Resource) -> bytes:
    return _json_or_absent(_present(**resource._asdict()))


def _scope_json(scope: Scope) -> bytes:
    return _json_or_absent(_present(**scope._asdict()))


def _present(**members: Any) -> dict[str, Any]:
    """The members that say something: what is empty or zero is absent from answers."""
    return {name: member for name, member in members.items() if member}


def _json_or_absent(shown: dict[str, Any]) -> bytes:
    return orjson.dumps(shown) if shown else b""


_SENT_TYPES: Final = {
    "name": pa.string(),
    "kind": pa.uint8(),
    "status_code": pa.uint8(),
    "status_message": pa.string(),
    "trace_state": pa.string(),
    "flags": pa.uint32(),
    "dropped_attributes_count": pa.uint32(),
    "dropped_events_count": pa.uint32(),
    "dropped_links_count": pa.uint32(),
    "events": pa.binary(),
    "links": pa.binary(),
}
_DERIVED_TYPES: Final = {
    "trace_type": pa.string(),
    "span_type": pa.string(),
    "session_id": pa.string(),
    "user_id": pa.string(),
    "agent_id": pa.string(),
    "attributes": pa.binary(),
    "references": pa.binary(),
    "hashes": pa.binary(),
}
_SENT_COLUMNS: Final = (*_SENT_TYPES, "trace_id", "span_id", "parent_id", "start_ns", "end_ns", "payload_bytes")
_SENT_AS_IS: Final = tuple(
    column for column in _SENT_COLUMNS if column not in {"parent_id", "events", "links", "payload_bytes"}
)
_DERIVED_COLUMNS: Final = (*_DERIVED_TYPES, "usage_is_own")
_DERIVED_AS_IS: Final = ("trace_type", "span_type", "session_id", "user_id", "agent_id", "usage_is_own")
