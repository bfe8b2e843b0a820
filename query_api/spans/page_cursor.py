"""The cursors of one query: what they belong to, where the page before ended, and the time that relative times count
from (contract §3.3, §3.5).

Relative times (``-15m``) are resolved once, on the first page. Its time is in the cursors of all later pages, so that a
walk has the same bounds and conditions from its first page to its last. The texts are in the scope, not the times.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson

from common.errors import InvalidCursor
from common.times import RelativeTime
from query_api.filter.language import Node
from query_api.filter.relative_times import has_relative_time
from query_api.request.route import Request
from query_api.spans.cursor import fingerprint, read_cursor, write_cursor
from query_api.spans.windowing import BasicWindowing, Order, bound_us


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where a page begins, and how to write the cursor of the next one.

    ``now_us`` is what relative times count from, in microseconds since 1970; ``is_dated`` whether cursors carry it.
    ``position`` is what the cursor of the request holds, ``None`` on a first page.
    """

    scope: bytes
    secret: bytes
    now_us: int
    is_dated: bool = False
    position: bytes | None = None

    def write(self, position: bytes) -> str:
        """Return the cursor of the page after ``position``."""
        return write_cursor(
            position, scope=self.scope, secret=self.secret, now_us=self.now_us if self.is_dated else None
        )


def page_cursor(
    request: Request,
    kind: str,
    filtering: Node,
    windowing: BasicWindowing,
    *,
    takes_ids: bool = False,
    unscoped: str | None = None,
) -> PageCursor:
    """Return the cursor of a request. Raises ``InvalidCursor``.

    ``kind`` names the pages, so that a cursor of one route is invalid on another. ``takes_ids``: ``next`` may also be
    an id, the cursor of a client of the reference, which cannot carry a time. ``unscoped`` is a bound that is in the
    position instead of the scope.
    """
    secret, now_us = request.context.cursor_secret, request.context.clock.now_ns() // 1_000
    scoped = windowing if unscoped is None else windowing.model_copy(update={unscoped: None})
    scope = cursor_scope(kind, request.project_id, filtering, scoped)
    bounds = (windowing.newest, windowing.oldest)
    is_relative = has_relative_time(filtering) or any(isinstance(bound, RelativeTime) for bound in bounds)
    first = PageCursor(scope, secret, now_us, is_relative)
    if windowing.next is None:
        return first
    if takes_ids and _is_id(windowing.next):
        if is_relative:
            raise InvalidCursor("windowing.next is an id, which carries no time of a first page: give absolute times.")
        return first
    content = read_cursor(windowing.next, scope=scope, secret=secret)
    is_dated = content.now_us is not None
    return PageCursor(scope, secret, now_us if content.now_us is None else content.now_us, is_dated, content.position)


def cursor_scope(kind: str, project_id: UUID, filtering: Node, windowing: BasicWindowing) -> bytes:
    """Return the fingerprint of all that decides what pages there are and in which order; the limit is not part of it.

    A relative time is in it as its text, so that a later page can repeat it.
    """
    order = windowing.order or Order.DESCENDING
    times = [
        bound if isinstance(bound, RelativeTime) else bound_us(bound, now_us=0)
        for bound in (windowing.newest, windowing.oldest)
    ]
    conditions = orjson.dumps(filtering, option=orjson.OPT_SORT_KEYS)  # one text for one filter
    rest = repr([str(part) for part in [order, *times, windowing.rate]]).encode()
    return fingerprint([kind.encode(), project_id.bytes, conditions, rest])


def _is_id(cursor: str) -> bool:
    try:
        UUID(cursor)
    except ValueError:
        return False
    return True
