"""The columns of the table ``spans`` that say what was sent, of spans that were read in columns
(``common/codec/otlp_columns.py``). The derived columns are made elsewhere. Such spans need no repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.arrow_views import Numbers, ranges, without_nulls
from common.clickhouse.member_json import events_json, links_json, source_json
from common.clickhouse.span_columns import time_columns
from common.codec.otlp_arrays import SpanArrays
from common.span import Resource, Scope, Span


class RecordColumns(NamedTuple):
    """What the rows of one record have in common."""

    project_id: bytes
    partition_id: str
    record_offset: int
    record_ms: int


def sent_columns(
    arrays: SpanArrays,
    records: Sequence[RecordColumns],
    *,
    resources: Mapping[int, Resource],
    scopes: Mapping[int, Scope],
    selected: Mapping[int, Span],
) -> dict[str, pa.Array]:
    """Return the columns of all spans. ``records`` are those of ``arrays``, ``resources`` and ``scopes`` are by index.

    ``selected`` are, by index, at least the spans with events or links.
    """
    fields, counts = arrays.fields, arrays.span_counts
    span_ids, parent_ids = arrays.ids("span_id", 8), arrays.ids("parent_span_id", 8)
    start_ns, end_ns = (arrays.numbers(f"{name}_time_unix_nano", np.int64) for name in ("start", "end"))
    messages = without_nulls(fields["status"].field("message"))
    starts = np.zeros(len(counts), np.int64)
    return {
        "project_id": _ids(_spread(b"".join(record.project_id for record in records), counts)),
        "span_id": _ids(np.concatenate([span_ids, span_ids], axis=1)),
        "trace_id": _ids(arrays.ids("trace_id", 16)),
        "parent_id": _ids(np.concatenate([parent_ids, parent_ids], axis=1)),
        "partition_id": _dictionary([record.partition_id.encode() for record in records], counts),
        "record_offset": _repeated([record.record_offset for record in records], np.uint64, counts),
        "record_ms": _repeated([record.record_ms for record in records], np.int64, counts),
        "span_index": pa.array(ranges(starts, counts).astype(np.uint32)),
        "name": without_nulls(fields["name"]),
        "kind": pa.array(arrays.numbers("kind", np.int32).astype(np.uint8)),
        "status_code": pa.array(arrays.status_codes.astype(np.uint8)),
        "status_message": pc.if_else(pc.equal(messages, ""), pa.scalar(None, pa.string()), messages),
        "trace_state": without_nulls(fields["trace_state"]),
        **{
            name: pa.array(arrays.numbers(name, np.uint32))
            for name in ("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count")
        },
        **time_columns(start_ns, end_ns),
        "events": _parts(fields["events"], {at: events_json(span.events) for at, span in selected.items()}),
        "links": _parts(fields["links"], {at: links_json(span.links) for at, span in selected.items()}),
        "resource": _sources(arrays.resource_of, resources),
        "scope": _sources(arrays.scope_of, scopes),
        "repaired": _dictionary([b""], np.array([arrays.spans_count])),
    }


def _ids(matrix: Numbers) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(16), len(matrix), [None, pa.py_buffer(np.ascontiguousarray(matrix))])


def _spread(ids: bytes, counts: Numbers) -> Numbers:
    return np.repeat(np.frombuffer(ids, np.uint8).reshape(-1, 16), counts, axis=0)


def _repeated(values: Sequence[int], kind: Any, counts: Numbers) -> pa.Array:
    return pa.array(np.repeat(np.array(values, kind), counts))


def _dictionary(texts: Sequence[bytes], counts: Numbers) -> pa.Array:
    distinct = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    indexes = np.repeat(np.array([distinct[text] for text in texts], np.int32), counts)
    return pa.DictionaryArray.from_arrays(pa.array(indexes), pa.array(list(distinct), pa.binary()))


def _parts(array: pa.Array, texts: Mapping[int, bytes]) -> pa.Array:
    """Return the JSON texts of events or links."""
    if not len(array.values):
        return pa.repeat(pa.scalar(b""), len(array))
    return pa.array([texts.get(index, b"") for index in range(len(array))], pa.binary())


def _sources(index_of: Numbers, sources: Mapping[int, Resource | Scope]) -> pa.Array:
    """Return the JSON texts of resources or scopes, each rendered once."""
    texts = {index: source_json(source) for index, source in sources.items()}
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
    numbers = np.zeros(int(index_of.max()) + 1, np.int32)
    for index, text in texts.items():
        numbers[index] = distinct[text]
    return pa.DictionaryArray.from_arrays(pa.array(numbers[index_of]), pa.array(list(distinct), pa.binary()))
