"""The span routes (reference §1.1), and pages of spans by ``start_time`` (contract §3.3).

A page is found in rounds, each step as narrow as it can be:

1. *candidates*: the light columns of rows that match, in order, after the position (``page.py``);
2. at the same time: which of them are the latest versions of their spans, what the traces used whose roots are among
   them, and the rows of as many as the page can still take (``page.py``);
3. again after the last candidate, while the page is not full and the budget lasts.

Producers send spans again meanwhile. A candidate that was replaced at its place since it was found is returned in its
later version, if that matches too: the check of the latest versions finds that version, and a row that is gone is
looked for again at its place.

Pages return every span once, because the latest version is one row (same key, partition, offset and start) and the
order is total on keys. A row that is stale, deleted, or stored twice, is only a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import ConfigDict, Field

from common.clickhouse.span_columns import ALL_MEMBERS
from common.fair_share import in_thread
from query_api.explain.explain import Explain, Explanation, explained
from query_api.filter.language import Node
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.pages.feed import query_feed
from query_api.pages.page import (
    CANDIDATE_COLUMNS,
    Batch,
    Candidate,
    Page,
    Scan,
    SpansInProgress,
    candidates_of,
    run_rounds,
    spans_json,
)
from query_api.pages.ranking import ranked_spans
from query_api.pages.span_model import SpanModel
from query_api.request.json_body import ApiModel, Strict, limit_of
from query_api.request.references import ReferenceIn
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import MANY_VERSIONS, LatestAndSums
from query_api.spans.project_spans import STOPPING_EARLY, ProjectSpans, StatementBudget, project_spans
from query_api.spans.rows import Rendered, fetch_matching_rows
from query_api.spans.unfit_windows import refuse_unfit
from query_api.spans.versions import Position, Version
from query_api.spans.window import Resolve, Window, pack_position, page_cursor, query_of, spans_window
from query_api.spans.windowing import Filtering, IsComplete, WindowBy, Windowing, WindowingResponse

SPARE_CANDIDATES: Final = 16
"""Candidates beyond what a page needs, so that a few stale versions do not cost a second round."""

ROWS_PER_SPAN_MAX: Final = 4.0
ROWS_PER_SPAN_DECAY: Final = 0.98
"""How many rows a span may have for a page to expect them, and what is left of that after a page whose spans have one.
Spans that log events were joined to have two: without this, each of their pages would take a second round."""

CANDIDATES_MAX: Final = 50_000
"""In one round: about 5 MB of light columns."""


class SpansQuery(Strict):
    """A query for spans. Without members it returns the newest page of all spans.

    References name a saved query. Its conditions apply in addition to those of the request, and its window supplies the
    members that the request does not set.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "filtering": {"conditions": [{"field": "status_code", "value": "STATUS_CODE_ERROR"}]},
                    "windowing": {"oldest": "2026-01-02T00:00:00Z", "limit": 50, "sort": {"by": "cost"}},
                }
            ]
        }
    )

    filtering: Filtering = Field(None, description="The filter of the spans.")
    windowing: Windowing | None = Field(None, description="The page to return.")
    query_ref: ReferenceIn | None = Field(None, description="A saved query: the newest revision of its first variant.")
    query_variant_ref: ReferenceIn | None = Field(None, description="A variant of a saved query: its newest revision.")
    query_revision_ref: ReferenceIn | None = Field(
        None, description="A revision of a saved query, by id or slug; or by version, with one of the other references."
    )
    explain: Explain = None


class SpansResponse(ApiModel):
    """Spans in order."""

    count: int = Field(description="The number of spans in the response.")
    spans: list[SpanModel] = Field(description="The spans.")
    windowing: WindowingResponse | None = Field(None, description="The cursor of the next page, if more may follow.")
    complete: IsComplete = None
    explain: Explanation = None


async def query_spans(resolve: Resolve, request: Request) -> Response:
    """Return a page of the spans that match.

    By ``start_time``, or a page of the feed by ``created_at``.
    """
    filtering, windowing = await query_of(request, resolve)
    refuse_unfit(windowing)
    if windowing.by is WindowBy.CREATED_AT:
        return await query_feed(request, filtering, windowing)
    return Response(spans_json(await span_page(request, filtering, windowing)))


async def span_page(request: Request, filtering: Node, windowing: Windowing) -> Page[Rendered]:
    """Return the page of spans, or the ranking, that ``windowing`` asks for."""
    if windowing.sort is not None:
        return await ranked_spans(request, filtering, windowing, windowing.sort)
    settings = request.context.settings.query
    cursor = page_cursor(request, "spans", filtering, windowing, takes_ids=True)
    spans = project_spans(request)
    rows_per_span, project_id = request.context.rows_per_span, request.project_id
    known = rows_per_span.pop(project_id, 1.0)
    found = await find_page(
        spans,
        await compile_node(filtering, now_us=cursor.now_us),
        spans_window(windowing, position=cursor.position, now_us=cursor.now_us),
        limit=limit_of(windowing.limit, settings),
        bytes_max=settings.page_bytes_max,
        rows_per_span=known,
    )
    expected = max(found.rows_per_span, known * ROWS_PER_SPAN_DECAY)
    if expected > 1:
        rows_per_span[project_id] = expected
    explanation = await explained(spans, filtering) if spans.is_recorded else None
    ends_at = found.ends_at
    following = None if ends_at is None else cursor.write(pack_position(ends_at))
    return Page(found.spans, following, found.is_complete, explanation)


@dataclass(frozen=True, slots=True)
class FoundSpans:
    """The spans of a page in order. ``ends_at`` is the place after the last, if more may follow.

    ``rows_per_span`` is how many rows were examined for each of them; 1 if they are few.
    """

    spans: Sequence[Rendered]
    ends_at: Position | None
    is_complete: bool
    rows_per_span: float


async def find_page(
    spans: ProjectSpans,
    matching: Compiled,
    window: Window,
    *,
    limit: int,
    bytes_max: int,
    rows_per_span: float = 1.0,
) -> FoundSpans:
    """Return the first spans that match after the window's position; ``rows_per_span`` is that of earlier pages.

    There are ``limit`` of them, or as many as ``bytes_max`` holds, or all, or as many as the budget sufficed for. A
    complete page that is not the last has at least one span. Raises ``DeadlineExceeded`` if the budget ended before
    anything was examined.
    """
    page = SpansInProgress(spans, matching, limit=limit, bytes_max=bytes_max)
    search = _SpanSearch(
        SpanScan(spans, matching, window), page, size=int((limit + 1) * rows_per_span) + SPARE_CANDIDATES
    )
    await run_rounds(search.run_round)
    if missing := page.missing():
        page.add_rows(await fetch_matching_rows(spans, missing, matching), of=missing, are_current=True)
    rendered = await page.rendered()
    if page.capacity.is_exceeded:
        last = next(reversed(page.versions)).position
        return FoundSpans(rendered, last, bool(rendered), search.rows_per_span)
    is_complete = search.examined is None or page.capacity.is_at_limit
    return FoundSpans(rendered, search.examined, is_complete, search.rows_per_span)


class _SpanSearch:
    """Puts the visible candidates of a scan on a page."""

    def __init__(self, scan: SpanScan, page: SpansInProgress, *, size: int) -> None:
        self._scan = scan
        self._page = page
        self._size = min(size, CANDIDATES_MAX)
        self.examined: Position | None = None
        """Everything up to here was examined; ``None`` after the last span."""

        self._rows_count = 0
        self._visible_count = 0

    @property
    def rows_per_span(self) -> float:
        """How many candidates there were for each that was visible; 1 if these are few."""
        if self._visible_count < SPARE_CANDIDATES:
            return 1.0
        return min(self._rows_count / self._visible_count, ROWS_PER_SPAN_MAX)

    async def run_round(self) -> bool:
        """Examine the next candidates; return whether it was the last round."""
        candidates = await self._scan.batch(self._size)
        found = await self._page.look_up(candidates)
        visible = visible_among(candidates, found)
        self._rows_count += len(candidates)
        self._visible_count += len(visible)
        for each in visible:
            self._page.add(each.version, each.response_bytes)
        self.examined = None if self._scan.is_at_end else self._scan.position
        self._size = min(self._size * 2, CANDIDATES_MAX)
        return self._page.capacity.is_exceeded or self._scan.is_at_end or self._scan.is_out_of_budget


class VisibleSpan(NamedTuple):
    """The latest version of a span, the size of its row, and which of ``OPTIONAL_MEMBERS`` it may have, as bits."""

    version: Version
    response_bytes: int
    members: int


def visible_among(candidates: Iterable[Candidate], found: LatestAndSums) -> list[VisibleSpan]:
    """Return the candidates that are visible, or what replaced them at their places, in their order and each once."""
    visible: dict[Version, VisibleSpan] = {}
    for candidate in candidates:
        version = candidate.version
        if version in found.latest:
            visible.setdefault(version, VisibleSpan(version, candidate.response_bytes, candidate.members))
        elif (row := found.replacements.get(version.position)) is not None:
            visible.setdefault(row.version, VisibleSpan(row.version, row.response_bytes, ALL_MEMBERS))
    return list(visible.values())


class SpanScan(Scan[Candidate, Position]):
    """Scans the rows of a window that match, all versions of a key together."""

    columns = CANDIDATE_COLUMNS
    place = Position

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[Candidate, Position]:
        while True:
            query = self._query(self._matching, size, until_us=until_us)
            rows = await self._spans.select(query, step="candidates", share=share, settings=STOPPING_EARLY)
            is_large = rows.num_rows >= MANY_VERSIONS
            found = await in_thread(candidates_of, rows) if is_large else candidates_of(rows)
            if len(found) < size:
                return Batch(found, None)
            last = found[-1].version.position
            while found and found[-1].version.position == last:  # of this key there may be more
                found.pop()
            if found:
                return Batch(found, found[-1].version.position)
            size *= 2  # one key with many versions
