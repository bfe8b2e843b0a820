"""Which traces are on a page (contract §3.3): a trace stands where its latest matching span starts.

In rounds, each of few statements:

1. *candidates*: rows of spans that match, in the order of pages, behind the position (``candidates.py``);
2. of the traces that are new among them: which version of each span is shown (``spans/latest_versions.py``);
3. of shown spans that would put a trace elsewhere and were no candidates: which of them match. On a first page in
   descending order there are none; behind it, only traces that reach over the page's beginning have some.

Then a candidate brings its trace onto the page exactly when it is the trace's latest matching span. Rows of the traces that
are expected to come onto the page begin to be read with the second step's answer; what they become is ``whole.py``'s concern.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from common.errors import DeadlineExceeded
from common.span import NO_METRICS, Metrics
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.pages.traces_candidates import TraceCandidates, place_of
from query_api.pages.traces_window import TracePosition, TraceWindow
from query_api.spans.columns import among_ids, among_starts
from query_api.spans.latest_versions import LatestAndSums, latest_and_sums
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.rows import RowsAhead
from query_api.spans.tables import Table, read_from
from query_api.spans.version import Position, Version, current_rows, packed_versions, versions_of
from query_api.spans.windowing import Order

ROWS_PER_TRACE: Final = 2
"""Rows asked for at first for each trace that a page can take. More would be found in vain where matches are rare."""

ROWS_PER_TRACE_UNFILTERED: Final = 16
"""… and where every span matches, so that most traces have some."""

SPARE_TRACES: Final = 8
"""Judged beyond what a page needs, so that a few that stand elsewhere do not cost another statement."""

SPARE_ROWS: Final = 16

CANDIDATES_MAX: Final = 50_000
"""In one round: about 4 MB."""


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """A trace, where it stands, the shown versions of all its spans, and what these used together."""

    position: TracePosition
    latest: Collection[Version]
    sums: Metrics


@dataclass(frozen=True, slots=True)
class Found:
    """Traces in the order of pages, and how the search for more of them ended."""

    traces: Sequence[FoundTrace]
    searched_to: TracePosition | None
    """Everything up to here has been looked at, when the budget ended before the page was full."""

    more_follow: bool


async def find_traces(
    spans: ProjectSpans, matching: Compiled, window: TraceWindow, *, limit: int, rows: RowsAhead
) -> Found:
    """The first ``limit`` traces behind the window's position; ``rows`` begins to read them as soon as their spans are known.

    Raises ``DeadlineExceeded`` when nothing could be examined.
    """
    candidates = TraceCandidates(spans, matching, window)
    judge = _Judge(spans, matching, window, candidates, rows)
    found: list[FoundTrace] = []
    rows_per_trace: float = ROWS_PER_TRACE_UNFILTERED if matching.sql == EVERY_ROW.sql else ROWS_PER_TRACE
    rows_count = 0
    while len(found) <= limit and not candidates.is_at_end:
        if candidates.is_out_of_budget:
            return _cut_short(found, candidates.position, window)
        size = min(int((limit + 1 - len(found)) * rows_per_trace) + SPARE_ROWS, CANDIDATES_MAX)
        examined = candidates.position
        batch = await candidates.batch(size)
        try:
            found += await judge.brought_by(batch, limit + 1 - len(found))
        except DeadlineExceeded:
            return _cut_short(found, examined, window)
        rows_count += len(batch)
        rows_per_trace = max(rows_per_trace * 2, rows_count / max(len(found), 1))
    return Found(found[:limit], None, more_follow=len(found) > limit)


def _cut_short(found: list[FoundTrace], position: TracePosition | None, window: TraceWindow) -> Found:
    if position == window.after:
        raise DeadlineExceeded("Nothing could be examined within the budget of the query.")
    return Found(found, position, more_follow=True)


class _Judge:
    """Knows of each trace that comes up its latest matching span, and so which candidate brings it onto the page."""

    def __init__(
        self,
        spans: ProjectSpans,
        matching: Compiled,
        window: TraceWindow,
        candidates: TraceCandidates,
        rows: RowsAhead,
    ) -> None:
        self._spans = spans
        self._matching = matching
        self._window = window
        self._candidates = candidates
        self._rows = rows
        self._traces: dict[bytes, _Judged] = {}
        self._held_places: set[Position] = set()
        """Where versions stand that came since the walk began, and had an earlier one there before."""

    async def brought_by(self, batch: Sequence[Version], most: int) -> list[FoundTrace]:
        """The traces that these candidates, the last ones given, bring, in their order; ``most``, if there are so many."""
        by_trace: dict[bytes, list[Version]] = defaultdict(list)
        for candidate in batch:
            by_trace[candidate.trace_id].append(candidate)
        found: list[FoundTrace] = []
        for part in _parts(batch, traces_count=most + SPARE_TRACES):
            await self._judge(
                {candidate.trace_id: by_trace[candidate.trace_id] for candidate in part},
                most_shown=most - len(found) - 1,
            )
            found += self._brought_by(part)
            if len(found) >= most:
                break
        return found[:most]

    def _brought_by(self, part: Sequence[Version]) -> Iterator[FoundTrace]:
        for candidate in part:
            judged = self._traces.get(candidate.trace_id)
            if judged is not None and not judged.is_given and judged.latest.start_us == candidate.start_us:
                judged.is_given = True
                yield FoundTrace(place_of(candidate), judged.versions, judged.sums)

    async def _judge(self, candidates: Mapping[bytes, Sequence[Version]], *, most_shown: int) -> None:
        """Learn what is not known yet of the traces of these candidates, and begin to read those that the page can take."""
        unknown = {trace_id: versions for trace_id, versions in candidates.items() if trace_id not in self._traces}
        seen = [version for versions in unknown.values() for version in versions]
        expected = list(islice(unknown, most_shown))

        async def read(sent: pa.Table) -> None:
            await self._rows.begin(sent, expected)

        found = await latest_and_sums(self._spans, seen, self._matching, traces_to_sum=unknown.keys(), on_sent=read)
        latest: dict[bytes, list[Version]] = {trace_id: [] for trace_id in unknown}
        for head in found.latest:
            latest[head.trace_id].append(head)
        judged = {
            trace_id: _Judged(
                matching, self._latest_of(matching), latest[trace_id], found.sums.get(trace_id, NO_METRICS)
            )
            for trace_id, versions in unknown.items()
            if (matching := _shown_among(versions, found))
        }
        self._traces |= judged
        await self._learn_sent_again(judged.values())
        await self._raise(judged.values())

    async def _learn_sent_again(self, judged: Collection[_Judged]) -> None:
        """Learn which versions that came since the walk began are of spans that were there before, and let these count so."""
        since = [version for each in judged for version in self._since(each)]
        if not since:
            return
        held, values = self._window.snapshot.held_place_sql(starts=among_starts("starts"))
        sql = _AT_PLACES.replace("{held}", held)
        rows = await self._spans.select(sql, {**values, **packed_versions(since)}, step="spans sent again")
        self._held_places.update(version.position for version in versions_of(rows))
        for each in judged:
            each.latest = self._latest_of(each.matching)

    def _since(self, judged: _Judged) -> list[Version]:
        """Shown spans that came since the walk began, where it matters for the place of their trace whether they came before, too."""
        snapshot = self._window.snapshot
        if snapshot.is_empty:
            return []
        latest = judged.latest
        is_old = snapshot.holds(latest)
        since = [
            head
            for head in judged.versions
            if (head.start_us > latest.start_us or not is_old)  # nearly none: what comes next looks each one up
            and self._window.spans(head.start_us)
            and not snapshot.holds(head)
        ]
        is_all_new = not is_old and len(since) == len(judged.versions)
        return [] if is_all_new else since

    async def _raise(self, judged: Collection[_Judged]) -> None:
        """Let spans count that match and would be later, and that were no candidates."""
        rivals = [rival for each in judged for rival in self._rivals(each)]
        rows = await current_rows(self._spans, rivals, self._matching, step="spans that would be later")
        for rival, row in rows.items():
            if row.matches:
                trace = self._traces[rival.trace_id]
                trace.latest = max(trace.latest, rival, key=self._rank)

    def _latest_of(self, in_order: Sequence[Version]) -> Version:
        """The one of the highest rank; they come in the order of the window, so it is nearly always the first or the last."""
        latest_first = in_order if self._window.order is Order.DESCENDING else in_order[::-1]
        if self._window.snapshot.is_empty:
            return latest_first[0]
        return next(filter(self._is_held, latest_first), latest_first[0])

    def _is_held(self, version: Version) -> bool:
        """Whether its span stood there when the walk began."""
        return self._window.snapshot.holds(version) or version.position in self._held_places

    def _rank(self, version: Version) -> tuple[bool, int]:
        """By which the latest is chosen: what was stored when the walk began comes before what came since."""
        return self._is_held(version), version.start_us

    def _rivals(self, judged: _Judged) -> list[Version]:
        """Shown spans that would be later and that the search has not gone over."""
        rank = is_old, latest_us = self._rank(judged.latest)
        may_start_earlier = not is_old and not self._window.snapshot.is_empty
        return [
            head
            for head in judged.versions
            if (head.start_us > latest_us or may_start_earlier)  # nearly none: what comes next looks each one up
            and self._rank(head) > rank
            and self._window.spans(head.start_us)
            and not self._is_gone_over(head)
        ]

    def _is_gone_over(self, version: Version) -> bool:
        """Whether it would have been a candidate if it matched."""
        place, begin, end = place_of(version), self._window.after, self._candidates.position
        is_on_page = begin is None or self._is_behind(place, begin)
        is_left = not self._candidates.is_at_end and end is not None and self._is_behind(place, end)
        return is_on_page and not is_left

    def _is_behind(self, place: TracePosition, other: TracePosition) -> bool:
        return place < other if self._window.order is Order.DESCENDING else place > other


@dataclass(slots=True)
class _Judged:
    matching: Sequence[Version]
    """The candidates that are shown, in order."""

    latest: Version
    versions: Sequence[Version]
    sums: Metrics
    is_given: bool = False


def _parts(batch: Sequence[Version], *, traces_count: int) -> Iterator[Sequence[Version]]:
    """The batch in pieces, in order, of so many traces each."""
    start, trace_ids = 0, set[bytes]()
    for index, candidate in enumerate(batch):
        trace_ids.add(candidate.trace_id)
        if len(trace_ids) > traces_count:
            yield batch[start:index]
            start, trace_ids = index, {candidate.trace_id}
    yield batch[start:]


_AT_PLACES: Final = f"""
SELECT start_us, span_id, trace_id, partition_id, record_offset
{read_from(Table.SPANS, "({held})", prewhere=[f"start_us IN {among_starts('starts')}", f"span_id IN {among_ids('span_ids')}"])}
"""


def _shown_among(candidates: Sequence[Version], found: LatestAndSums) -> list[Version]:
    """The candidates that are heads, or that heads which match replaced at their places."""
    return [version for version in candidates if version in found.latest or version.position in found.replacements]
