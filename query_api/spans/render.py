"""Rows of ``spans`` as the JSON objects of answers (reference §2, contract §4).

Members that are JSON are stored as answers show them and spliced in as they are: a page is put together without
parsing. Only two kinds of attributes are parsed and written anew: those that hold an ``outputs.__default__`` (reference
§3.8), and those of a root whose trace has sums.

A page is written member by member, each for all rows at once, and then joined row by row: 2 µs a span, a tenth of what it
takes span by span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from common.span import NO_METRICS, Metrics, SpanKind, StatusCode
from query_api.spans.columns import ID_BYTES, id_bytes, integers_of, rows_as, values_of
from query_api.spans.rollup import TraceSums, write_sums

_DEFAULT_OUTPUT: Final = b"__default__"
_KINDS: Final = {kind.value: kind.name.encode() for kind in SpanKind}
_CODES: Final = {code.value: code.name.encode() for code in StatusCode}
_SECOND_US: Final = 1_000_000
_FRACTION_UNITS: Final = 10 ** np.arange(5, -1, -1)
_TIME: Final = np.dtype([("to_second", "S19"), ("point", "u1"), ("fraction", "u1", (len(_FRACTION_UNITS),))])


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
    if not rows.num_rows:
        return []
    trace_ids, span_ids = values_of(rows, "trace_id"), values_of(rows, "span_id")
    parent_ids = [None if parent_id == NO_PARENT else parent_id for parent_id in values_of(rows, "parent_id")]
    names = values_of(rows, "name")
    quoted = {name: _quoted(name) for name in set(names)}
    names = [quoted[name] for name in names]
    attributes = _shown_attributes(values_of(rows, "attributes"), trace_ids, parent_ids, sums)
    pieces = [*_required(rows, parent_ids, names, attributes), *_optional(rows), repeat(b"}")]
    spans = map(b"".join, zip(*pieces, strict=False))  # what stands between the columns never ends
    keys = rows_as(SpanKey, trace_ids, span_ids)
    return rows_as(Rendered, keys, parent_ids, values_of(rows, "start_us"), names, spans)


def _required(
    rows: pa.Table, parent_ids: Sequence[bytes | None], names: list[bytes], attributes: list[bytes]
) -> Iterator[Iterator[bytes] | list[bytes]]:
    """The members that every span has, from the brace on: texts and columns in the order in which they stand in a span."""
    created, starts, ends = _times(rows, "stored_us", "start_us", "end_us")
    for before, column in (
        (b'{"created_at":"', created),
        (b'Z","trace_id":"', _digits_of_ids(rows, "trace_id")),
        (b'","span_id":"', _last_digits_of_ids(rows, "span_id")),
        (b'",', _parents(rows, parent_ids)),
        (b'"trace_type":"', values_of(rows, "trace_type")),
        (b'","span_type":"', values_of(rows, "span_type")),
        (b'","span_kind":"', [_KINDS[kind] for kind in values_of(rows, "kind")]),
        (b'","span_name":', names),
        (b',"start_time":"', starts),
        (b'Z","end_time":"', ends),
        (b'Z","start_time_unix_nano":"', _nanoseconds(rows, "start_us", "start_ns_rest")),
        (b'","end_time_unix_nano":"', _nanoseconds(rows, "end_us", "end_ns_rest")),
        (b'","status_code":"', [_CODES[code] for code in values_of(rows, "status_code")]),
        (b'","attributes":', attributes),
    ):
        yield repeat(before)
        yield column


def _optional(rows: pa.Table) -> Iterator[list[bytes]]:
    """The members that many spans lack, each with a comma before it; nothing for a member that no row has."""
    for name, (absent, text) in _OPTIONAL.items():
        values = values_of(rows, name)
        distinct = set(values)
        if distinct != {absent}:
            before = b',"%b":' % name.encode()
            members = {value: before + text(value) for value in distinct - {absent}} | {absent: b""}
            yield [members[value] for value in values]


def _digits_of_ids(rows: pa.Table, name: str) -> list[bytes]:
    """``trace_id_hex`` of a column."""
    return _cut(id_bytes(rows, name).hex().encode(), 2 * ID_BYTES)


def _last_digits_of_ids(rows: pa.Table, name: str) -> list[bytes]:
    """``span_id_hex`` of a column."""
    return _cut(id_bytes(rows, name).hex().encode(), ID_BYTES)[1::2]


def _parents(rows: pa.Table, parent_ids: Sequence[bytes | None]) -> list[bytes]:
    digits = _last_digits_of_ids(rows, "parent_id")
    return [
        b"" if parent_id is None else b'"parent_id":"%b",' % shown
        for parent_id, shown in zip(parent_ids, digits, strict=True)
    ]


def _times(rows: pa.Table, *names: str) -> list[list[bytes]]:
    """``format_us`` of each of these columns, without the zone; all of them at once, because the calls cost more than the rows."""
    seconds, fractions = np.divmod(np.concatenate([integers_of(rows, name) for name in names]), _SECOND_US)
    distinct = np.unique(seconds)
    to_second = np.datetime_as_string(distinct.view("datetime64[s]")).astype("S19")
    times = np.empty(len(seconds), _TIME)
    times["to_second"] = to_second[np.searchsorted(distinct, seconds)]
    times["point"] = ord(".")
    times["fraction"] = fractions[:, np.newaxis] // _FRACTION_UNITS % 10 + ord("0")
    whole = fractions == 0
    times["point"][whole] = times["fraction"][whole] = 0  # what NumPy takes for the end of a text
    texts: list[bytes] = times.view(f"S{_TIME.itemsize}").tolist()
    return [texts[start : start + rows.num_rows] for start in range(0, len(texts), rows.num_rows)]


def _nanoseconds(rows: pa.Table, name: str, rest: str) -> list[bytes]:
    moments = zip(values_of(rows, name), values_of(rows, rest), strict=True)
    since_1970 = [time_us * 1000 + rest_ns for time_us, rest_ns in moments]  # as Python's: 64 bits end in 2262
    return repr(since_1970)[1:-1].encode().split(b", ")


def _shown_attributes(
    stored: Sequence[bytes], trace_ids: Sequence[bytes], parent_ids: Sequence[bytes | None], sums: TraceSums
) -> list[bytes]:
    used = {trace_id: of_trace for trace_id, of_trace in sums.items() if of_trace != NO_METRICS}
    of_roots = {
        index: used[trace_id]
        for index, (trace_id, parent_id) in enumerate(zip(trace_ids, parent_ids, strict=True))
        if parent_id is None and trace_id in used
    }
    with_default = [index for index, attributes in enumerate(stored) if _DEFAULT_OUTPUT in attributes]
    shown = list(stored)
    for index in {*of_roots, *with_default}:
        shown[index] = _rewritten(stored[index], of_roots.get(index, NO_METRICS))
    return shown


def _rewritten(json: bytes, sums: Metrics) -> bytes:
    attributes = orjson.loads(json)
    outputs = attributes["ag"]["data"].get("outputs")
    if isinstance(outputs, dict) and "__default__" in outputs:
        attributes["ag"]["data"]["outputs"] = outputs["__default__"]
    write_sums(attributes, sums)
    return orjson.dumps(attributes)


def _cut(joined: bytes, length: int) -> list[bytes]:
    """Digits in texts of one length."""
    texts: list[bytes] = np.frombuffer(joined, f"S{length}").tolist()
    return texts


def _quoted(utf8: bytes) -> bytes:
    return orjson.dumps(utf8.decode())


def _digits(value: int) -> bytes:
    return b"%d" % value


def _as_stored(json: bytes) -> bytes:
    return json


_REQUIRED: Final = (
    "trace_id",
    "span_id",
    "parent_id",
    "start_us",
    "end_us",
    "start_ns_rest",
    "end_ns_rest",
    "stored_us",
    "name",
    "kind",
    "status_code",
    "trace_type",
    "span_type",
    "attributes",
)
_OPTIONAL: Final[Mapping[str, tuple[Any, Callable[[Any], bytes]]]] = {
    **dict.fromkeys(("status_message", "session_id", "user_id", "agent_id"), (None, _quoted)),
    "trace_state": (b"", _quoted),
    **dict.fromkeys(("flags", "dropped_attributes_count", "dropped_events_count", "dropped_links_count"), (0, _digits)),
    **dict.fromkeys(("events", "links", "references", "hashes", "resource", "scope"), (b"", _as_stored)),
}
"""Column (named as its member) → what it holds where it is absent, and its JSON."""

ROW_COLUMNS: Final = (*_REQUIRED, *_OPTIONAL, "log", "log_offset")
"""What a statement must select for ``render``, and the version that it is."""
