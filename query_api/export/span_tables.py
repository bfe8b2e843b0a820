"""Stored rows as a table with the columns of ``columns.py``, without an object for each span.

The result equals ``table_of_objects`` of the same spans; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from common.clickhouse.span_columns import NO_PARENT
from common.clickhouse.stored_attributes import ATTRIBUTES
from common.paths import value_at
from common.span import PROMOTED_TEXTS, RUNNING, SpanKind, StatusCode
from common.span_version import ENDED
from query_api.export.columns import COUNTS, TIME, Column, in_64_bits, schema_of, value_text
from query_api.filter.language import DURATION, SCORES, STATE
from query_api.filter.matches import score_value
from query_api.spans.narrow_rows import MODEL, PROVIDER, SERVICE
from query_api.spans.rows import attributes_with, hex_ids
from query_api.spans.usage import TraceSums
from query_api.spans.versions import ID_BYTES, Version, integers_of, values_of

_Array: TypeAlias = pa.Array | pa.ChunkedArray
_Make: TypeAlias = Callable[[pa.Table], _Array]

_NS_PER_US: Final = 1_000
_NS_US_MAX: Final = 2**63 // _NS_PER_US - 1
_NUMBER: Final = "n"
"""The type of a leaf that is a number (``common/clickhouse/leaves.py``). The rest of the leaf is JSON."""


class _Stored(NamedTuple):
    """Where a column comes from: what to read of ``spans``, and how to make it of that."""

    read: tuple[str, ...]
    make: _Make


def row_columns_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return what to read of ``spans`` for these columns, with the columns of ``Version``."""
    read = [*Version._fields]
    for column in columns:
        stored = _STORED.get(column.name)
        if stored is not None:
            read += stored.read
        else:
            read += (SCORES,) if column.score else (*ATTRIBUTES, "parent_id")
    return tuple(dict.fromkeys(read))


def table_of_rows(rows: pa.Table, sums: TraceSums, columns: Sequence[Column]) -> pa.Table:
    """Return rows that have ``row_columns_of`` the columns as a table with the ``schema_of`` the columns."""
    attributes: list[bytes] = []
    if any(column.name not in _STORED and not column.score for column in columns):
        attributes = attributes_with(rows, sums)
    parsed: list[Any] = list(map(orjson.loads, attributes)) if any(column.path for column in columns) else []
    arrays = []
    for column in columns:
        if column.name in _STORED:
            array = _STORED[column.name].make(rows)
        elif column.score:
            array = _score(column.score, rows)
        elif column.path:
            array = pa.array([value_text(value_at(values, column.path)) for values in parsed], pa.string())
        else:
            array = pa.array(attributes, pa.binary())
        arrays.append(array.cast(column.type))
    return pa.Table.from_arrays(arrays, schema=schema_of(columns))


def _text(name: str, rows: pa.Table) -> _Array:
    """Return a column of texts; an empty text is null."""
    texts = rows.column(name)
    if pa.types.is_dictionary(texts.type):
        texts = texts.cast(texts.type.value_type)
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), None, texts)


def _score(name: str, rows: pa.Table) -> _Array:
    """Return a column of the value or label of a score."""
    members = (orjson.loads(text) if text else () for text in values_of(rows, SCORES))
    return pa.array([value_text(score_value(scores, name)) for scores in members], pa.string())


def _text_or_null(name: str, rows: pa.Table) -> _Array:
    texts = rows.column(name)
    return texts.cast(texts.type.value_type) if pa.types.is_dictionary(texts.type) else texts


def _count(name: str, rows: pa.Table) -> _Array:
    """Return a column of numbers; zero is null."""
    counts = rows.column(name)
    return pc.if_else(pc.equal(counts, 0), None, counts)


def _name_of(name: str, names: Mapping[int, str], rows: pa.Table) -> _Array:
    texts = pa.array([names.get(value, "") for value in range(max(names) + 1)], pa.string())
    return texts.take(rows.column(name).combine_chunks())


def _id(name: str, width: int, rows: pa.Table) -> _Array:
    """Return ids as hexadecimal digits: the last ``width`` of them."""
    digits = hex_ids(rows, name, width)
    if name != "parent_id":
        return pa.array(digits, pa.binary())
    parents = values_of(rows, name)
    present = [None if parent == NO_PARENT else text for parent, text in zip(parents, digits, strict=True)]
    return pa.array(present, pa.binary())


def _time(name: str, rows: pa.Table) -> _Array:
    return rows.column(name).cast(pa.int64()).cast(TIME)


def _nanoseconds(time: str, rest: str, rows: pa.Table) -> _Array:
    times_us, rests_ns = integers_of(rows, time), integers_of(rows, rest)
    if np.abs(times_us).max(initial=0) <= _NS_US_MAX:
        return pa.array(times_us * _NS_PER_US + rests_ns)
    pairs = zip(times_us.tolist(), rests_ns.tolist(), strict=True)
    return pa.array([in_64_bits(time_us * _NS_PER_US + rest_ns) for time_us, rest_ns in pairs], pa.int64())


def _duration(rows: pa.Table) -> _Array:
    return pa.array((integers_of(rows, "end_us") - integers_of(rows, "start_us")) / _NS_PER_US)


def _are_running(rows: pa.Table) -> _Array:
    return pa.array(integers_of(rows, "version") < ENDED)


def _unless_running(make: _Make, rows: pa.Table) -> _Array:
    """Return a column that is null where a span is running."""
    return pc.if_else(_are_running(rows), None, make(rows))


def _state(rows: pa.Table) -> _Array:
    return pc.if_else(_are_running(rows), pa.scalar(RUNNING), None)


def _number_leaf(name: str, rows: pa.Table) -> _Array:
    """Return the numbers among typed texts; anything else is null."""
    leaves = _text_or_null(name, rows).cast(pa.string())
    numbers = pc.if_else(pc.starts_with(leaves, _NUMBER), pc.utf8_slice_codeunits(leaves, 1), None)
    return numbers.cast(pa.float64())


def _stored() -> Mapping[str, _Stored]:
    stored = {
        "created_at": _Stored(("stored_us",), partial(_time, "stored_us")),
        "trace_id": _Stored(("trace_id",), partial(_id, "trace_id", 2 * ID_BYTES)),
        "span_id": _Stored(("span_id",), partial(_id, "span_id", ID_BYTES)),
        "parent_id": _Stored(("parent_id",), partial(_id, "parent_id", ID_BYTES)),
        "trace_type": _Stored(("trace_type",), partial(_text_or_null, "trace_type")),
        "span_type": _Stored(("span_type",), partial(_text_or_null, "span_type")),
        "span_kind": _Stored(("kind",), partial(_name_of, "kind", {kind.value: kind.name for kind in SpanKind})),
        "span_name": _Stored(("name",), partial(_text_or_null, "name")),
        "start_time": _Stored(("start_us",), partial(_time, "start_us")),
        "end_time": _Stored(("end_us",), partial(_unless_running, partial(_time, "end_us"))),
        "start_time_unix_nano": _Stored(
            ("start_us", "start_ns_rest"), partial(_nanoseconds, "start_us", "start_ns_rest")
        ),
        "end_time_unix_nano": _Stored(
            ("end_us", "end_ns_rest"), partial(_unless_running, partial(_nanoseconds, "end_us", "end_ns_rest"))
        ),
        STATE: _Stored((), _state),
        DURATION: _Stored(("start_us", "end_us"), partial(_unless_running, _duration)),
        "status_code": _Stored(
            ("status_code",), partial(_name_of, "status_code", {code.value: code.name for code in StatusCode})
        ),
        "service": _Stored((f"{SERVICE} AS service",), partial(_text, "service")),
        "model": _Stored((f"{MODEL} AS model",), partial(_text, "model")),
        "provider": _Stored((f"{PROVIDER} AS provider",), partial(_text, "provider")),
        "session": _Stored(("session_in_attributes",), partial(_text, "session_in_attributes")),
        "user": _Stored(("user_in_attributes",), partial(_text, "user_in_attributes")),
        "tokens": _Stored(("tokens_leaf",), partial(_number_leaf, "tokens_leaf")),
        "cost": _Stored(("cost_leaf",), partial(_number_leaf, "cost_leaf")),
    }
    for name in ("status_message", *PROMOTED_TEXTS):
        stored[name] = _Stored((name,), partial(_text_or_null, name))
    for name in ("events", "links", "references", "hashes", "resource", "scope", "repaired", "scores", "trace_state"):
        stored[name] = _Stored((name,), partial(_text, name))
    for name in COUNTS:
        stored[name] = _Stored((name,), partial(_count, name))
    return stored


_STORED: Final = _stored()
