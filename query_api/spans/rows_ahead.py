"""Rows of traces that are read before it is known which of their versions are visible, as much as memory allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from common.clickhouse.select import EngineSettings
from common.clickhouse.span_columns import ALL_MEMBERS
from common.errors import DeadlineExceeded, InvalidInput, Unavailable
from common.fair_share import in_thread
from common.ids import trace_id_hex
from common.limits import MIB
from common.parts import parts_of
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import LARGE_SPANS, Layout, Rendered, fetch, render_current
from query_api.spans.usage import TraceSums
from query_api.spans.versions import (
    TRIES_MAX,
    Version,
    id_bytes,
    integers_of,
    packed_places,
    packed_versions,
    standing_in,
    values_of,
)

SPANS_AHEAD_MAX: Final = 4_000
"""For one request: a few MB."""

HEAD_START_S: Final = 0.001
"""A thread sends the statement, and needs the interpreter for 0.3 ms. Without this pause it would get it only when
the loop next waits, and the engine would be idle until then. """

READ_BYTES_MAX: Final = 64 * MIB
"""Rows of traces in one result: how large the spans of a trace are is known only when they are read. Beyond it the
engine stops with what its threads have at hand, some tens of MiB if spans are large."""


PLACES_MAX: Final = 10_000
"""Places of versions that one statement names. What the engine takes for them grows with their square: a tenth of a
second for 10,000, minutes for 100,000."""

LARGE_TRACES: Final = (
    "The spans of a large trace come in pages from /spans/query with a filter on `trace_id`, and its outline comes from"
    " /traces/{trace_id}/outline."
)


class TooLargeForResponse(InvalidInput):
    """The spans of a trace, or of several, take more memory than a response may."""


class RowsAhead:
    """Rows of traces that are read while their latest versions are looked up. Rows that nobody takes are dropped on
    exit.
    """

    def __init__(self, spans: ProjectSpans, *, bytes_max: int) -> None:
        """``bytes_max`` limits the rows that are taken together."""
        self._spans = spans
        self._bytes_max = bytes_max
        self._reading: dict[bytes, asyncio.Task[Layout]] = {}
        self._spans_left = SPANS_AHEAD_MAX

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop()

    async def drop(self) -> None:
        """Drop all rows that were begun and not taken."""
        left = set(self._reading.values())
        self._reading.clear()
        for reading in left:
            reading.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def begin(self, sent: pa.Table, trace_ids: Collection[bytes]) -> None:
        """Begin to read the spans of these traces, unless they are too many to read without need. They must not have
        been begun before.

        ``sent`` are their versions: the columns of ``Version`` and ``members``, among others. Returns when the
        statement has been sent.
        """
        are_wanted = pa.array(map(set(trace_ids).__contains__, values_of(sent, "trace_id")), pa.bool_())
        wanted = sent.select(["start_us", "span_id", "members"]).filter(are_wanted)
        if 0 < wanted.num_rows <= self._spans_left:
            self._spans_left -= wanted.num_rows
            places = packed_places(integers_of(wanted, "start_us"), id_bytes(wanted, "span_id"))
            self._read(trace_ids, places, int(np.bitwise_or.reduce(integers_of(wanted, "members"))))
            await asyncio.sleep(HEAD_START_S)

    async def take_together(self, versions: Collection[Version]) -> list[Layout] | None:
        """Return what holds these versions, as far as they have rows, if one read is enough.

        ``None`` if it is not: its rows are dropped, and the versions must be taken trace by trace.
        """
        layouts = await self._taken(versions)
        if any(map(_may_be_cut, layouts)) and not _found_in(layouts).issuperset(versions):
            return None
        return layouts

    async def take(self, versions: Collection[Version]) -> list[Layout]:
        """Return what holds these versions, as far as they have rows, in as many reads as needed.

        Raises ``TooLargeForResponse``, and ``DeadlineExceeded`` that says how to read
        large traces.
        """
        layouts: list[Layout] = []
        try:
            for part in parts_of([*versions], PLACES_MAX):
                read = await self._taken(part)
                layouts += read
                if any(map(_may_be_cut, read)):
                    await self._complete(layouts, part, of=versions)
                self._refuse_large(layouts, versions)
        except DeadlineExceeded as exc:
            raise type(exc)(exc.detail, public_message=f"{exc.public_message} {LARGE_TRACES}") from exc
        return layouts

    async def _taken(self, versions: Collection[Version]) -> list[Layout]:
        """Collect the rows begun before; read the rows of traces that were not begun."""
        trace_ids = {version.trace_id for version in versions}
        if missing := trace_ids.difference(self._reading):
            others = [version for version in versions if version.trace_id in missing]
            self._read(missing, packed_versions(others))
        return list(await asyncio.gather(*{self._reading.pop(trace_id) for trace_id in trace_ids}))

    async def _complete(self, layouts: list[Layout], versions: Collection[Version], *, of: Collection[Version]) -> None:
        """Read the missing versions until all are found or no more rows come. They are a part ``of`` those that are
        taken.
        """
        found = _found_in(layouts)
        while missing := [version for version in versions if version not in found]:
            layout = await self._fetch(packed_versions(missing))
            if found.issuperset(layout.versions):
                return
            layouts.append(layout)
            found.update(layout.versions)
            self._refuse_large(layouts, of)

    def _refuse_large(self, layouts: Sequence[Layout], versions: Collection[Version]) -> None:
        if sum(layout.bytes_count for layout in layouts) > self._bytes_max:
            raise TooLargeForResponse(_too_large(versions, self._bytes_max))

    def _read(self, trace_ids: Iterable[bytes], values: Mapping[str, bytes], members: int = ALL_MEMBERS) -> None:
        reading = asyncio.create_task(self._fetch(values, members), name="read-rows")
        self._reading |= dict.fromkeys(trace_ids, reading)

    async def _fetch(self, values: Mapping[str, bytes], members: int = ALL_MEMBERS) -> Layout:
        """Read all rows, or if they are large little more than ``READ_BYTES_MAX`` of them, at least one."""
        bound: EngineSettings = {"max_result_bytes": READ_BYTES_MAX, "result_overflow_mode": "break"}
        return await fetch(self._spans, values, members, settings=bound)


def _may_be_cut(layout: Layout) -> bool:
    """Whether the engine may have stopped before the last row. It counts bytes slightly differently than Arrow."""
    return layout.bytes_count >= READ_BYTES_MAX // 2


def _too_large(versions: Iterable[Version], bytes_max: int) -> str:
    trace_ids = {version.trace_id for version in versions}
    [subject, *others] = [f"Trace {trace_id_hex(trace_id)} takes" for trace_id in trace_ids]
    return (
        f"{'These traces take' if others else subject} more than {bytes_max} bytes, too much for one response."
        f" {LARGE_TRACES}"
    )


def _found_in(layouts: Iterable[Layout]) -> set[Version]:
    return {version for layout in layouts for version in layout.versions}


LookUp: TypeAlias = Callable[[Collection[Version]], Awaitable[tuple[Sequence[Version], Sequence[Layout], TraceSums]]]
"""Returns the latest versions of some spans in order, their rows, and what their traces used. Its argument is the
versions that were looked up before and have no row: another version takes the place of each."""


async def render_latest(look_up: LookUp) -> list[Rendered]:
    """Return the latest versions of some spans, all from one state of the table.

    Raises ``Unavailable`` if they are replaced faster than they can be read.
    """
    absent: set[Version] = set()
    for _ in range(TRIES_MAX):
        latest, rows, sums = await look_up(absent)
        is_large = len(latest) > LARGE_SPANS
        found = await in_thread(render_current, rows, latest, sums) if is_large else render_current(rows, latest, sums)
        if len(found) == len(latest):
            return found
        absent |= set(latest).difference(standing_in(latest, set(chain.from_iterable(part.versions for part in rows))))
    raise Unavailable("The spans of this page are replaced faster than they can be read.")
