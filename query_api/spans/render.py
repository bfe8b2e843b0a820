"""Rows of ``spans`` as the JSON objects of answers (reference §2, contract §4).

Members that are JSON are stored as answers show them and spliced in as they are: a page is put together without
parsing. Only two kinds of attributes are parsed and written anew: those that hold an ``outputs.__default__`` (reference
§3.8), and those of a root whose trace has sums.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from common.ids import span_id_hex, trace_id_hex
from common.span import NO_METRICS, Metrics, SpanKind, StatusCode
from common.times import format_us
from query_api.spans.rollup import TraceSums, write_sums

_DEFAULT_OUTPUT: Final = b'"__default__"'
_KINDS: Final = {kind.value: kind.name.encode() for kind in SpanKind}
_CODES: Final = {code.value: code.name.encode() for code in StatusCode}


class SpanKey(NamedTuple):
    """What identifies a span inside a project."""

    trace_id: bytes
    span_id: bytes


class Rendered(NamedTuple):
    """One span: what trees and pages need of it, and its JSON object, not empty, from brace to brace."""

    key: SpanKey
    parent_id: bytes | None
    start_us: int
    name: bytes
    """As JSON text, with its quotes."""

    json: bytes


def render(rows: pa.Table, sums: TraceSums) -> list[Rendered]:
    """The spans of ``rows``, which have ``ROW_COLUMNS``, in their order."""
    columns: dict[str, list[Any]] = {name: rows.column(name).to_pylist() for name in ROW_COLUMNS}
    optional = _optional_members(columns, rows.num_rows)
    return [_rendered(row, rest, sums) for row, rest in zip(_rows(columns), optional, strict=True)]


class _Row(NamedTuple):
    """The columns that every span shows something of."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start_us: int
    end_us: int
    start_ns_rest: int
    end_ns_rest: int
    stored_us: int
    name: bytes
    kind: int
    status_code: int
    trace_type: bytes
    span_type: bytes
    attributes: bytes


def _rows(columns: Mapping[str, list[Any]]) -> Iterator[_Row]:
    return map(_Row._make, zip(*(columns[name] for name in _Row._fields), strict=True))


def _rendered(row: _Row, optional: bytes, sums: TraceSums) -> Rendered:
    parent_id = None if row.parent_id == NO_PARENT else row.parent_id
    parent = b"" if parent_id is None else b'"parent_id":"%b",' % span_id_hex(parent_id).encode()
    name = _quoted(row.name)
    json = (
        b'{"created_at":"%b","trace_id":"%b","span_id":"%b",%b"trace_type":"%b","span_type":"%b","span_kind":"%b",'
        b'"span_name":%b,"start_time":"%b","end_time":"%b","start_time_unix_nano":"%d","end_time_unix_nano":"%d",'
        b'"status_code":"%b","attributes":%b%b}'
    ) % (
        format_us(row.stored_us).encode(),
        trace_id_hex(row.trace_id).encode(),
        span_id_hex(row.span_id).encode(),
        parent,
        row.trace_type,
        row.span_type,
        _KINDS[row.kind],
        name,
        format_us(row.start_us).encode(),
        format_us(row.end_us).encode(),
        row.start_us * 1000 + row.start_ns_rest,
        row.end_us * 1000 + row.end_ns_rest,
        _CODES[row.status_code],
        _shown_attributes(row, NO_METRICS if parent_id is not None else sums.get(row.trace_id, NO_METRICS)),
        optional,
    )
    return Rendered(SpanKey(row.trace_id, row.span_id), parent_id, row.start_us, name, json)


def _shown_attributes(row: _Row, sums: Metrics) -> bytes:
    if sums == NO_METRICS and _DEFAULT_OUTPUT not in row.attributes:
        return row.attributes
    attributes = orjson.loads(row.attributes)
    outputs = attributes["ag"]["data"].get("outputs")
    if isinstance(outputs, dict) and "__default__" in outputs:
        attributes["ag"]["data"]["outputs"] = outputs["__default__"]
    write_sums(attributes, sums)
    return orjson.dumps(attributes)


def _optional_members(columns: Mapping[str, list[Any]], rows_count: int) -> list[bytes]:
    """Row by row the members that many spans lack, each with a comma before it; column by column, so that one which no row
    has costs a comparison a row."""
    members = [b""] * rows_count
    for name, (is_absent, text) in _OPTIONAL.items():
        for index, value in enumerate(columns[name]):
            if not is_absent(value):
                members[index] += b',"%b":%b' % (name.encode(), text(value))
    return members


def _quoted(utf8: bytes) -> bytes:
    return orjson.dumps(utf8.decode())


def _is_null(value: bytes | None) -> bool:
    return value is None


def _digits(value: int) -> bytes:
    return b"%d" % value


def _as_stored(json: bytes) -> bytes:
    return json


_OPTIONAL: Final[Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], bytes]]]] = {
    **dict.fromkeys(("status_message", "session_id", "user_id", "agent_id"), (_is_null, _quoted)),
    "trace_state": (operator.not_, _quoted),
    **dict.fromkeys(
        ("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count"), (operator.not_, _digits)
    ),
    **dict.fromkeys(("events", "links", "references", "hashes", "resource", "scope"), (operator.not_, _as_stored)),
}
"""Column (named as its member) → when it is absent, and its JSON."""

ROW_COLUMNS: Final = (*_Row._fields, *_OPTIONAL, "log", "log_offset")
"""What a statement must select for ``render``, and the version that it is."""
