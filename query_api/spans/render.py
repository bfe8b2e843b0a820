"""Rows of ``spans`` as the JSON objects of answers (reference §2, contract §4).

Members that are JSON are stored as answers show them and spliced in as they are: a page is put together without
parsing. Only two kinds of attributes are parsed and written anew: those that hold an ``outputs.__default__`` (reference
§3.8), and those of a root whose trace has sums.

A page is written member by member, each for all rows at once, and then joined row by row: a tenth of what it takes
span by span. Members of few values are made together, once for each set of values; columns that hold nothing are not
read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT, OPTIONAL_MEMBERS, Member, json_text
from common.span import NO_METRICS, Metrics, SpanKind, StatusCode
from common.times import format_us
from query_api.spans.columns import ID_BYTES, holds_only, id_bytes, integers_of, rows_as, values_of
from query_api.spans.usage import TraceSums, write_sums
from query_api.spans.version import SpanKey, Version, versions_of

_Columns: TypeAlias = Iterator[Iterable[bytes]]
"""Texts side by side, each column for all rows."""

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

Value = TypeVar("Value", bound=Hashable)

_TIME_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_NS_PER_US: Final = 1_000
_NS_US_MAX: Final = 2**63 // _NS_PER_US - 1
"""The times whose nanoseconds 64 bits hold: about 292 years around 1970."""

_DEFAULT_OUTPUT: Final = b"__default__"
_KINDS: Final = {kind.value: kind.name.encode() for kind in SpanKind}
_CODES: Final = {code.value: b'","status_code":"%b","attributes":' % code.name.encode() for code in StatusCode}


class Rendered(NamedTuple):
    """One span: what trees and pages need of it, and its JSON object, not empty, from brace to brace."""

    version: Version
    parent_id: bytes | None
    name: bytes
    """As JSON text, with its quotes."""

    json: bytes

    @property
    def key(self) -> SpanKey:
        """Which span it is."""
        return self.version.key


class Layout(NamedTuple):
    """Spans of which everything is written that their rows alone decide; nothing of it depends on what else is on the
    page."""

    versions: list[Version]
    parent_ids: list[bytes | None]
    names: list[bytes]
    before: Sequence[Iterable[bytes]]
    """The texts before the attributes, column by column; those that are the same for all spans never end."""

    attributes: list[bytes]
    """Without the sums of their traces."""

    after: Sequence[list[bytes]]
    bytes_count: int
    """What the engine gave, of which all this was made."""

    @classmethod
    def of(cls, rows: pa.Table) -> Layout:
        """The spans of ``rows``, which have the ``row_columns`` of the members that these spans have, in their
        order."""
        if not rows.num_rows:
            return NO_ROWS
        parent_ids = [None if parent_id == NO_PARENT else parent_id for parent_id in values_of(rows, "parent_id")]
        names = _each_once(json_text, values_of(rows, "name"))
        moments = _Moments.of(rows)
        before = (
            *_identities(rows, moments.created, parent_ids),
            _descriptions(rows, names),
            *_times(moments),
            [_CODES[code] for code in values_of(rows, "status_code")],
        )
        after = tuple(_optional(rows))
        return cls(versions_of(rows), parent_ids, names, before, _attributes(rows), after, rows.get_total_buffer_size())

    def spans(self, sums: TraceSums) -> list[Rendered]:
        """The spans, of which roots show the sums of their traces."""
        columns = (*self.before, self._attributes_with(sums), *self.after, repeat(b"}"))
        spans = map(b"".join, zip(*columns, strict=False))
        return rows_as(Rendered, self.versions, self.parent_ids, self.names, spans)

    def _attributes_with(self, sums: TraceSums) -> list[bytes]:
        used = {trace_id: of_trace for trace_id, of_trace in sums.items() if of_trace != NO_METRICS}
        if not used:
            return self.attributes
        shown = list(self.attributes)
        for index, (version, parent_id) in enumerate(zip(self.versions, self.parent_ids, strict=True)):
            if parent_id is None and version.trace_id in used:
                shown[index] = _with_sums(shown[index], used[version.trace_id])
        return shown


NO_ROWS: Final = Layout([], [], [], (), [], (), 0)


class _Moments(NamedTuple):
    """The times of some rows, each column for all of them; as ``times.py`` shows them."""

    created: list[bytes]
    start: list[bytes]
    end: list[bytes]
    start_ns: list[bytes]
    end_ns: list[bytes]

    @classmethod
    def of(cls, rows: pa.Table) -> _Moments:
        """All of them at once: the calls cost more than the rows."""
        times_us = np.concatenate([integers_of(rows, name) for name in ("stored_us", "start_us", "end_us")])
        rests_ns = np.concatenate([integers_of(rows, name) for name in ("start_ns_rest", "end_ns_rest")])
        count = rows.num_rows
        times, nanoseconds = shown_times(times_us), shown_nanoseconds(times_us[count:], rests_ns)
        return cls(times[:count], times[count:-count], times[-count:], nanoseconds[:count], nanoseconds[count:])


def shown_times(times_us: Integers) -> list[bytes]:
    """Microseconds since 1970 as of ``format_us``, in quotes."""
    try:
        return _split_array(orjson.dumps(times_us.view("datetime64[us]"), option=_TIME_OPTIONS))
    except TypeError:  # orjson knows no time of the last day of the year 9999
        return [b'"%b"' % format_us(time_us).encode() for time_us in times_us.tolist()]


def shown_nanoseconds(times_us: Integers, rests_ns: Integers) -> list[bytes]:
    """Microseconds since 1970 and the nanoseconds beyond them, together, as digits."""
    if np.abs(times_us).max(initial=0) <= _NS_US_MAX:
        return _split_array(orjson.dumps(times_us * _NS_PER_US + rests_ns, option=_TIME_OPTIONS))
    pairs = zip(times_us.tolist(), rests_ns.tolist(), strict=True)
    return [b"%d" % (time_us * _NS_PER_US + rest_ns) for time_us, rest_ns in pairs]


def _split_array(array: bytes) -> list[bytes]:
    """The texts of an array's items, which have no comma in them."""
    return array[1:-1].split(b",") if len(array) > len(b"[]") else []


def _identities(rows: pa.Table, created: list[bytes], parent_ids: Sequence[bytes | None]) -> _Columns:
    """When spans were stored, and which they are: up to the quote before the next member."""
    yield from (repeat(b'{"created_at":'), created)
    yield from (repeat(b',"trace_id":"'), _digits_of_ids(rows, "trace_id", 2 * ID_BYTES))
    yield from (repeat(b'","span_id":"'), _digits_of_ids(rows, "span_id", ID_BYTES)[1::2])
    parents = zip(parent_ids, _digits_of_ids(rows, "parent_id", ID_BYTES)[1::2], strict=True)
    yield [b"" if parent_id is None else b'","parent_id":"' + digits for parent_id, digits in parents]


def _times(moments: _Moments) -> _Columns:
    """When spans ran, up to the quote before the next member."""
    yield from (repeat(b',"start_time":'), moments.start)
    yield from (repeat(b',"end_time":'), moments.end)
    yield from (repeat(b',"start_time_unix_nano":"'), moments.start_ns)
    yield from (repeat(b'","end_time_unix_nano":"'), moments.end_ns)


def _descriptions(rows: pa.Table, names: Sequence[bytes]) -> list[bytes]:
    """What kind of spans they are."""
    columns = (values_of(rows, name) for name in ("trace_type", "span_type", "kind"))
    return _each_once(_description, zip(*columns, names, strict=True))


def _description(members: tuple[bytes, bytes, int, bytes]) -> bytes:
    trace_type, span_type, kind, name = members
    return b'","trace_type":"%b","span_type":"%b","span_kind":"%b","span_name":%b' % (
        trace_type,
        span_type,
        _KINDS[kind],
        name,
    )


def _optional(rows: pa.Table) -> Iterator[list[bytes]]:
    """The members that many spans lack, each with a comma before it; nothing for a member that no row has."""
    read = set(rows.column_names)
    for name, member in OPTIONAL_MEMBERS.items():
        if name in read and not holds_only(rows, name, member.absent):
            yield _each_once(partial(_member_text, b',"%b":' % name.encode(), member), values_of(rows, name))


def _member_text(before: bytes, member: Member, value: Any) -> bytes:
    return b"" if value == member.absent else before + member.json(value)


def _each_once(text: Callable[[Value], bytes], values: Iterable[Value]) -> list[bytes]:
    """The texts of values of which many are the same."""
    return list(map(_Known(text).__getitem__, values))


class _Known(dict[Value, bytes]):
    """The texts of the values that came up."""

    def __init__(self, text: Callable[[Value], bytes]) -> None:
        self._text = text

    def __missing__(self, value: Value) -> bytes:
        text = self[value] = self._text(value)
        return text


def _digits_of_ids(rows: pa.Table, name: str, length: int) -> list[bytes]:
    """The digits of a column of ids, one behind the other, cut in texts of one length."""
    digits: list[bytes] = np.frombuffer(id_bytes(rows, name).hex().encode(), f"S{length}").tolist()
    return digits


def _attributes(rows: pa.Table) -> list[bytes]:
    """Attributes as they are stored, but for those in which an ``outputs.__default__`` stands for all outputs."""
    stored = values_of(rows, "attributes")
    if _DEFAULT_OUTPUT not in b"".join(stored):  # one search through all of them, a third of one through each
        return stored
    return [_with_default_output(json) if _DEFAULT_OUTPUT in json else json for json in stored]


def _with_default_output(json: bytes) -> bytes:
    attributes = orjson.loads(json)
    outputs = attributes["ag"]["data"].get("outputs")
    if isinstance(outputs, dict) and "__default__" in outputs:
        attributes["ag"]["data"]["outputs"] = outputs["__default__"]
    return orjson.dumps(attributes)


def _with_sums(json: bytes, sums: Metrics) -> bytes:
    attributes = orjson.loads(json)
    write_sums(attributes, sums)
    return orjson.dumps(attributes)


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


def row_columns(members: int) -> tuple[str, ...]:
    """What a statement must select for a ``Layout`` of spans that have no more than these of ``OPTIONAL_MEMBERS``."""
    optional = (name for bit, name in enumerate(OPTIONAL_MEMBERS) if members >> bit & 1)
    return (*_REQUIRED, *optional, "partition_id", "record_offset")
