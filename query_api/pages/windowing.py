"""What ``windowing`` of a request means: its bounds, its limit, and the cursor that walks it (reference §6, contract §3.3).

Shared by every route that answers in pages.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from common.errors import InvalidCursor
from query_api.filter.ast import Node, canonical_text
from query_api.pages.position import edge, unpack_position
from query_api.pages.spans_candidates import Window
from query_api.request.cursor import fingerprint, read_cursor
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import bounded_input
from query_api.spans.version import Position
from query_api.spans.windowing import Order, Windowing, microseconds, percent_of

LIMIT_AT: Final = ("body", "windowing", "limit")


def limit_of(windowing: Windowing, *, default: int, most: int, at: tuple[str, ...] = LIMIT_AT) -> int:
    """How many a page holds: ``default``, as far as ``most`` allows, where the request does not say.

    Raises ``InvalidRequest`` (422) past ``most``, which says that the limit stood ``at`` there.
    """
    limit = windowing.limit or min(default, most)
    if limit <= most:
        return limit
    problem = {
        "type": "less_than_equal",
        "loc": list(at),
        "msg": f"Input should be less than or equal to {most}",
        "input": bounded_input(limit),
        "ctx": {"le": most},
    }
    raise InvalidRequest([problem])


def cursor_scope(kind: str, project_id: UUID, filtering: Node, windowing: Windowing) -> bytes:
    """The fingerprint of a walk: all that decides what there is to walk and in which order; not the limit.

    ``kind`` names the walk, so that a cursor of one route is no cursor of another.
    """
    order = windowing.order or Order.DESCENDING
    bounds = [microseconds(windowing.newest), microseconds(windowing.oldest), windowing.rate]
    rest = repr([str(part) for part in [order, *bounds]]).encode()
    return fingerprint([kind.encode(), project_id.bytes, canonical_text(filtering), rest])


def spans_window(windowing: Windowing, *, scope: bytes, secret: bytes) -> Window:
    """The part of the spans that a page is taken from. Raises ``InvalidCursor``."""
    order = windowing.order or Order.DESCENDING
    newest_us, oldest_us = microseconds(windowing.newest), microseconds(windowing.oldest)
    after = None
    if windowing.next is not None:
        leading = ("newest", newest_us) if order is Order.DESCENDING else ("oldest", oldest_us)
        after = _after(windowing.next, order, leading, scope=scope, secret=secret)
    return Window(order, newest_us, oldest_us, percent_of(windowing.rate), after)


def _after(cursor: str, order: Order, leading: tuple[str, int | None], *, scope: bytes, secret: bytes) -> Position:
    try:
        span_id = UUID(cursor).bytes
    except ValueError:
        return unpack_position(read_cursor(cursor, scope=scope, secret=secret))
    name, bound_us = leading
    if bound_us is None:
        raise InvalidCursor(f"windowing.next as a span id needs windowing.{name}: the start_time of that span.")
    # Behind all spans of that time and id: its own order is not total (reference §6.2).
    return edge(bound_us, order)._replace(span_id=span_id)
