"""The session and user routes: what was asked, put to ``activity``, and the answer in its shape (reference §10.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from common.errors import InvalidCursor
from common.times import format_us
from query_api.explain.explain import explain_member
from query_api.filter.parse import parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.freshness.follow import stored_offsets
from query_api.pages.sessions_activity import ActiveId, Walk, find_ids
from query_api.pages.sessions_models import ActivityQuery, ActivityWindowing
from query_api.pages.sessions_position import IdPosition
from query_api.pages.windowing import cursor_scope, limit_of
from query_api.request.cursor import read_cursor, write_cursor
from query_api.request.route import Request, Response
from query_api.spans.project_spans import project_spans
from query_api.spans.snapshot import Snapshot
from query_api.spans.windowing import Order, Windowing, microseconds, percent_of


async def query_sessions(request: Request) -> Response:
    """The distinct session ids of spans, by their activity, in pages.

    ``POST /spans/sessions/query``, ``POST /tracing/sessions/query``.
    """
    return await _query(request, kind="session")


async def query_users(request: Request) -> Response:
    """The distinct user ids of spans, by their activity, in pages.

    ``POST /spans/users/query``, ``POST /tracing/users/query``.
    """
    return await _query(request, kind="user")


async def _query(request: Request, *, kind: str) -> Response:
    query: ActivityQuery = request.body
    windowing = query.windowing or ActivityWindowing()
    filtering = await parse_filter(query.filtering)
    settings, secret = request.context.settings.query, request.context.cursor_secret
    limit = limit_of(
        Windowing(limit=windowing.limit), default=settings.page_limit_default, most=settings.page_limit_max
    )
    walk_name = f"{kind}s by {'latest' if query.realtime else 'earliest'} span"
    scope = cursor_scope(walk_name, request.project_id, filtering, _without_leading_bound(windowing))
    walk = _walk(windowing, kind=kind, is_realtime=bool(query.realtime))
    if windowing.next is None:
        offsets = await stored_offsets(request.context, request.project_id, is_continued=False)
        walk = replace(walk, snapshot=Snapshot.of_partitions(offsets))
    else:
        after = IdPosition.unpack(read_cursor(windowing.next, scope=scope, secret=secret))
        walk = _continued(walk, after)
    spans = project_spans(request)
    found = await find_ids(spans, await compile_node(filtering), walk, limit=limit + 1)
    page = found[:limit]
    members: dict[str, Any] = {"count": len(page), f"{kind}_ids": [each.text for each in page]}
    if len(found) > limit:
        position = _position(walk, page[-1])
        cursor = write_cursor(position.pack(), scope=scope, secret=secret)
        members["windowing"] = _following(windowing, walk, position, cursor=cursor, limit=limit)
    return Response(b"%b%b}" % (orjson.dumps(members)[:-1], await explain_member(spans, filtering)))


def _without_leading_bound(windowing: ActivityWindowing) -> Windowing:
    """What a cursor belongs to. The leading bound is in the cursor, because two spellings of it are legal."""
    if windowing.order is Order.ASCENDING:
        return Windowing(order=windowing.order, newest=windowing.newest, rate=windowing.rate)
    return Windowing(order=windowing.order, oldest=windowing.oldest, rate=windowing.rate)


def _walk(windowing: ActivityWindowing, *, kind: str, is_realtime: bool) -> Walk:
    return Walk(
        kind=kind,
        is_realtime=is_realtime,
        order=windowing.order or Order.DESCENDING,
        newest_us=microseconds(windowing.newest),
        oldest_us=microseconds(windowing.oldest),
        rate_percent=percent_of(windowing.rate),
    )


def _continued(walk: Walk, after: IdPosition) -> Walk:
    """The walk behind a position, in the window of its first page, over what was stored then."""
    leading_us = walk.newest_us if walk.order is Order.DESCENDING else walk.oldest_us
    if leading_us not in (after.leading_us, after.activity_us):
        name = "newest" if walk.order is Order.DESCENDING else "oldest"
        raise InvalidCursor(
            f"The cursor in windowing.next belongs to another windowing.{name}: give it as on the page before, or as that"
            " page gave it."
        )
    is_descending = walk.order is Order.DESCENDING
    newest_us, oldest_us = (after.leading_us, walk.oldest_us) if is_descending else (walk.newest_us, after.leading_us)
    return replace(walk, newest_us=newest_us, oldest_us=oldest_us, after=after, snapshot=after.snapshot)


def _position(walk: Walk, last: ActiveId) -> IdPosition:
    leading_us = walk.newest_us if walk.order is Order.DESCENDING else walk.oldest_us
    return IdPosition(last.activity_us, last.beginning, last.tail, leading_us, walk.snapshot)


def _following(
    windowing: ActivityWindowing, walk: Walk, position: IdPosition, *, cursor: str, limit: int
) -> dict[str, Any]:
    """The ``windowing`` of the next page: as the reference gives it, and the cursor that keeps it exact."""
    newest_us, oldest_us = microseconds(windowing.newest), microseconds(windowing.oldest)
    if walk.order is Order.DESCENDING:
        newest_us = position.activity_us
    else:
        oldest_us = position.activity_us
    bounds = {"newest": newest_us, "oldest": oldest_us}
    following: dict[str, Any] = {name: format_us(bound) for name, bound in bounds.items() if bound is not None}
    following |= {"next": cursor, "limit": limit, "order": walk.order}
    return following if windowing.rate is None else {**following, "rate": windowing.rate}
