"""Rows for the table ``spans`` with a value in every column, some with texts that break careless quoting."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from common.ids import DEFAULT_PROJECT_ID
from common.span import PROMOTED_TEXTS
from common.span_version import version_of

HOSTILE: Final = 'it\'s "quoted" \\ back\\n tab\t line\nnul\0 {x:String} %(x)s %s ; -- é 😀'
NOT_UTF8: Final = b"\xff\xfe\0\x80"

_ID = pa.binary(16)
_TEXT = pa.binary()
_WORD = pa.dictionary(pa.int32(), pa.binary())
_TYPES: Final[dict[str, pa.DataType]] = {
    "project_id": _ID,
    "start_us": pa.int64(),
    "span_id": _ID,
    "trace_id": _ID,
    "partition_id": _WORD,
    "version": pa.uint64(),
    "span_index": pa.uint32(),
    "record_ms": pa.int64(),
    "stored_us": pa.int64(),
    "arrival_partition_id": _WORD,
    "arrival_offset": pa.uint64(),
    "parent_id": _ID,
    "end_us": pa.int64(),
    "start_ns_rest": pa.uint16(),
    "end_ns_rest": pa.uint16(),
    "name": _WORD,
    "kind": pa.uint8(),
    "status_code": pa.uint8(),
    "status_message": _TEXT,
    "trace_type": _WORD,
    "span_type": _WORD,
    **dict.fromkeys(PROMOTED_TEXTS, _TEXT),
    "trace_state": _TEXT,
    "flags": pa.uint32(),
    "dropped_attributes_count": pa.uint32(),
    "dropped_events_count": pa.uint32(),
    "dropped_links_count": pa.uint32(),
    "dropped_scores_count": pa.uint32(),
    "tokens_prompt": pa.float64(),
    "tokens_completion": pa.float64(),
    "tokens_total": pa.float64(),
    "costs_prompt": pa.float64(),
    "costs_completion": pa.float64(),
    "costs_total": pa.float64(),
    "errors": pa.float64(),
    "usage_is_own": pa.uint8(),
    "cost_is_computed": pa.uint8(),
    "attributes_template": _WORD,
    "attributes_by_key": _TEXT,
    "resource_by_key": _WORD,
    "scope_by_key": _WORD,
    "events": _TEXT,
    "links": _TEXT,
    "references": _TEXT,
    "hashes": _TEXT,
    "resource": _WORD,
    "scope": _WORD,
    "repaired": _WORD,
    "scores": _TEXT,
    "response_bytes": pa.uint32(),
    "score_values": pa.map_(pa.binary(), pa.binary()),
    "score_labels": pa.map_(pa.binary(), pa.binary()),
    "leaves": pa.map_(pa.binary(), pa.binary()),
}


def span_row(number: int, **changed: Any) -> dict[str, Any]:
    """The columns of one row; ``number`` makes its key."""
    row = {name: _plain_value(kind) for name, kind in _TYPES.items()}
    row |= {
        "project_id": DEFAULT_PROJECT_ID.bytes,
        "start_us": 1_760_000_000_000_000 + number,
        "span_id": number.to_bytes(8, "big") * 2,
        "trace_id": number.to_bytes(16, "big"),
        "version": version_of(2**44 + number),
        "arrival_partition_id": b"",
        "arrival_offset": 0,
        "record_ms": -1,
    }
    return row | changed


def span_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as columns, with the types that the table has."""
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in _TYPES.items()})


def _plain_value(kind: pa.DataType) -> object:
    if pa.types.is_floating(kind):
        return 0.1
    if pa.types.is_map(kind):
        return [(HOSTILE.encode(), b"s" + HOSTILE.encode()), (b"b", NOT_UTF8)]
    if pa.types.is_fixed_size_binary(kind):
        return bytes(range(16))
    if pa.types.is_binary(kind) or pa.types.is_dictionary(kind):
        return HOSTILE.encode()
    return 2**kind.bit_width - 1 if pa.types.is_unsigned_integer(kind) else 2 ** (kind.bit_width - 1) - 1
