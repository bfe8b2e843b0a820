"""What ``windowing`` of a request means: its bounds, its limit, and the cursor that walks it (reference §6, contract §3.3).

Shared by every route that answers in pages.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from common.errors import InvalidCursor, InvalidInput
from query_api.filter.ast import Node, canonical_text
from query_api.pages.position import Position
from query_api.pages.sampling import percent_of
from query_api.pages.spans_candidates import Window
from query_api.pages.spans_models import Order, WindowBy, Windowing
from query_api.request.cursor import fingerprint, read_cursor
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import bounded_input

LIMIT_AT: Final = ("body", "windowing", "limit")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def refuse_unfit(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` where members exclude each other on spans: the feed ascends, and only the feed waits.

    ``at`` is where they stand in the request.
    """
    if windowing.by is WindowBy.CREATED_AT:
        if windowing.order is Order.DESCENDING:
            raise InvalidInput(f"{at}.order: the feed by created_at is ascending; legal: ascending, or nothing.")
    elif windowing.wait_s:
        raise InvalidInput(f'{at}.wait_s: waiting belongs to the feed; ask with "by": "created_at".')


def refuse_feed(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` where the feed is asked for on traces: it gives spans."""
    if windowing.by is WindowBy.CREATED_AT:
        raise InvalidInput(f"{at}.by: the feed by created_at gives spans: ask /spans/query; here it is start_time.")
    if windowing.wait_s:
        raise InvalidInput(f"{at}.wait_s: waiting belongs to the feed by created_at of /spans/query.")


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


def microseconds(moment: datetime | None) -> int | None:
    """Microseconds since 1970; a time without a zone is UTC."""
    if moment is None:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


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
        return Position.unpack(read_cursor(cursor, scope=scope, secret=secret))
    name, bound_us = leading
    if bound_us is None:
        raise InvalidCursor(f"windowing.next as a span id needs windowing.{name}: the start_time of that span.")
    # Behind all spans of that time and id: its own order is not total (reference §6.2).
    return Position.edge(bound_us, order)._replace(span_id=span_id)
