"""``POST /spans/query`` with ``by: "created_at"``: the feed, and the wait for something new (contract §3.3, ADR 0007)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from common.telemetry import REQUESTS_WAITING
from query_api.explain.explain import explain_member
from query_api.filter.ast import Node
from query_api.filter.sql.compile import compile_node
from query_api.freshness.follow import look_up_stored
from query_api.pages.feed import FeedPage, Question, read_feed
from query_api.pages.feed_arrivals import StartBounds
from query_api.pages.feed_positions import Positions
from query_api.pages.windowing import cursor_scope, limit_of
from query_api.request.context import ApiContext
from query_api.request.cursor import read_cursor, write_cursor
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.windowing import Order, Windowing, microseconds, percent_of


async def query_feed(request: Request, filtering: Node, windowing: Windowing) -> Response:
    """What has become queryable since the page that gave ``windowing.next``; without one, since the beginning of all.

    The engine is asked how far spans are stored once a call; while it waits, announcements tell.
    """
    windowing = windowing.model_copy(update={"order": Order.ASCENDING})
    context, settings = request.context, request.context.settings.query
    scope = cursor_scope("feed", request.project_id, filtering, windowing)
    positions = Positions()
    if windowing.next is not None:
        packed = read_cursor(windowing.next, scope=scope, secret=context.cursor_secret)
        positions = Positions.unpack(packed)
    question = Question(
        await compile_node(filtering),
        StartBounds(microseconds(windowing.oldest), microseconds(windowing.newest)),
        rate_percent=percent_of(windowing.rate),
        limit=limit_of(windowing, default=settings.page_limit_default, most=settings.page_limit_max),
        bytes_max=settings.page_bytes_max,
    )
    await look_up_stored(context, request.project_id)

    async def look(positions: Positions) -> tuple[FeedPage, ProjectSpans]:
        # Each look has a budget of its own: the time that was waited is nobody's work.
        spans = project_spans(request)
        through = context.stored.through(request.project_id)
        return await read_feed(spans, question, positions, through=through), spans

    page, spans = await _first_with_news(request, look, positions, wait_s=windowing.wait_s or 0.0)
    cursor = write_cursor(page.positions.pack(), scope=scope, secret=context.cursor_secret)
    return Response(_page_json(page, cursor, explanation=await explain_member(spans, filtering)))


async def _first_with_news(
    request: Request,
    look: Callable[[Positions], Awaitable[tuple[FeedPage, ProjectSpans]]],
    positions: Positions,
    *,
    wait_s: float,
) -> tuple[FeedPage, ProjectSpans]:
    """The first look that finds something or is not complete; the last one when ``wait_s`` is over."""
    stored, clock = request.context.stored, request.context.clock
    ends_s = clock.monotonic_s() + wait_s
    while True:
        since = stored.news_count(request.project_id)
        page, spans = await look(positions)
        positions = page.positions
        left_s = ends_s - clock.monotonic_s()
        if page.spans or not page.is_complete or left_s <= 0:
            return page, spans
        if not await _wait_for_news(request, since=since, ends_s=ends_s):
            return page, spans


async def _wait_for_news(request: Request, *, since: int, ends_s: float) -> bool:
    context: ApiContext = request.context
    async with context.waiting.place(timeout_s=context.settings.query.queue_s):
        with REQUESTS_WAITING.track_inprogress():
            left_s = ends_s - context.clock.monotonic_s()
            return await context.stored.wait_for_news(request.project_id, since=since, timeout_s=left_s)


def _page_json(page: FeedPage, cursor: str, *, explanation: bytes) -> bytes:
    spans = b",".join(span.json for span in page.spans)
    complete = b"" if page.is_complete else b',"complete":false'
    windowing = b'"windowing":{"next":"%b"}' % cursor.encode()
    return b'{"count":%d,"spans":[%b],%b%b%b}' % (len(page.spans), spans, windowing, complete, explanation)
