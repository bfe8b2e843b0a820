"""All spans of traces, rendered: the page of traces that fits, and traces by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

from common.errors import Unavailable
from common.ids import trace_id_hex
from common.threads import in_thread
from query_api.pages.traces_search import FoundTrace
from query_api.pages.traces_window import TracePosition
from query_api.pages.tree import tree_json, tree_pieces
from query_api.spans.latest_versions import latest_of_traces
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import Layout, Rendered
from query_api.spans.rows import LARGE_SPANS, RowsAhead, render_current
from query_api.spans.usage import TraceSums
from query_api.spans.version import Version, standing_in

SPANS_PER_READ: Final = 4_000
"""Of the traces of one read together: a few MB. A page that is full of bytes after one has not read the others."""

_BY_TRACE: Final = itemgetter(*map(Version._fields.index, ("trace_id", "start_us", "span_id")))

TRIES_MAX: Final = 5
"""A version whose row is not in the table yet: read both again without it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace: its spans, earliest first, then by ids; never none."""

    trace_id: bytes
    spans: Sequence[Rendered]

    @property
    def bytes_count(self) -> int:
        """What its spans take in an answer."""
        return sum(len(span.json) for span in self.spans)

    @property
    def tree(self) -> bytes:
        """The JSON object of its spans by name, each with those below it."""
        return tree_json(self.spans)

    @property
    def json(self) -> bytes:
        """The trace as answers show it."""
        return b"".join(self.pieces)

    @property
    def pieces(self) -> list[bytes]:
        """The same, not joined yet: a page of traces is joined once."""
        return [b'{"trace_id":"%b","spans":' % trace_id_hex(self.trace_id).encode(), *tree_pieces(self.spans), b"}"]


async def traces_of_ids(spans: ProjectSpans, trace_ids: Sequence[bytes], *, bytes_max: int) -> list[Trace]:
    """The traces, in the order of their ids; those that have no span are left out.

    Raises ``InvalidInput`` when they are larger than ``bytes_max``.
    """
    async with RowsAhead(spans, bytes_max=bytes_max) as rows:
        latest, sums = await latest_of_traces(spans, trace_ids, on_sent=partial(rows.begin, trace_ids=trace_ids))
        in_order = sorted(latest, key=_BY_TRACE)
        read = await _traces_of(spans, in_order, sums, await rows.take(in_order), rows)
    by_id = {trace.trace_id: trace for trace in read}
    return [by_id[trace_id] for trace_id in trace_ids if trace_id in by_id]


@dataclass(frozen=True, slots=True)
class WholeTraces:
    """Traces in the order of a page. ``is_cut`` when they are not all that were found: the others did not fit."""

    traces: Sequence[Trace]
    ends_at: TracePosition | None
    """Where the last of them stood."""

    is_cut: bool


async def read_page(
    spans: ProjectSpans, found: Sequence[FoundTrace], *, bytes_max: int, rows: RowsAhead
) -> WholeTraces:
    """The first of the traces, as many as ``bytes_max`` holds, at least one. One that was deleted meanwhile is left out.

    ``rows``: where they are read already, or will be.
    """
    page = _PageInProgress(spans, rows, bytes_max=bytes_max)
    for part in _parts(found):
        if not await page.takes(part):
            return WholeTraces(page.traces, page.ends_at, is_cut=True)
    return WholeTraces(page.traces, page.ends_at, is_cut=False)


class _PageInProgress:
    """Traces in order, as many as there is room for."""

    def __init__(self, spans: ProjectSpans, rows: RowsAhead, *, bytes_max: int) -> None:
        self._spans = spans
        self._rows = rows
        self._room = bytes_max
        self.traces: list[Trace] = []
        self.ends_at: TracePosition | None = None

    async def takes(self, part: Sequence[FoundTrace]) -> bool:
        """Put the traces behind the others, those that are still there; false at the first for which there is no room."""
        latest = sorted((head for each in part for head in each.latest), key=_BY_TRACE)  # while they are read
        layouts = await (self._rows.take(latest) if len(part) == 1 else self._rows.take_together(latest))
        if layouts is None:
            return await self._takes_one_by_one(part)
        sums = {each.position.trace_id: each.sums for each in part}
        return self._holds(part, await _traces_of(self._spans, latest, sums, layouts, self._rows))

    async def _takes_one_by_one(self, part: Sequence[FoundTrace]) -> bool:
        for each in part:
            if not await self.takes([each]):
                return False
        return True

    def _holds(self, part: Sequence[FoundTrace], read: Sequence[Trace]) -> bool:
        by_id = {trace.trace_id: trace for trace in read}
        for each in part:
            trace = by_id.get(each.position.trace_id)
            self._room -= trace.bytes_count if trace is not None else 0
            if self._room < 0 and self.traces:
                return False
            self.traces += [trace] if trace is not None else []
            self.ends_at = each.position
        return True


def _parts(found: Sequence[FoundTrace]) -> Iterator[list[FoundTrace]]:
    part: list[FoundTrace] = []
    spans_count = 0
    for each in found:
        if part and spans_count + len(each.latest) > SPANS_PER_READ:
            yield part
            part, spans_count = [], 0
        part.append(each)
        spans_count += len(each.latest)
    if part:
        yield part


async def _traces_of(
    spans: ProjectSpans, latest: Sequence[Version], sums: TraceSums, layouts: Sequence[Layout], rows: RowsAhead
) -> list[Trace]:
    """The traces of these heads, which are in order, used these sums and are laid out. When the heads are no longer those of now, the
    traces of now."""
    trace_ids = {head.trace_id for head in latest}
    absent: set[Version] = set()
    for _ in range(TRIES_MAX):
        read = await _rendered(layouts, latest, sums)
        if len(read) == len(latest):
            return [Trace(key, list(group)) for key, group in groupby(read, key=attrgetter("version.trace_id"))]
        absent |= set(latest).difference(standing_in(latest, {span.version for span in read}))
        found, sums = await latest_of_traces(spans, trace_ids, absent=absent)
        latest = sorted(found, key=_BY_TRACE)
        layouts = await rows.take(latest)
    raise Unavailable("These spans are being replaced faster than they can be read.")


async def _rendered(layouts: Sequence[Layout], latest: Sequence[Version], sums: TraceSums) -> list[Rendered]:
    if len(latest) <= LARGE_SPANS:
        return render_current(layouts, latest, sums)
    return await in_thread(render_current, layouts, latest, sums)
