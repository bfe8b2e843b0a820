"""A page of the feed: what arrived, which of it matches and is shown, and where the reader stands then (ADR 0007).

A page is found in rounds, each of a few statements:

1. *arrivals*: the next places of the logs, up to their watermarks, as narrow rows;
2. *candidates*: which of these match, from ``spans``;
3. at the same time, for these: which of them are heads, and the rows of as many as the page can still take;
4. again, four times as many, until the page is full, everything that is stored is examined, or the budget ends.

The reader goes past all that was examined, matching or not. A version is at one place for ever, so it is given at most once;
a version that is not a head any more was replaced by one at a later place, or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Final, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from common.errors import DeadlineExceeded
from common.span import Metrics
from query_api.filter.sql.compile import Compiled
from query_api.pages.feed_arrivals import PARTITIONS_MAX, Arrivals, Pending, StartBounds, next_arrivals
from query_api.pages.feed_positions import Positions
from query_api.request.progress import Through
from query_api.spans.latest_versions import latest_and_sums
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import Layout, Rendered
from query_api.spans.rows import fetch_rows, render_versions
from query_api.spans.tables import Table, read_from
from query_api.spans.version import Version, versions_of
from query_api.spans.windowing import SAMPLED

SPARE_ARRIVALS: Final = 16
"""Looked at beyond what a page needs, so that a few stale versions do not cost a second round."""

ARRIVALS_MAX: Final = 20_000
"""Examined in one round."""

GROWTH: Final = 4
"""From one round to the next: a rare match is found in few rounds, a frequent one without much to throw away."""

FINISHING_SHARE: Final = 0.5
"""No round begins when less than this share of the budget is left, so that one that takes long still ends within it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a reader wants: which spans, and how much at once. ``rate_percent`` keeps so many of a hundred traces."""

    matching: Compiled
    bounds: StartBounds
    rate_percent: int
    limit: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Spans in the order in which they became queryable, and where the reader stands behind them.

    ``is_complete`` is false when the budget ended first: there is more, which could not be examined.
    """

    spans: Sequence[Rendered]
    positions: Positions
    is_complete: bool


async def read_feed(
    spans: ProjectSpans,
    question: Question,
    positions: Positions,
    *,
    through: Mapping[str, Through],
) -> FeedPage:
    """What is new behind ``positions``, up to ``through``: ``limit`` spans, or as many as ``bytes_max`` holds, or all.

    Raises ``DeadlineExceeded`` when nothing at all could be examined within the budget of ``spans``.
    """
    page = _PageInProgress(question, positions)
    rows_left = spans.budget_rows
    size = min(question.limit + SPARE_ARRIVALS, ARRIVALS_MAX)
    while not page.is_full and (pending := _pending(page.positions, through)):
        if rows_left <= 0 or spans.remaining_s < spans.budget_s * FINISHING_SHARE:
            return await page.finished(spans, is_complete=False)
        try:
            arrivals = await next_arrivals(spans, pending, question.bounds, size=size)
            rows_left -= len(arrivals)
            page.add(arrivals, await _examined(spans, question, arrivals, page))
        except DeadlineExceeded:
            if page.positions is positions:
                raise
            return await page.finished(spans, is_complete=False)
        size = min(size * GROWTH, ARRIVALS_MAX)
    return await page.finished(spans, is_complete=True)


def _pending(positions: Positions, through: Mapping[str, Through]) -> list[Pending]:
    """What is to be read next: of the logs that are not at their end those that stood still longest."""
    partition_ids = [
        Pending(partition_id, positions.after(partition_id), each.offset) for partition_id, each in through.items()
    ]
    unread = [each for each in partition_ids if not each.is_empty]
    unread.sort(key=lambda each: (through[each.partition_id].stored_us, each.partition_id))
    return unread[:PARTITIONS_MAX]


class _Candidate(NamedTuple):
    """An arrival that matches. ``rank`` is where it stands among the arrivals of its round."""

    rank: int
    version: Version
    is_root: bool
    answer_bytes: int
    members: int
    """Which of ``OPTIONAL_MEMBERS`` it has."""


class _Examined(NamedTuple):
    """What a round found: the candidates that are heads, in order, and what is known for showing them."""

    latest: Sequence[_Candidate]
    sums: Mapping[bytes, Metrics]
    rows: Layout


async def _examined(
    spans: ProjectSpans, question: Question, arrivals: Arrivals, page: _PageInProgress
) -> _Examined | None:
    if not len(arrivals):
        return None
    sql, parameters = candidates_statement(question, arrivals)
    found = _candidates(await spans.select(sql, parameters, step="candidates"), arrivals)
    if not found:
        return None
    expected = page.expected(found)
    judged, rows = await asyncio.gather(
        latest_and_sums(
            spans,
            [each.version for each in found],
            question.matching,
            traces_to_sum={each.version.trace_id for each in found if each.is_root},
        ),
        fetch_rows(spans, [each.version for each in expected], members=[each.members for each in expected]),
    )
    return _Examined([each for each in found if each.version in judged.latest], judged.sums, rows)


def candidates_statement(question: Question, arrivals: Arrivals) -> tuple[str, dict[str, Any]]:
    """The statement that gives the rows of these arrivals that match, and some of their neighbours; and its values."""
    starts = sorted(set(arrivals.starts_us))
    parameters: dict[str, Any] = {"low": starts[0], "high": starts[-1], "starts": starts}
    extents: dict[str, tuple[int, int]] = {}
    for partition_id, (offset, _) in zip(arrivals.partition_ids, arrivals.places, strict=True):
        extents[partition_id] = (extents.get(partition_id, (offset, offset))[0], offset)
    parts = []
    for index, (partition_id, (first, last)) in enumerate(extents.items()):
        parameters |= {f"log_{index}": partition_id, f"first_{index}": first, f"last_{index}": last}
        parts.append(
            f"(partition_id = {{log_{index}:String}} AND record_offset >= {{first_{index}:UInt64}}"
            f" AND record_offset <= {{last_{index}:UInt64}})"
        )
    conditions = [
        "start_us >= {low:Int64} AND start_us <= {high:Int64}",
        "start_us IN (SELECT arrayJoin({starts:Array(Int64)}))",
        f"({' OR '.join(parts)})",
        question.matching.sql,
    ]
    if question.rate_percent < 100:
        conditions.append(SAMPLED)
        parameters["rate_percent"] = question.rate_percent
    sql = (
        "SELECT start_us, span_id, trace_id, partition_id, record_offset, span_index, parent_id, answer_bytes, members\n"
        + read_from(Table.SPANS, *conditions)
    )
    return sql, {**parameters, **question.matching.parameters}


def _candidates(rows: pa.Table, arrivals: Arrivals) -> list[_Candidate]:
    """In the order of the arrivals, each version once: a row may be there twice because the engine has not merged yet."""
    index_of = {
        (partition_id, *place): index
        for index, (partition_id, place) in enumerate(zip(arrivals.partition_ids, arrivals.places, strict=True))
    }
    columns = (rows.column(name).to_pylist() for name in ("span_index", "parent_id", "answer_bytes", "members"))
    found: dict[Version, _Candidate] = {}
    for version, span_index, parent_id, answer_bytes, members in zip(versions_of(rows), *columns, strict=True):
        index = index_of.get((version.partition_id.decode(), version.record_offset, span_index))
        if index is not None:
            found[version] = _Candidate(index, version, parent_id == NO_PARENT, answer_bytes, members)
    return sorted(found.values())


@dataclass(slots=True)
class _PageInProgress:
    """What is on the page so far, and where the reader stands behind it."""

    question: Question
    positions: Positions
    is_full: bool = False
    _shown: list[Version] = field(default_factory=list)
    _bytes_count: int = 0
    _sums: dict[bytes, Metrics] = field(default_factory=dict)
    _rows: list[Layout] = field(default_factory=list)

    def expected(self, found: Sequence[_Candidate]) -> list[_Candidate]:
        """The candidates that are on the page when all of them are heads."""
        room = self.question.limit - len(self._shown)
        before = accumulate((each.answer_bytes for each in found), initial=self._bytes_count)
        fitting = takewhile(lambda pair: pair[1] < self.question.bytes_max, zip(found, before, strict=False))
        return [each for each, _ in fitting][:room]

    def add(self, arrivals: Arrivals, examined: _Examined | None) -> None:
        """Take what fits; the reader goes past the last of it, or past everything when all fits."""
        count = len(arrivals)
        if examined is not None:
            self._sums.update(examined.sums)
            self._rows.append(examined.rows)
            count = self._take(examined.latest, count)
        self.positions = self.positions.moved(arrivals.last_places(count))

    def _take(self, latest: Sequence[_Candidate], count: int) -> int:
        """How many of ``count`` arrivals are behind the reader once the page holds what fits."""
        for head in latest:
            bytes_count = self._bytes_count + head.answer_bytes
            if self._shown and bytes_count > self.question.bytes_max:
                self.is_full = True
                return head.rank
            self._bytes_count = bytes_count
            self._shown.append(head.version)
            if len(self._shown) == self.question.limit:
                self.is_full = True
                return head.rank + 1
        return count

    async def finished(self, spans: ProjectSpans, *, is_complete: bool) -> FeedPage:
        """The page with its spans rendered; what was replaced a moment ago is left out, its successor comes later."""
        here = {version for rows in self._rows for version in rows.versions}
        missing = [version for version in self._shown if version not in here]
        if missing:
            self._rows.append(await fetch_rows(spans, missing))
        rendered = render_versions(self._rows, self._shown, self._sums)
        return FeedPage(rendered, self.positions, is_complete)
