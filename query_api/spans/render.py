"""Rows of ``spans`` as the JSON objects of answers (reference §2, contract §4).

Members that are JSON are stored as answers show them and spliced in as they are: a page is put together without
parsing. Only two kinds of attributes are parsed and written anew: those that hold an ``outputs.__default__`` (reference
§3.8), and those of a root whose trace has sums.

A page is written member by member, each for all rows at once, and then joined row by row: a tenth of what it takes span by
span. Ids and times, which are of one width, are laid down side by side; members of few values are made together, once for
each set of values; columns that hold nothing are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT, OPTIONAL_MEMBERS
from common.span import NO_METRICS, Metrics, SpanKind, StatusCode
from query_api.spans.columns import ID_BYTES, holds_only, id_bytes, integers_of, rows_as, values_of
from query_api.spans.rollup import TraceSums, write_sums
from query_api.spans.version import SpanKey, Version, versions_of

Texts: TypeAlias = "np.ndarray[Any, np.dtype[np.bytes_]]"
"""Of one width; shorter ones have zeros in them."""

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Value = TypeVar("Value", bound=Hashable)

_DEFAULT_OUTPUT: Final = b"__default__"
_KINDS: Final = {kind.value: kind.name.encode() for kind in SpanKind}
_CODES: Final = {code.value: b'%b","attributes":' % code.name.encode() for code in StatusCode}
_SECOND_US: Final = 1_000_000
_DIGITS: Final = np.array([b"%03d" % number for number in range(1000)])
_TIME: Final = np.dtype([("to_second", "S19"), ("point", "S1"), ("thousands", "S3"), ("units", "S3")])
_NANOSECONDS: Final = np.dtype([("seconds", "S12"), ("thousands", "S3"), ("units", "S3"), ("rest", "S3")])


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
    """Spans of which everything is written that their rows alone decide; nothing of it depends on what else is on the page."""

    versions: list[Version]
    parent_ids: list[bytes | None]
    names: list[bytes]
    before: Sequence[list[bytes]]
    """The texts before the attributes, column by column."""

    attributes: list[bytes]
    """Without the sums of their traces."""

    after: Sequence[list[bytes]]

    @classmethod
    def of(cls, rows: pa.Table) -> Layout:
        """The spans of ``rows``, which have the ``row_columns`` of the members that these spans have, in their order."""
        if not rows.num_rows:
            return NO_ROWS
        parent_ids = [None if parent_id == NO_PARENT else parent_id for parent_id in values_of(rows, "parent_id")]
        names = _each_once(_quoted, values_of(rows, "name"))
        moments = _Moments.of(rows)
        before = (
            _identities(rows, moments, parent_ids),
            _descriptions(rows, names),
            _times(moments),
            [_CODES[code] for code in values_of(rows, "status_code")],
        )
        return cls(versions_of(rows), parent_ids, names, before, _attributes(rows), tuple(_optional(rows)))

    def spans(self, sums: TraceSums) -> list[Rendered]:
        """The spans, of which roots show the sums of their traces."""
        columns = (*self.before, self._attributes_with(sums), *self.after, repeat(b"}"))
        spans = map(b"".join, zip(*columns, strict=False))  # braces never end
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


NO_ROWS: Final = Layout([], [], [], (), [], ())


class _Moments(NamedTuple):
    """The times of some rows, each column for all of them."""

    created: Texts
    start: Texts
    end: Texts
    """As of ``format_us``, without the zone."""

    start_ns: Texts
    end_ns: Texts
    """Nanoseconds since 1970."""

    @classmethod
    def of(cls, rows: pa.Table) -> _Moments:
        """All of them at once: the calls cost more than the rows."""
        times_us = np.concatenate([integers_of(rows, name) for name in ("stored_us", "start_us", "end_us")])
        rests_ns = np.concatenate([integers_of(rows, name) for name in ("start_ns_rest", "end_ns_rest")])
        created, start, end = _shown_times(times_us).reshape(3, rows.num_rows)
        start_ns, end_ns = _nanoseconds(times_us[rows.num_rows :], rests_ns).reshape(2, rows.num_rows)
        return cls(created, start, end, start_ns, end_ns)


def _shown_times(times_us: Integers) -> Texts:
    """As of ``format_us``, without the zone."""
    seconds, fractions = np.divmod(times_us, _SECOND_US)
    distinct, places = _distinct(seconds)
    shown = np.empty(len(times_us), _TIME)
    shown["to_second"] = np.datetime_as_string(distinct.view("datetime64[s]")).astype("S19")[places]
    shown["point"] = b"."
    shown["thousands"], shown["units"] = _six_digits(fractions)
    for name in ("point", "thousands", "units"):
        shown[name][fractions == 0] = b""
    return shown.view(f"S{_TIME.itemsize}")


def _nanoseconds(times_us: Integers, rests_ns: Integers) -> Texts:
    """Microseconds since 1970 and the nanoseconds beyond them, together: more than 64 bits hold."""
    seconds, fractions = np.divmod(times_us, _SECOND_US)
    distinct, places = _distinct(seconds)
    digits = np.empty(len(times_us), _NANOSECONDS)
    digits["seconds"] = np.array([b"%d" % second for second in distinct.tolist()], "S12")[places]
    digits["thousands"], digits["units"] = _six_digits(fractions)
    digits["rest"] = _DIGITS[rests_ns]
    texts = digits.view(f"S{_NANOSECONDS.itemsize}")
    for index in np.flatnonzero(seconds <= 0):  # before 1970, and in its first second, digits do not stand side by side
        texts[index] = b"%d" % (int(times_us[index]) * 1000 + int(rests_ns[index]))
    return texts


def _distinct(seconds: Integers) -> tuple[Integers, Integers]:
    """The seconds there are, of which a page has few, and which of them each is."""
    distinct = np.unique(seconds)
    return distinct, np.searchsorted(distinct, seconds)


def _six_digits(fractions: Integers) -> tuple[Texts, Texts]:
    thousands, units = np.divmod(fractions, 1000)
    return _DIGITS[thousands], _DIGITS[units]


def _template(*parts: bytes | tuple[str, int]) -> np.ndarray[Any, Any]:
    """One row of texts side by side: those that are always the same, and places for others: names, and how many bytes they take."""
    places = [(f"constant {index}", len(part)) if isinstance(part, bytes) else part for index, part in enumerate(parts)]
    row = np.zeros(1, [(name, f"S{width}") for name, width in places])
    for (name, _), part in zip(places, parts, strict=True):
        if isinstance(part, bytes):
            row[name] = part
    return row


def _filled(template: np.ndarray[Any, Any], **columns: Texts) -> list[bytes]:
    """The template with the texts of these columns in their places, row by row, without the zeros in them."""
    rows = np.repeat(template, len(next(iter(columns.values()))))
    for name, texts in columns.items():
        rows[name] = texts
    return [row.replace(b"\0", b"") for row in rows.view(f"V{rows.itemsize}").tolist()]


_PARENT_BYTES: Final = len('parent_id":"","') + ID_BYTES
_IDENTITY: Final = _template(
    b'{"created_at":"',
    ("created", _TIME.itemsize),
    b'Z","trace_id":"',
    ("trace_id", 2 * ID_BYTES),
    b'","span_id":"',
    ("span_id", ID_BYTES),
    b'","parent_id":"',
    ("parent_id", ID_BYTES),
    b'","',
)
_TIMES: Final = _template(
    b',"start_time":"',
    ("start", _TIME.itemsize),
    b'Z","end_time":"',
    ("end", _TIME.itemsize),
    b'Z","start_time_unix_nano":"',
    ("start_ns", _NANOSECONDS.itemsize),
    b'","end_time_unix_nano":"',
    ("end_ns", _NANOSECONDS.itemsize),
    b'","status_code":"',
)


def _identities(rows: pa.Table, moments: _Moments, parent_ids: Sequence[bytes | None]) -> list[bytes]:
    """When spans were stored, and which they are: up to the quote before the next member."""
    texts = _filled(
        _IDENTITY,
        created=moments.created,
        trace_id=_digits_of_ids(rows, "trace_id", 2 * ID_BYTES),
        span_id=_digits_of_ids(rows, "span_id", ID_BYTES)[1::2],
        parent_id=_digits_of_ids(rows, "parent_id", ID_BYTES)[1::2],
    )
    for index, parent_id in enumerate(parent_ids):
        if parent_id is None:
            texts[index] = texts[index][:-_PARENT_BYTES]
    return texts


def _descriptions(rows: pa.Table, names: Sequence[bytes]) -> list[bytes]:
    """What kind of spans they are."""
    columns = (values_of(rows, name) for name in ("trace_type", "span_type", "kind"))
    return _each_once(_description, zip(*columns, names, strict=True))


def _description(members: tuple[bytes, bytes, int, bytes]) -> bytes:
    trace_type, span_type, kind, name = members
    return b'trace_type":"%b","span_type":"%b","span_kind":"%b","span_name":%b' % (
        trace_type,
        span_type,
        _KINDS[kind],
        name,
    )


def _times(moments: _Moments) -> list[bytes]:
    """When spans ran, up to the quote before their status."""
    _, start, end, start_ns, end_ns = moments
    return _filled(_TIMES, start=start, end=end, start_ns=start_ns, end_ns=end_ns)


def _optional(rows: pa.Table) -> Iterator[list[bytes]]:
    """The members that many spans lack, each with a comma before it; nothing for a member that no row has."""
    read = set(rows.column_names)
    for name, (absent, text) in _OPTIONAL.items():
        if name in read and not holds_only(rows, name, absent):
            yield _each_once(partial(_member, b',"%b":' % name.encode(), absent, text), values_of(rows, name))


def _member(before: bytes, absent: Any, text: Callable[[Any], bytes], value: Any) -> bytes:
    return b"" if value == absent else before + text(value)


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


def _digits_of_ids(rows: pa.Table, name: str, length: int) -> Texts:
    """The digits of a column of ids, one behind the other, cut in texts of one length."""
    return np.frombuffer(id_bytes(rows, name).hex().encode(), f"S{length}")


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


def row_columns(members: int) -> tuple[str, ...]:
    """What a statement must select for a ``Layout`` of spans that have no more than these of ``OPTIONAL_MEMBERS``."""
    optional = (name for bit, name in enumerate(OPTIONAL_MEMBERS) if members >> bit & 1)
    return (*_REQUIRED, *optional, "log", "log_offset")
