"""From the options that choose spans to the members of a request: ``filtering``, ``windowing`` and ``query_ref``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from clearspan.client.connection import ApiClient, WrongUsage
from clearspan.client.filter_words import read_conditions, read_filter
from clearspan.client.output import note
from clearspan.client.span_values import FAILED
from clearspan.options import OrderOptions, SpanOptions, WindowOptions

PAGE_SIZE: Final = 500
RANKED_MAX: Final = 1_000


def filtering_of(spans: SpanOptions) -> dict[str, Any]:
    """Return ``filtering`` and ``query_ref`` of a request; all conditions must be true. Raises ``WrongUsage``."""
    conditions = [*read_conditions(spans.words), *([{"field": "status_code", "value": FAILED}] if spans.errors else [])]
    given = None if spans.filter is None else read_filter(spans.filter)
    if given is not None and conditions:
        given = {"conditions": [given, *conditions]}
    elif conditions:
        given = {"conditions": conditions}
    body: dict[str, Any] = {} if given is None else {"filtering": given}
    return body if spans.query is None else {**body, "query_ref": {"slug": spans.query}}


def windowing_of(window: WindowOptions, order: OrderOptions | None = None) -> dict[str, Any]:
    """Return the bounds, the order and the ranking of a request. Raises ``WrongUsage``."""
    if window.last is not None and window.oldest is not None:
        raise WrongUsage("--last and --oldest both set the start of the window; give one of them.")
    oldest = window.oldest if window.last is None else f"-{window.last}"
    bounds = {"oldest": oldest, "newest": window.newest}
    windowing: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    if order is not None and order.order is not None and order.sort is None:
        windowing["order"] = order.order
    if order is not None and order.sort is not None:
        windowing["sort"] = {"by": order.sort, **({} if order.order is None else {"order": order.order})}
    return windowing


async def pages(
    api: ApiClient, path: str, body: dict[str, Any], *, member: str, limit: int
) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield at most ``limit`` results of a query route, page by page.

    A page is empty if the budget of its query ended before it found anything; the next one continues from there.
    """
    windowing, left = dict(body.get("windowing", {})), limit
    is_ranking = "sort" in windowing
    while left > 0:
        windowing["limit"] = left if is_ranking else min(left, PAGE_SIZE)
        answer = await api.post(path, {**body, "windowing": windowing})
        found = answer.get(member, [])
        left -= len(found)
        yield found
        if is_ranking and answer.get("complete") is False:
            note("The ranking is not that of the whole window: the time of the query ended. Choose a shorter window.")
        cursor = answer.get("windowing", {}).get("next")
        if cursor is None:
            return
        windowing["next"] = cursor
