"""Rows of ``spans``: read by their versions, and written as the JSON objects of responses (reference §2, contract §4).

Rows are requested before it is certain that their versions are visible, so that nothing waits: while one statement
runs, the result of another one is laid out. ``latest_versions.py`` decides what is visible.

Members that are JSON are stored as responses show them and copied as they are, and attributes are joined from their
template and leaves (``stored_attributes.py``): a page is put together without parsing. Only two kinds of attributes are
parsed and written again: those with ``outputs.__default__`` (reference §3.8), and those of a root whose trace has sums.

A page is written member by member, each for all rows at once, and then joined row by row: a tenth of the time it
takes span by span. Members with few values are written together, once for each set of values; columns that hold
nothing are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import repeat
from operator import or_
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from common.clickhouse.select import NO_SETTINGS, EngineSettings, Select, Table
from common.clickhouse.span_columns import ALL_MEMBERS, NO_PARENT, OPTIONAL_MEMBERS
from common.clickhouse.stored_attributes import ATTRIBUTES, attributes_of
from common.fair_share import in_thread
from common.limits import MIB
from common.span import NO_METRICS, RUNNING, SpanKind, StatusCode
from common.span_version import ENDED
from common.times import format_us
from query_api.filter.sql.compile import Compiled
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.usage import TraceSums, with_sums
from query_api.spans.versions import (
    ID_BYTES,
    Integers,
    SpanKey,
    Version,
    among_ids,
    among_starts,
    holds_only,
    id_bytes,
    integers_of,
    packed_versions,
    rows_as,
    standing_in,
    values_of,
    versions_of,
)

_Columns: TypeAlias = Iterator[Iterable[bytes]]
"""Parallel texts, each column for all rows."""

Value = TypeVar("Value", bound=Hashable)

LARGE_SPANS: Final = 1_000
LARGE_BYTES: Final = 1 * MIB
"""From either on, rows are laid out in a thread: in the event loop they would delay other requests by more than about
5 ms."""

_OF_VERSIONS: Final = (f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}")
SCATTERED: Final[EngineSettings] = {
    "merge_tree_min_rows_for_concurrent_read": 1,
    "merge_tree_min_bytes_for_concurrent_read": 1,
    "use_skip_indexes": 0,
}
"""The rows of a page are scattered and cost a granule each. By default the engine reads fewer than millions of rows in
one thread; with two, 50 of them take 60 ms instead of 95. Not for statements that stop early: what they read in
parallel may not be needed. What the primary key leaves is read: looking up the ids in their index first takes 0.6 ms
and excludes nothing."""

_TIME_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z
_NS_PER_US: Final = 1_000
_NS_US_MAX: Final = 2**63 // _NS_PER_US - 1
"""Times whose nanoseconds fit into 64 bits: about 292 years around 1970."""

_DEFAULT_OUTPUT: Final = b"__default__"
_KINDS: Final = {kind.value: kind.name.encode() for kind in SpanKind}
_CODES: Final = {code.value: b'","status_code":"%b","attributes":' % code.name.encode() for code in StatusCode}


class Rendered(NamedTuple):
    """One span: what trees and pages need, and its JSON object, not empty, from brace to brace."""

    version: Version
    parent_id: bytes | None
    name: bytes
    """JSON text, with its quotes."""

    json: bytes

    @property
    def key(self) -> SpanKey:
        """The identity of the span."""
        return self.version.key


class Layout(NamedTuple):
    """Spans with every text that depends on their row alone, and not on the rest of the page."""

    versions: list[Version]
    parent_ids: list[bytes | None]
    names: list[bytes]
    before: Sequence[Iterable[bytes]]
    """The texts before the attributes, column by column; those that are the same for all spans are endless
    iterators."""

    attributes: list[bytes]
    """Without the sums of their traces."""

    after: Sequence[list[bytes]]
    bytes_count: int
    """The size of the rows."""

    @classmethod
    def of(cls, rows: pa.Table) -> Layout:
        """Lay out the spans of ``rows``, in their order. The rows have the ``row_columns`` of the members that these
        spans have.
        """
        if not rows.num_rows:
            return NO_ROWS
        parent_ids = [None if parent_id == NO_PARENT else parent_id for parent_id in values_of(rows, "parent_id")]
        names = _each_once(_text, values_of(rows, "name"))
        before = tuple(_required(rows, parent_ids, names))
        after = tuple(_optional(rows))
        return cls(versions_of(rows), parent_ids, names, before, _attributes(rows), after, rows.get_total_buffer_size())

    def spans(self, sums: TraceSums) -> list[Rendered]:
        """Return the spans; roots have the sums of their traces."""
        are_roots = [parent_id is None for parent_id in self.parent_ids]
        trace_ids = [version.trace_id for version in self.versions]
        attributes = _with_sums_of_roots(self.attributes, are_roots, trace_ids, sums)
        columns = (*self.before, attributes, *self.after, repeat(b"}"))
        spans = map(b"".join, zip(*columns, strict=False))
        return rows_as(Rendered, self.versions, self.parent_ids, self.names, spans)


NO_ROWS: Final = Layout([], [], [], (), [], (), 0)


class _Times(NamedTuple):
    """The times of some rows, each column for all of them, as JSON text or digits."""

    created: list[bytes]
    start: list[bytes]
    end: list[bytes]
    start_ns: list[bytes]
    end_ns: list[bytes]

    @classmethod
    def of(cls, rows: pa.Table) -> _Times:
        """Write all of them at once: the calls cost more than the rows."""
        times_us = np.concatenate([integers_of(rows, name) for name in ("stored_us", "start_us", "end_us")])
        rests_ns = np.concatenate([integers_of(rows, name) for name in ("start_ns_rest", "end_ns_rest")])
        count = rows.num_rows
        times, nanoseconds = time_texts(times_us), nanosecond_texts(times_us[count:], rests_ns)
        return cls(times[:count], times[count:-count], times[-count:], nanoseconds[:count], nanoseconds[count:])


def time_texts(times_us: Integers) -> list[bytes]:
    """Return microseconds since 1970 as ``format_us`` does, in quotes."""
    try:
        return _split_array(orjson.dumps(times_us.view("datetime64[us]"), option=_TIME_OPTIONS))
    except TypeError:  # orjson cannot write the last day of the year 9999
        return [b'"%b"' % format_us(time_us).encode() for time_us in times_us.tolist()]


def nanosecond_texts(times_us: Integers, rests_ns: Integers) -> list[bytes]:
    """Return nanoseconds since 1970 as digits, from microseconds and the rest below them."""
    if np.abs(times_us).max(initial=0) <= _NS_US_MAX:
        return _split_array(orjson.dumps(times_us * _NS_PER_US + rests_ns, option=_TIME_OPTIONS))
    pairs = zip(times_us.tolist(), rests_ns.tolist(), strict=True)
    return [b"%d" % (time_us * _NS_PER_US + rest_ns) for time_us, rest_ns in pairs]


def _split_array(array: bytes) -> list[bytes]:
    """Return the texts of the items of a JSON array; they contain no comma."""
    return array[1:-1].split(b",") if len(array) > len(b"[]") else []


def _required(rows: pa.Table, parent_ids: Sequence[bytes | None], names: Sequence[bytes]) -> _Columns:
    """Write all members before the attributes, each up to the quote before the next one."""
    times = _Times.of(rows)
    running = frozenset(np.flatnonzero(integers_of(rows, "version") < ENDED).tolist())
    yield from (repeat(b'{"created_at":'), times.created)
    yield from (repeat(b',"trace_id":"'), hex_ids(rows, "trace_id", 2 * ID_BYTES))
    yield from (repeat(b'","span_id":"'), hex_ids(rows, "span_id", ID_BYTES))
    parents = zip(parent_ids, hex_ids(rows, "parent_id", ID_BYTES), strict=True)
    yield [b"" if parent_id is None else b'","parent_id":"' + digits for parent_id, digits in parents]
    yield _descriptions(rows, names)
    yield from (repeat(b',"start_time":'), times.start)
    yield from _unless_running(running, b',"end_time":', times.end)
    yield from (repeat(b',"start_time_unix_nano":"'), times.start_ns)
    yield from _unless_running(running, b'","end_time_unix_nano":"', times.end_ns, b'","state":"%b' % RUNNING.encode())
    yield [_CODES[code] for code in values_of(rows, "status_code")]


def _unless_running(running: frozenset[int], before: bytes, values: list[bytes], instead: bytes = b"") -> _Columns:
    """Write a member, or ``instead`` in the places of running spans."""
    if not running:
        return iter((repeat(before), values))
    return iter(([instead if place in running else before + value for place, value in enumerate(values)],))


def _descriptions(rows: pa.Table, names: Sequence[bytes]) -> list[bytes]:
    """Write types, kind and name."""
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
    """Write the optional members, each with a comma before it; nothing for a member that no row has."""
    read = set(rows.column_names)
    for name, member in OPTIONAL_MEMBERS.items():
        if name in read and not holds_only(rows, name, member.absent):
            text = partial(_member_text, b',"%b":' % name.encode(), member.absent, _JSON_OF[member.kind])
            yield _each_once(text, values_of(rows, name))


def _member_text(before: bytes, absent: bytes | int | None, json: Callable[[Any], bytes], value: Any) -> bytes:
    return b"" if value == absent else before + json(value)


def _text(utf8: bytes) -> bytes:
    return orjson.dumps(utf8.decode())


_JSON_OF: Final[Mapping[pa.DataType, Callable[[Any], bytes]]] = {
    pa.string(): _text,
    pa.uint32(): b"%d".__mod__,
    pa.binary(): bytes,  # it is JSON
}
"""By the type of the column of a member."""


def _each_once(text: Callable[[Value], bytes], values: Iterable[Value]) -> list[bytes]:
    """Return the text of each value; equal values are written once."""
    return list(map(_TextCache(text).__getitem__, values))


class _TextCache(dict[Value, bytes]):
    """The texts of values: less than half the time of ``functools.cache``."""

    def __init__(self, text: Callable[[Value], bytes]) -> None:
        self._text = text

    def __missing__(self, value: Value) -> bytes:
        text = self[value] = self._text(value)
        return text


def hex_ids(rows: pa.Table, name: str, width: int) -> list[bytes]:
    """Return the last ``width`` hexadecimal digits of each id of a column: all of them, or half of them."""
    digits: list[bytes] = np.frombuffer(id_bytes(rows, name).hex().encode(), f"S{width}").tolist()
    return digits if width == 2 * ID_BYTES else digits[1::2]


def attributes_with(rows: pa.Table, sums: TraceSums) -> list[bytes]:
    """Return the attributes of rows as responses show them, as JSON; those of roots with the sums of their traces.

    The rows have ``ATTRIBUTES``, ``parent_id`` and the columns of ``Version``.
    """
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    return _with_sums_of_roots(_attributes(rows), are_roots, values_of(rows, "trace_id"), sums)


def _with_sums_of_roots(
    attributes: list[bytes], are_roots: Iterable[bool], trace_ids: Iterable[bytes], sums: TraceSums
) -> list[bytes]:
    used = {trace_id: metrics for trace_id, metrics in sums.items() if metrics != NO_METRICS}
    if not used:
        return attributes
    attributes = list(attributes)
    for index, (trace_id, is_root) in enumerate(zip(trace_ids, are_roots, strict=True)):
        if is_root and trace_id in used:
            attributes[index] = with_sums(attributes[index], used[trace_id])
    return attributes


def _attributes(rows: pa.Table) -> list[bytes]:
    """Return attributes as they are stored, with ``outputs.__default__`` in place of all outputs."""
    stored = attributes_of(rows)
    if _DEFAULT_OUTPUT not in b"".join(stored):  # one search through all takes a third of one search each
        return stored
    return [_with_default_output(json) if _DEFAULT_OUTPUT in json else json for json in stored]


def _with_default_output(json: bytes) -> bytes:
    attributes = orjson.loads(json)
    outputs = attributes["ag"]["data"].get("outputs")
    if isinstance(outputs, dict) and "__default__" in outputs:
        attributes["ag"]["data"]["outputs"] = outputs["__default__"]
    return orjson.dumps(attributes)


_REQUIRED: Final = (
    "trace_id", "span_id", "parent_id", "start_us", "end_us", "start_ns_rest", "end_ns_rest", "stored_us", "name",
    "kind", "status_code", "trace_type", "span_type", *ATTRIBUTES,
)  # fmt: skip


def row_columns(members: int) -> tuple[str, ...]:
    """Return the columns that ``Layout.of`` needs for spans that have no more than these bits of
    ``OPTIONAL_MEMBERS``.
    """
    optional = (name for bit, name in enumerate(OPTIONAL_MEMBERS) if members >> bit & 1)
    return (*_REQUIRED, *optional, "partition_id", "version")


async def fetch_rows(
    spans: ProjectSpans, versions: Collection[Version], *, members: Iterable[int] = (ALL_MEMBERS,)
) -> Layout:
    """Read the rows of these versions, in any order, and lay them out.

    ``members`` are the bits of ``OPTIONAL_MEMBERS`` that each version has or may have. A member that no row has costs
    as much as one that is there: a column is read where a row lies, whatever it holds. Other versions at the same
    places may have further members, so they are left out.
    """
    if not versions:
        return NO_ROWS
    return await fetch(spans, packed_versions(versions), reduce(or_, members, 0), only=set(versions))


async def fetch_matching_rows(spans: ProjectSpans, versions: Collection[Version], matching: Compiled) -> Layout:
    """Read the matching rows that are at the places of these versions: their own, or those that replaced them."""
    return await fetch(spans, {**matching.parameters, **packed_versions(versions)}, where=[matching.sql])


async def fetch(
    spans: ProjectSpans,
    values: Mapping[str, object],
    members: int = ALL_MEMBERS,
    *,
    where: Sequence[str] = (),
    settings: EngineSettings = NO_SETTINGS,
    only: Collection[Version] = (),
) -> Layout:
    """Read the rows at the places that ``packed_versions`` has put into ``values``, and lay them out.

    ``only``: without those of other versions, unless it is empty.
    """
    rows = await read_rows(spans, values, row_columns(members), where=where, settings=settings)
    if only and rows.num_rows:
        are_among = [version in only for version in versions_of(rows)]
        rows = rows if all(are_among) else rows.filter(pa.array(are_among))
    is_large = rows.num_rows > LARGE_SPANS or rows.get_total_buffer_size() > LARGE_BYTES
    return await in_thread(Layout.of, rows) if is_large else Layout.of(rows)


async def read_rows(
    spans: ProjectSpans,
    values: Mapping[str, object],
    columns: tuple[str, ...],
    *,
    where: Sequence[str] = (),
    settings: EngineSettings = NO_SETTINGS,
) -> pa.Table:
    """Return these columns of the rows at the places that ``packed_versions`` has put into ``values``, in any order."""
    query = Select(spans.project_id, Table.SPANS, columns, where=where, prewhere=_OF_VERSIONS, parameters=values)
    return await spans.select(query, step="rows", settings={**SCATTERED, **settings})


def render_versions(layouts: Iterable[Layout], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """Return the spans of ``versions`` in their order, without those that are not laid out."""
    return _in_order(_rendered(layouts, sums), versions)


def render_current(layouts: Iterable[Layout], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """Do the same, but return the row that replaced a version at its place if the version is not laid out."""
    known = _rendered(layouts, sums)
    if not known.keys() >= set(versions):
        rows = standing_in(versions, known.keys())
        versions = [rows.get(version, version) for version in versions]
    return _in_order(known, versions)


def _rendered(layouts: Iterable[Layout], sums: TraceSums) -> Mapping[Version, Rendered]:
    known: dict[Version, Rendered] = {}
    for layout in layouts:
        known.update(zip(layout.versions, layout.spans(sums), strict=True))
    return known


def _in_order(known: Mapping[Version, Rendered], versions: Iterable[Version]) -> list[Rendered]:
    return [span for span in map(known.get, versions) if span is not None]
