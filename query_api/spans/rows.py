"""Rows of spans by their versions: read, laid out, and put into the order of an answer.

Versions are asked for before it is certain that they are shown, so that nothing waits: while one statement runs, what
another one found is laid out (``render.py``). What is shown is decided elsewhere (``latest_versions.py``)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Final, Self

import numpy as np
import pyarrow as pa

from common.clickhouse.span_columns import ALL_MEMBERS
from common.errors import InvalidInput
from common.ids import trace_id_hex
from common.limits import MIB
from common.threads import in_thread
from query_api.filter.sql.compile import Compiled
from query_api.spans.columns import (
    HexDigits,
    among_ids,
    among_starts,
    ids_as_packed,
    integers_of,
    starts_as_packed,
    values_of,
)
from query_api.spans.project_spans import EngineSettings, ProjectSpans
from query_api.spans.render import NO_ROWS, Layout, Rendered, row_columns
from query_api.spans.tables import Table, read_from
from query_api.spans.usage import TraceSums
from query_api.spans.version import Version, packed_versions, standing_in

LARGE_SPANS: Final = 1_000
LARGE_BYTES: Final = 1 * MIB
"""From either on, work on the rows would hold up other requests: longer than about 5 ms."""

SPANS_AHEAD_MAX: Final = 4_000
"""Of one request: a few MB."""

HEAD_START_S: Final = 0.001
"""A thread asks the engine, and needs the interpreter for 0.3 ms to do so. Without this pause it would get it only
when the loop next waits, and the engine would be idle until then. """

READ_BYTES_MAX: Final = 64 * MIB
"""Of rows of traces in one answer of the engine: how large the spans of a trace are is known only when they are read.
Past it the engine ends with what its threads have at hand, some tens of MiB where spans are large."""

SHAPES_MAX: Final = 256
"""How many statements are kept: one for each set of members that the spans of a page have."""

_OF_VERSIONS: Final = f"start_us IN {among_starts('starts')} AND span_id IN {among_ids('span_ids')}"
_SCATTERED: Final[EngineSettings] = {
    "merge_tree_min_rows_for_concurrent_read": 1,
    "merge_tree_min_bytes_for_concurrent_read": 1,
    "use_skip_indexes": 0,
}
"""The rows of a page are scattered and cost a granule each. By default the engine reads less than millions of rows in
one thread; with two, 50 of them take 60 ms instead of 95. Not for statements that stop early: what they read side by
side they may read in vain. What the primary key leaves is read: to look up the ids in their index first takes 0.6 ms
and leaves all of it."""


async def fetch_rows(
    spans: ProjectSpans, versions: Collection[Version], *, members: Iterable[int] = (ALL_MEMBERS,)
) -> Layout:
    """Rows among which are all of these versions, and hardly any other, in any order; laid out as soon as they are
    there.

    ``members``: which of ``OPTIONAL_MEMBERS`` each of them has, or may have. One that nobody has costs as much as one
    that is there: a column is read where a row lies, whatever it holds."""
    if not versions:
        return NO_ROWS
    return await _fetch(spans, packed_versions(versions), reduce(or_, members, 0), _SCATTERED)


async def fetch_matching_rows(spans: ProjectSpans, versions: Collection[Version], matching: Compiled) -> Layout:
    """Rows that match, among which are those of these versions, or those that replaced them at their places."""
    values = {**matching.parameters, **packed_versions(versions)}
    sql = f"{_rows_statement(ALL_MEMBERS)}WHERE {matching.sql}\n"
    return await _laid_out(await spans.select(sql, values, step="rows", settings=_SCATTERED))


async def _fetch_some(spans: ProjectSpans, values: Mapping[str, HexDigits], members: int = ALL_MEMBERS) -> Layout:
    """All rows, unless they are large: then little more than ``READ_BYTES_MAX`` of them, at least one."""
    bound: EngineSettings = {"max_result_bytes": READ_BYTES_MAX, "result_overflow_mode": "break"}
    return await _fetch(spans, values, members, {**_SCATTERED, **bound})


def _may_be_cut(layout: Layout) -> bool:
    """Whether the engine may have stopped before the last row. It counts bytes a little otherwise than Arrow does."""
    return layout.bytes_count >= READ_BYTES_MAX // 2


def _too_large(versions: Iterable[Version], bytes_max: int) -> str:
    trace_ids = {version.trace_id for version in versions}
    [subject, *others] = [f"Trace {trace_id_hex(trace_id)} takes" for trace_id in trace_ids]
    return (
        f"{'These traces take' if others else subject} more than {bytes_max} bytes, too much for one answer."
        " The spans of a trace come in pages from /spans/query with a filter on `trace_id`."
    )


def _found_in(layouts: Iterable[Layout]) -> set[Version]:
    return {version for layout in layouts for version in layout.versions}


async def _fetch(
    spans: ProjectSpans, values: Mapping[str, HexDigits], members: int, settings: EngineSettings
) -> Layout:
    return await _laid_out(await spans.select(_rows_statement(members), values, step="rows", settings=settings))


async def _laid_out(rows: pa.Table) -> Layout:
    is_large = rows.num_rows > LARGE_SPANS or rows.get_total_buffer_size() > LARGE_BYTES
    return await in_thread(Layout.of, rows) if is_large else Layout.of(rows)


@lru_cache(maxsize=SHAPES_MAX)
def _rows_statement(members: int) -> str:
    return f"\nSELECT {', '.join(row_columns(members))}\n{read_from(Table.SPANS, prewhere=[_OF_VERSIONS])}\n"


class RowsAhead:
    """Rows of traces that are read while it is looked up which of them are shown. What nobody asked for in the end is
    let go on the way out."""

    def __init__(self, spans: ProjectSpans, *, bytes_max: int) -> None:
        """``bytes_max``: what those that are taken together may hold."""
        self._spans = spans
        self._bytes_max = bytes_max
        self._reading: dict[bytes, asyncio.Task[Layout]] = {}
        self._room = SPANS_AHEAD_MAX

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        left = set(self._reading.values())
        for reading in left:
            reading.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def begin(self, sent: pa.Table, trace_ids: Collection[bytes]) -> None:
        """Begin to read the spans of these traces, which were not begun before, unless they are too many to be read
        in vain.

        ``sent``: their versions, as columns of the names of a ``Version``, and their ``members``, among others.
        Returns when the engine has been asked."""
        is_wanted = set(trace_ids).__contains__
        which = np.fromiter(map(is_wanted, values_of(sent, "trace_id")), np.bool_, sent.num_rows)
        count = int(which.sum())
        if 0 < count <= self._room:
            self._room -= count
            starts, span_ids = starts_as_packed(sent, "start_us", which), ids_as_packed(sent, "span_id", which)
            members = int(np.bitwise_or.reduce(integers_of(sent, "members")[which]))
            self._read(trace_ids, {"starts": starts, "span_ids": span_ids}, members)
            await asyncio.sleep(HEAD_START_S)

    async def take_together(self, versions: Collection[Version]) -> list[Layout] | None:
        """What holds these versions, as far as they have rows, when one read does. ``None`` when it does not: what it
        gave is let go, and they are to be taken trace by trace."""
        layouts = await self._taken(versions)
        if any(map(_may_be_cut, layouts)) and not _found_in(layouts).issuperset(versions):
            return None
        return layouts

    async def take(self, versions: Collection[Version]) -> list[Layout]:
        """What holds these versions, as far as they have rows, in as many reads as it takes.

        Raises ``InvalidInput`` when they hold too much to be answered as a whole.
        """
        layouts = await self._taken(versions)
        if any(map(_may_be_cut, layouts)):
            await self._complete(layouts, versions)
        return layouts

    async def _taken(self, versions: Collection[Version]) -> list[Layout]:
        """One read of them; those of traces that nobody began to read are read now."""
        trace_ids = {version.trace_id for version in versions}
        if missing := trace_ids.difference(self._reading):
            others = [version for version in versions if version.trace_id in missing]
            self._read(missing, packed_versions(others))
        return list(await asyncio.gather(*{self._reading.pop(trace_id) for trace_id in trace_ids}))

    async def _complete(self, layouts: list[Layout], versions: Collection[Version]) -> None:
        """Read what is missing of the versions as long as there is more of them."""
        found = _found_in(layouts)
        while missing := [version for version in versions if version not in found]:
            layout = await _fetch_some(self._spans, packed_versions(missing))
            if found.issuperset(layout.versions):
                return
            layouts.append(layout)
            found.update(layout.versions)
            if sum(each.bytes_count for each in layouts) > self._bytes_max:
                raise InvalidInput(_too_large(versions, self._bytes_max))

    def _read(self, trace_ids: Iterable[bytes], values: Mapping[str, HexDigits], members: int = ALL_MEMBERS) -> None:
        reading = asyncio.create_task(_fetch_some(self._spans, values, members), name="read-rows")
        self._reading |= dict.fromkeys(trace_ids, reading)


def render_versions(layouts: Iterable[Layout], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """The spans of ``versions``, in their order, without those that are not laid out."""
    return _in_order(_rendered(layouts, sums), versions)


def render_current(layouts: Iterable[Layout], versions: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    """The same; where a version is not laid out, the one that replaced it at its place is shown."""
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
