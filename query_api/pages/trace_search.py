"""Which traces are on a page (contract §3.3): the place of a trace is the start of its latest matching span.

A page is found in rounds, each of a few statements:

1. *candidates*: rows of spans that match, in the order of pages, after the position (``page.py``);
2. of the traces that are new among them: which version of each span is visible (``spans/versions.py``);
3. of visible spans that would put a trace elsewhere and were no candidates: which of them match. On a first page in
   descending order there are none; after it, only traces that reach over the beginning of the page have some.

Then a candidate puts its trace on the page exactly if it is the trace's latest matching span. In descending order that
is the first candidate of its trace, unless its version is not visible or arrived since the scan began. So with a filter
a round asks for one candidate of each trace: a filter on what all spans of a trace share, such as their service, would
otherwise return the same few traces again and again. If one of them does not decide where its trace is, the round is
repeated with all candidates, and so are those after it.

The rows of traces that are expected on the page are prefetched with the response of the second step; ``traces.py``
renders them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final

from typing_extensions import override

from common.clickhouse.select import Select, Table
from common.span import NO_METRICS, Metrics
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.pages.page import Batch, Scan, candidates_of_window, run_rounds
from query_api.pages.snapshot import TraceWindow
from query_api.spans.latest_versions import LatestAndSums, current_rows, latest_and_sums
from query_api.spans.project_spans import STOPPING_EARLY, ProjectSpans, StatementBudget
from query_api.spans.rows_ahead import RowsAhead
from query_api.spans.versions import (
    Position,
    TracePosition,
    Version,
    among_ids,
    among_starts,
    packed_versions,
    versions_of,
)
from query_api.spans.window import edge

ROWS_PER_TRACE: Final = 2
"""Rows to request at first for each trace that a page can take, if all candidates are needed. More would be read for
nothing where matches are rare."""

ROWS_PER_TRACE_UNFILTERED: Final = 16
"""The same where every span matches, so that most traces have several matches."""

SPARE_TRACES: Final = 8
"""Traces looked up beyond what a page needs, so that a few that are placed elsewhere do not cost another statement."""

SPARE_ROWS: Final = 16

CANDIDATES_MAX: Final = 50_000
"""In one round: about 4 MB."""

_PLACE: Final = itemgetter(*map(Version._fields.index, TracePosition._fields))
_AT_STARTS: Final = (f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}")


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """A trace: its place, the visible versions of all its spans, and what these used together."""

    position: TracePosition
    latest: Collection[Version]
    sums: Metrics


@dataclass(frozen=True, slots=True)
class FoundTraces:
    """Traces in the order of pages, and how the search for more of them ended."""

    traces: Sequence[FoundTrace]
    searched_to: TracePosition | None
    """Everything up to here was examined, if the budget ended before the page was full."""

    more_follow: bool


async def find_traces(
    spans: ProjectSpans, matching: Compiled, window: TraceWindow, *, limit: int, rows: RowsAhead | None
) -> FoundTraces:
    """Return the first ``limit`` traces after the window's position; ``rows``, if any, prefetches them once their
    spans are known.

    Raises ``DeadlineExceeded`` if nothing could be examined.
    """
    search = _TraceSearch(spans, matching, window, rows, limit=limit)
    await run_rounds(search.run_round)
    more_follow = len(search.found) > limit or not search.is_done
    return FoundTraces(search.found[:limit], None if search.is_done else search.examined, more_follow)


class _TraceSearch:
    """Knows the latest matching span of each trace that comes up, and so which candidate puts it on the page."""

    def __init__(
        self, spans: ProjectSpans, matching: Compiled, window: TraceWindow, rows: RowsAhead | None, *, limit: int
    ) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self._scan = TraceScan(spans, matching, window)
        self._rows = rows
        self._wanted = limit + 1
        is_filtered = matching.sql != EVERY_ROW.sql
        self._scan.is_one_per_trace = is_filtered and window.is_descending
        self._rows_per_trace: float = ROWS_PER_TRACE if is_filtered else ROWS_PER_TRACE_UNFILTERED
        self._rows_count = 0
        self._traces: dict[bytes, _KnownTrace] = {}
        self._held_places: set[Position] = set()
        """Places of versions that arrived since the scan began, where an earlier version was before."""

        self.found: list[FoundTrace] = []
        self.examined = self._scan.position
        """Everything up to here was examined."""

    @property
    def is_done(self) -> bool:
        """Whether enough traces were found, or no rows are left."""
        return len(self.found) >= self._wanted or self._scan.is_at_end

    async def run_round(self) -> bool:
        """Examine the next candidates; return whether it was the last round."""
        wanted = self._wanted - len(self.found)
        begin = self._scan.position
        try:
            found, rows_count = await self._find(wanted)
        except _UndecidedError:
            if self._rows is not None:
                await self._rows.drop()
            self._scan.read_all_from(begin)
            found, rows_count = await self._find(wanted)
        self.found += found
        self.examined = self._scan.position
        self._rows_count += rows_count
        self._rows_per_trace = max(self._rows_per_trace * 2, self._rows_count / max(len(self.found), 1))
        return self.is_done or self._scan.is_out_of_budget

    async def _find(self, wanted: int) -> tuple[list[FoundTrace], int]:
        """Return the traces that the next candidates put on the page, and how many candidates there were."""
        size = min(int(wanted * self._rows_per_trace) + SPARE_ROWS, CANDIDATES_MAX)
        if self._scan.is_one_per_trace and not self._rows_count:
            size = wanted + SPARE_TRACES
        batch = await self._scan.batch(size)
        return await self._placed_by(batch, max_count=wanted), len(batch)

    async def _placed_by(self, batch: Sequence[Version], *, max_count: int) -> list[FoundTrace]:
        """Return the traces that these candidates, the latest of the scan, put on the page, in their order.

        Raises ``_UndecidedError`` if more candidates of one of them are needed.
        """
        by_trace: dict[bytes, list[Version]] = defaultdict(list)
        for candidate in batch:
            by_trace[candidate.trace_id].append(candidate)
        found: list[FoundTrace] = []
        for part in _parts(batch, traces_count=max_count + SPARE_TRACES):
            candidates = {candidate.trace_id: by_trace[candidate.trace_id] for candidate in part}
            try:
                await self._look_up(candidates, prefetch_max=max_count - len(found) - 1)
            except _UndecidedError:
                for trace in found:
                    self._traces[trace.position.trace_id].is_placed = False
                raise
            found += self._placed_by_part(part)
            if len(found) >= max_count:
                break
        return found[:max_count]

    def _placed_by_part(self, part: Sequence[Version]) -> Iterator[FoundTrace]:
        for candidate in part:
            trace = self._traces.get(candidate.trace_id)
            if trace is not None and not trace.is_placed and trace.latest.start_us == candidate.start_us:
                trace.is_placed = True
                yield FoundTrace(place_of(candidate), trace.versions, trace.sums)

    async def _look_up(self, candidates: Mapping[bytes, Sequence[Version]], *, prefetch_max: int) -> None:
        """Learn what is unknown of the traces of these candidates, and prefetch those that the page can take."""
        unknown = {trace_id: versions for trace_id, versions in candidates.items() if trace_id not in self._traces}
        seen = [version for versions in unknown.values() for version in versions]
        expected = list(islice(unknown, prefetch_max))

        prefetch = None if self._rows is None else partial(self._rows.begin, trace_ids=expected)
        found = await latest_and_sums(self._spans, seen, self._matching, traces_to_sum=unknown.keys(), on_sent=prefetch)
        if self._scan.is_one_per_trace and not all(self._decides(candidate, found) for candidate in seen):
            raise _UndecidedError
        latest: dict[bytes, list[Version]] = {trace_id: [] for trace_id in unknown}
        for version in found.latest:
            latest[version.trace_id].append(version)
        known = {
            trace_id: _KnownTrace(
                matching, self._latest_of(matching), latest[trace_id], found.sums.get(trace_id, NO_METRICS)
            )
            for trace_id, versions in unknown.items()
            if (matching := _visible_among(versions, found))
        }
        self._traces |= known
        await self._hold_sent_again(known.values())
        await self._count_rivals(known.values())

    def _decides(self, candidate: Version, found: LatestAndSums) -> bool:
        """Return whether the first candidate of a trace decides where it is, whatever the others are."""
        snapshot = self._window.snapshot
        return candidate in found.latest and (snapshot.is_empty or snapshot.holds(candidate))

    async def _hold_sent_again(self, traces: Collection[_KnownTrace]) -> None:
        """Find versions that arrived since the scan began, of spans that were there before; count them as held."""
        since = [version for trace in traces for version in self._since(trace)]
        if not since:
            return
        project_id, starts = self._spans.project_id, among_starts("starts")
        held, values = self._window.snapshot.held_place_sql(project_id, starts=starts)
        places = {**values, **packed_versions(since)}
        at_places = Select(project_id, Table.SPANS, Version._fields, [held], prewhere=_AT_STARTS, parameters=places)
        rows = await self._spans.select(at_places, step="spans sent again")
        self._held_places.update(version.position for version in versions_of(rows))
        for trace in traces:
            trace.latest = self._latest_of(trace.matching)

    def _since(self, trace: _KnownTrace) -> list[Version]:
        """Return visible spans that arrived since the scan began and would change the trace's place if held."""
        snapshot = self._window.snapshot
        if snapshot.is_empty:
            return []
        latest = trace.latest
        is_old = snapshot.holds(latest)
        since = [
            version
            for version in trace.versions
            if (version.start_us > latest.start_us or not is_old)  # nearly none: the next conditions are slower
            and self._window.includes(version.start_us)
            and not snapshot.holds(version)
        ]
        is_all_new = not is_old and len(since) == len(trace.versions)
        return [] if is_all_new else since

    async def _count_rivals(self, traces: Collection[_KnownTrace]) -> None:
        """Place traces by spans that match and would be later, and that were no candidates."""
        rivals = [rival for trace in traces for rival in self._rivals(trace)]
        rows = await current_rows(self._spans, rivals, self._matching, step="spans that would be later")
        for rival, row in rows.items():
            if row.matches:
                trace = self._traces[rival.trace_id]
                trace.latest = max(trace.latest, rival, key=self._rank)

    def _latest_of(self, in_order: Sequence[Version]) -> Version:
        """Return the version of the highest rank: in the order of the window nearly always the first or last."""
        latest_first = in_order if self._window.is_descending else in_order[::-1]
        if self._window.snapshot.is_empty:
            return latest_first[0]
        return next(filter(self._is_held, latest_first), latest_first[0])

    def _is_held(self, version: Version) -> bool:
        """Return whether the span was at this place when the scan began."""
        return self._window.snapshot.holds(version) or version.position in self._held_places

    def _rank(self, version: Version) -> tuple[bool, int]:
        """Return the key of the latest: what was stored when the scan began wins over what arrived since."""
        return self._is_held(version), version.start_us

    def _rivals(self, trace: _KnownTrace) -> list[Version]:
        """Return visible spans that would be later and that the scan has not passed."""
        rank = is_old, latest_us = self._rank(trace.latest)
        may_start_earlier = not is_old and not self._window.snapshot.is_empty
        return [
            version
            for version in trace.versions
            if (version.start_us > latest_us or may_start_earlier)  # nearly none: the next conditions are slower
            and self._rank(version) > rank
            and self._window.includes(version.start_us)
            and not self._is_passed(version)
        ]

    def _is_passed(self, version: Version) -> bool:
        """Return whether it would have been a candidate if it matched."""
        place, begin, end = place_of(version), self._window.after, self._scan.position
        is_on_page = begin is None or self._is_after(place, begin)
        is_left = not self._scan.is_at_end and end is not None and self._is_after(place, end)
        return is_on_page and not is_left

    def _is_after(self, place: tuple[int, bytes], other: tuple[int, *tuple[bytes, ...]]) -> bool:
        return place < other if self._window.is_descending else place > other


class _UndecidedError(Exception):
    """One candidate of each trace is not enough to place one of them."""


@dataclass(slots=True)
class _KnownTrace:
    matching: Sequence[Version]
    """The candidates that are visible, in order."""

    latest: Version
    versions: Sequence[Version]
    sums: Metrics
    is_placed: bool = False


class TraceScan(Scan[Version, TracePosition]):
    """Scans the rows of a window that match, those of a trace with one start together.

    The engine reads in the order of the table, by start and then by span, and stops early in no other order. So rows
    are requested in that order, whole microseconds of them, and are sorted into the order of pages here. A microsecond
    with more rows than were requested is a statement of its own, in the order of pages.
    """

    columns = Version._fields
    place = TracePosition

    is_one_per_trace: bool = False
    """Whether only the first row of each trace is scanned, of those after the position."""

    @override
    def _query(self, matching: Compiled, count: int, *, until_us: int | None = None) -> Select:
        query = super()._query(matching, count, until_us=until_us)
        return replace(query, limit_by="1 BY trace_id") if self.is_one_per_trace else query

    def read_all_from(self, position: TracePosition | None) -> None:
        """Go back to an earlier position, and scan all rows from there."""
        self.is_one_per_trace = self.is_at_end = False
        self._move(position)

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[Version, TracePosition]:
        found = await self._rows(self._query(self._matching, size, until_us=until_us), share)
        if len(found) < size:
            return Batch(self._in_order(found), None)
        last_us = found[-1].start_us
        whole = self._in_order([version for version in found if version.start_us != last_us])
        if whole:
            return Batch(whole, edge(TracePosition, whole[-1].start_us, self._window.order))
        return await self._select_at(last_us, size)

    async def _select_at(self, start_us: int, size: int) -> Batch[Version, TracePosition]:
        """Return the first matches of one microsecond, those of a trace together."""
        project_id, order = self._spans.project_id, TracePosition._fields
        while True:
            query = candidates_of_window(
                project_id, self.columns, self._matching, self._window, count=size, order_by=order, at_us=start_us
            )
            found = await self._rows(query, self._budget.share())
            if len(found) < size:
                return Batch(found, edge(TracePosition, start_us, self._window.order))
            last = place_of(found[-1])
            whole = [version for version in found if place_of(version) != last]
            if whole:
                return Batch(whole, place_of(whole[-1]))
            size *= 2  # many spans of one trace start together

    async def _rows(self, query: Select, share: StatementBudget) -> list[Version]:
        rows = await self._spans.select(query, step="candidates", share=share, settings=STOPPING_EARLY)
        return versions_of(rows)

    def _in_order(self, versions: list[Version]) -> list[Version]:
        return sorted(versions, key=_PLACE, reverse=self._window.is_descending)


def place_of(version: Version) -> TracePosition:
    """Return the place of the version's trace if this is its latest match."""
    return TracePosition(version.start_us, version.trace_id)


def _parts(batch: Sequence[Version], *, traces_count: int) -> Iterator[Sequence[Version]]:
    """Return the batch in pieces of ``traces_count`` traces, in order."""
    start, trace_ids = 0, set[bytes]()
    for index, candidate in enumerate(batch):
        trace_ids.add(candidate.trace_id)
        if len(trace_ids) > traces_count:
            yield batch[start:index]
            start, trace_ids = index, {candidate.trace_id}
    yield batch[start:]


def _visible_among(candidates: Sequence[Version], found: LatestAndSums) -> list[Version]:
    """Return the candidates that are latest versions, or that a matching latest version replaced at their places."""
    return [version for version in candidates if version in found.latest or version.position in found.replacements]
