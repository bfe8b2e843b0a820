"""Pages of spans: keyset over ``spans``, the head check, and the rows (contract §3.3).

A page is found in steps, each as narrow as it can be:

1. *candidates* (``candidates.py``): the light columns of rows that match, in order, behind the position;
2. at the same time, for these: which of them are heads, the sums of the traces whose roots are among them, and the
   rows of as many as the page can still take (``rows.py``); what comes first is made use of while the other is awaited;
3. again from the last candidate while the page is not full and there is budget.

Producers send spans again while this goes on. A candidate that was replaced at its place since it was found is given in its
later version, if that matches too: the head check finds that version (``latest_versions.py``), and a row that is gone is looked for again
at its place (``current_rows.py``).

Walking gives every span once because a head is one row (same key, log, offset and start) and the order is total on keys. A row
that is stale, deleted, or there twice because the engine has not merged yet, is a candidate and no more. A page that runs
out of budget ends where the search had come to, and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, takewhile
from typing import Any, Final

from common.errors import DeadlineExceeded
from common.threads import in_thread
from query_api.filter.sql.compile import Compiled
from query_api.pages.spans_candidates import Candidate, Candidates, Window
from query_api.spans.latest_versions import latest_and_sums
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.render import Layout, Rendered
from query_api.spans.rows import LARGE_BYTES, LARGE_SPANS, fetch_matching_rows, fetch_rows, render_versions
from query_api.spans.usage import TraceSums
from query_api.spans.version import Position, Version, standing_in

SPARE_CANDIDATES: Final = 16
"""Looked at beyond what a page needs, so that a few stale versions do not cost a second round."""

CANDIDATES_MAX: Final = 50_000
"""In one round: about 5 MB of light columns."""


@dataclass(frozen=True, slots=True)
class Page:
    """Spans in order. ``ends_at`` is the position behind the last, when more can follow.

    ``is_complete`` unless the budget ended before the page was full, or all that it was to show went away while it was read.
    """

    spans: Sequence[Rendered]
    ends_at: Position | None
    is_complete: bool = True


async def find_page(spans: ProjectSpans, matching: Compiled, window: Window, *, limit: int, bytes_max: int) -> Page:
    """The first spans that match behind the window's position: ``limit`` of them, or as many as ``bytes_max`` holds, or all
    there are, or those that the budget was enough for. A page that is complete and not the end has at least one.

    Raises ``DeadlineExceeded`` when the budget was spent before anything was examined.
    """
    search = Candidates(spans, matching, window)
    page = _PageInProgress(limit=limit, bytes_max=bytes_max)
    size = min(limit + 1 + SPARE_CANDIDATES, CANDIDATES_MAX)
    examined: Position | None = None
    while True:
        batch = await search.batch(size)
        try:
            await _judge(spans, matching, batch, page)
        except DeadlineExceeded:
            if examined is None:
                raise
            break
        examined = None if search.is_at_end else search.position
        if page.is_full or search.is_at_end or search.is_out_of_budget:
            break
        size = min(size * 2, CANDIDATES_MAX)
    if missing := page.missing():
        page.add_matching_rows(await fetch_matching_rows(spans, missing, matching), of=missing)
    finish = partial(page.finished, examined)
    return await in_thread(finish) if page.is_large else finish()


async def _judge(spans: ProjectSpans, matching: Compiled, batch: Sequence[Candidate], page: _PageInProgress) -> None:
    """Put those of the batch that are shown on the page."""
    candidates = page.expected(batch)
    expected = [candidate.version for candidate in candidates]
    found, rows = await asyncio.gather(
        latest_and_sums(
            spans,
            [candidate.version for candidate in batch],
            matching,
            traces_to_sum={candidate.version.trace_id for candidate in batch if candidate.is_root},
        ),
        fetch_rows(spans, expected, members=[candidate.members for candidate in candidates]),
    )
    for candidate in batch:
        if candidate.version in found.latest:
            page.add(candidate.version, candidate.answer_bytes)
        elif (row := found.replacements.get(candidate.version.position)) is not None:
            page.add(row.version, row.answer_bytes)
    page.add_rows(rows, found.sums)


class _PageInProgress:
    """Heads found so far, and what is known of them."""

    def __init__(self, *, limit: int, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self._winners: dict[Version, int] = {}
        self._sums: dict[bytes, Any] = {}
        self._rows: list[Layout] = []
        self._replaced: dict[Version, Version] = {}

    @property
    def is_full(self) -> bool:
        """Whether it is known what the page holds and that more can follow."""
        return len(self._winners) > len(self._fitting())

    @property
    def is_large(self) -> bool:
        """Whether to render it would hold up other requests: longer than about 5 ms."""
        return len(self._winners) > LARGE_SPANS or sum(self._winners.values()) > LARGE_BYTES

    def expected(self, batch: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that are on the page when all of them are heads."""
        room = self._limit - len(self._winners)
        bytes_so_far = accumulate((candidate.answer_bytes for candidate in batch), initial=sum(self._winners.values()))
        fitting = takewhile(lambda pair: pair[1] < self._bytes_max, zip(batch, bytes_so_far, strict=False))
        return [candidate for candidate, _ in fitting][:room]

    def add(self, head: Version, answer_bytes: int) -> None:
        """Put a head behind those that were found before."""
        self._winners.setdefault(head, answer_bytes)  # the same row may be there twice

    def add_rows(self, rows: Layout, sums: TraceSums) -> None:
        """Keep what is needed to show heads."""
        self._rows.append(rows)
        self._sums.update(sums)

    def missing(self) -> list[Version]:
        """What is on the page and has no row yet: it was not expected to be, or was replaced since."""
        read = set(chain.from_iterable(rows.versions for rows in self._rows))
        return [version for version in self._fitting() if version not in read]

    def add_matching_rows(self, rows: Layout, *, of: Sequence[Version]) -> None:
        """Keep the rows of versions that were missing, or of those that stand in their places."""
        self._rows.append(rows)
        self._replaced = standing_in(of, set(rows.versions))

    def finished(self, examined: Position | None) -> Page:
        """The page. ``examined``: how far the search has come, ``None`` where it came to the end."""
        fitting = self._fitting()
        current = [self._replaced.get(version, version) for version in fitting]
        spans = render_versions(self._rows, current, self._sums)
        if len(self._winners) > len(fitting):
            return Page(spans, fitting[-1].position, is_complete=bool(spans))
        return Page(spans, examined, is_complete=examined is None or len(fitting) == self._limit)

    def _fitting(self) -> list[Version]:
        """The winners that fit on the page: always the first, then while there is room."""
        fitting: list[Version] = []
        bytes_count = 0
        for version, answer_bytes in self._winners.items():
            bytes_count += answer_bytes
            if fitting and (len(fitting) == self._limit or bytes_count > self._bytes_max):
                break
            fitting.append(version)
        return fitting
