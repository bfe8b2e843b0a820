"""The span routes (reference §1.1), and pages of spans by ``start_time`` (contract §3.3).

A page is found in rounds, each step as narrow as it can be:

1. *candidates*: the light columns of rows that match, in order, after the position (``scan.py``);
2. at the same time: which of them are the latest versions of their spans, what the traces used whose roots are among
   them, and the rows of as many as the page can still take (``page.py``);
3. again after the last candidate, while the page is not full and the budget lasts.

Producers send spans again meanwhile. A candidate that was replaced at its place since it was found is returned in its
later version, if that matches too: the check of the latest versions finds that version, and a row that is gone is
looked for again at its place.

Pages return every span once, because the latest version is one row (same key, partition, offset and start) and the
order is total on keys. A row that is stale, deleted, or there twice because the engine has not merged yet, is only a
candidate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, Field

from common.errors import InvalidInput
from common.ids import parse_span_id, parse_trace_id
from query_api.explain.explain import explain_member
from query_api.filter.language import Node
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.pages.feed import query_feed
from query_api.pages.page import (
    CANDIDATE_COLUMNS,
    Candidate,
    Page,
    Rounds,
    SpansInProgress,
    candidates_of,
    parse_ids,
    render_latest,
    run_rounds,
    spans_json,
    split_lists,
)
from query_api.pages.scan import Batch, Scan
from query_api.pages.window import Window, cursor_scope, limit_of, pack_position, spans_window
from query_api.request.cursor import write_cursor
from query_api.request.json_body import PromotedTexts, Strict
from query_api.request.references import ReferenceIn
from query_api.request.route import Request, Response
from query_api.spans.latest_versions import latest_of_ids, sums_of_traces
from query_api.spans.project_spans import ProjectSpans, StatementBudget, project_spans
from query_api.spans.rows import Layout, Rendered, fetch_matching_rows, fetch_rows
from query_api.spans.usage import TraceSums
from query_api.spans.versions import Position, Version
from query_api.spans.windowing import Filtering, WindowBy, Windowing, WindowingResponse, refuse_unfit

SPARE_CANDIDATES: Final = 16
"""Candidates beyond what a page needs, so that a few stale versions do not cost a second round."""

CANDIDATES_MAX: Final = 50_000
"""In one round: about 5 MB of light columns."""


class SpansQuery(Strict):
    """A query for spans. Without members it returns the newest page of all spans.

    References name a saved query. Its conditions apply in addition to those of the request, and its window supplies the
    members that the request does not set.
    """

    filtering: Filtering = Field(None, description="The filter of the spans.")
    windowing: Windowing | None = Field(None, description="The page to return.")
    query_ref: ReferenceIn | None = Field(None, description="A saved query: the newest revision of its first variant.")
    query_variant_ref: ReferenceIn | None = Field(None, description="A variant of a saved query: its newest revision.")
    query_revision_ref: ReferenceIn | None = Field(
        None, description="A revision of a saved query, by id or slug; or by version, with one of the other references."
    )
    explain: bool | None = Field(
        None, description="Whether the response explains which statements ran and what they read."
    )


class SpanIds(Strict):
    """The spans of the given traces that have one of the given span ids."""

    trace_id: list[str] = Field(default_factory=list, description="A trace id; may be repeated.")
    trace_ids: list[str] = Field(default_factory=list, description="Comma-separated trace ids.")
    span_id: list[str] = Field(default_factory=list, description="A span id; may be repeated.")
    span_ids: list[str] = Field(default_factory=list, description="Comma-separated span ids.")


class SpanModel(PromotedTexts):
    """One span. Members without a value are omitted."""

    created_at: str = Field(description="When this version of the span was stored.")
    trace_id: str
    span_id: str
    parent_id: str | None = None
    trace_type: str
    span_type: str
    span_kind: str
    span_name: str
    start_time: str
    end_time: str
    start_time_unix_nano: str
    end_time_unix_nano: str
    status_code: str
    status_message: str | None = None
    attributes: dict[str, Any]
    events: list[dict[str, Any]] | None = None
    links: list[dict[str, Any]] | None = None
    references: list[dict[str, Any]] | None = None
    hashes: list[dict[str, Any]] | None = None
    resource: dict[str, Any] | None = None
    scope: dict[str, Any] | None = None
    trace_state: str | None = None
    flags: int | None = None
    dropped_attributes_count: int | None = None
    dropped_events_count: int | None = None
    dropped_links_count: int | None = None


class SpansResponse(BaseModel):
    """Spans in order."""

    count: int
    spans: list[SpanModel]
    windowing: WindowingResponse | None = None
    complete: bool | None = Field(
        None, description="False if the query's budget ended before the page was full; absent otherwise."
    )
    explain: dict[str, Any] | None = Field(
        None, description="The statements that ran and what they read, if the request set `explain`."
    )


class SpanResponse(BaseModel):
    """One span, or none."""

    count: int
    span: SpanModel | None = None


async def query_spans(request: Request, filtering: Node, windowing: Windowing) -> Response:
    """Return a page of spans by ``start_time``, or a page of the feed by ``created_at``."""
    refuse_unfit(windowing)
    if windowing.by is WindowBy.CREATED_AT:
        return await query_feed(request, filtering, windowing)
    return Response(spans_json(await span_page(request, filtering, windowing)))


async def span_page(request: Request, filtering: Node, windowing: Windowing) -> Page[Rendered]:
    """Return the page of spans that ``windowing`` asks for."""
    settings, secret = request.context.settings.query, request.context.cursor_secret
    scope = cursor_scope("spans", request.project_id, filtering, windowing)
    spans = project_spans(request)
    found = await find_page(
        spans,
        await compile_node(filtering),
        spans_window(windowing, scope=scope, secret=secret),
        limit=limit_of(windowing.limit, default=settings.page_limit_default, max_count=settings.page_limit_max),
        bytes_max=settings.page_bytes_max,
    )
    explanation = await explain_member(spans, filtering)
    ends_at = found.ends_at
    cursor = None if ends_at is None else write_cursor(pack_position(ends_at), scope=scope, secret=secret)
    return Page(found.spans, cursor, found.is_complete, explanation)


async def list_spans(request: Request) -> Response:
    """Return the spans with these ids, by their start. Unknown ids are left out."""
    ids: SpanIds = request.query
    trace_ids = parse_ids([*ids.trace_id, *split_lists(ids.trace_ids)], parse_trace_id)
    span_ids = parse_ids([*ids.span_id, *split_lists(ids.span_ids)], parse_span_id)
    if not trace_ids and not span_ids:
        raise InvalidInput("At least one trace_id or span_id query parameter is required.")
    found = await spans_of_ids(project_spans(request), trace_ids=trace_ids, span_ids=span_ids)
    return Response(b'{"count":%d,"spans":[%b]}' % (len(found), b",".join(span.json for span in found)))


async def get_span(request: Request) -> Response:
    """Return one span by its ids."""
    trace_ids = parse_ids([request.path["trace_id"]], parse_trace_id)
    span_ids = parse_ids([request.path["span_id"]], parse_span_id)
    found = await spans_of_ids(project_spans(request), trace_ids=trace_ids, span_ids=span_ids)
    return Response(b'{"count":1,"span":%b}' % found[0].json if found else b'{"count":0}')


async def spans_of_ids(
    spans: ProjectSpans, *, trace_ids: list[bytes], span_ids: list[bytes] | None = None
) -> list[Rendered]:
    """Return all spans of the traces, or those with one of the span ids; earliest first, then by id."""

    async def look_up(absent: Collection[Version]) -> tuple[Sequence[Version], Sequence[Layout], TraceSums]:
        latest = sorted(await latest_of_ids(spans, trace_ids=trace_ids, span_ids=span_ids or [], absent=absent))
        rows, sums = await asyncio.gather(
            fetch_rows(spans, latest), sums_of_traces(spans, {version.trace_id for version in latest})
        )
        return latest, [rows], sums

    return await render_latest(look_up)


@dataclass(frozen=True, slots=True)
class FoundSpans:
    """The spans of a page in order. ``ends_at`` is the place after the last, if more may follow."""

    spans: Sequence[Rendered]
    ends_at: Position | None
    is_complete: bool


async def find_page(
    spans: ProjectSpans, matching: Compiled, window: Window, *, limit: int, bytes_max: int
) -> FoundSpans:
    """Return the first spans that match after the window's position.

    There are ``limit`` of them, or as many as ``bytes_max`` holds, or all, or as many as the budget sufficed for. A
    complete page that is not the last has at least one span. Raises ``DeadlineExceeded`` if the budget ended before
    anything was examined.
    """
    page = SpansInProgress(spans, matching, limit=limit, bytes_max=bytes_max)
    search = _SpanSearch(SpanScan(spans, matching, window), page, size=limit + 1 + SPARE_CANDIDATES)
    await run_rounds(search)
    if missing := page.missing():
        page.add_rows(await fetch_matching_rows(spans, missing, matching), of=missing, are_current=True)
    rendered = await page.rendered()
    if page.capacity.is_exceeded:
        return FoundSpans(rendered, next(reversed(page.versions)).position, is_complete=bool(rendered))
    return FoundSpans(rendered, search.examined, is_complete=search.examined is None or page.capacity.is_at_limit)


class _SpanSearch(Rounds):
    """Puts the visible candidates of a scan on a page."""

    def __init__(self, scan: SpanScan, page: SpansInProgress, *, size: int) -> None:
        self._scan = scan
        self._page = page
        self._size = min(size, CANDIDATES_MAX)
        self.examined: Position | None = None
        """Everything up to here was examined; ``None`` after the last span."""

    @property
    def is_done(self) -> bool:
        return self._page.capacity.is_exceeded or self._scan.is_at_end

    @property
    def is_out_of_budget(self) -> bool:
        return self._scan.is_out_of_budget

    async def run_round(self) -> None:
        candidates = await self._scan.batch(self._size)
        found = await self._page.look_up(candidates)
        for candidate in candidates:
            if candidate.version in found.latest:
                self._page.add(candidate.version, candidate.response_bytes)
            elif (row := found.replacements.get(candidate.version.position)) is not None:
                self._page.add(row.version, row.response_bytes)
        self.examined = None if self._scan.is_at_end else self._scan.position
        self._size = min(self._size * 2, CANDIDATES_MAX)


class SpanScan(Scan[Candidate, Position]):
    """Scans the rows of a window that match, all versions of a key together."""

    columns = CANDIDATE_COLUMNS
    place = Position

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Batch[Candidate, Position]:
        sql, parameters = self._statement(self._matching, until_us=until_us)
        while True:
            rows = await self._spans.select(sql, {**parameters, "candidates": size}, step="candidates", share=share)
            found = candidates_of(rows)
            if len(found) < size:
                return Batch(found, None)
            last = found[-1].version.position
            while found and found[-1].version.position == last:  # of this key there may be more
                found.pop()
            if found:
                return Batch(found, found[-1].version.position)
            size *= 2  # one key with many versions
