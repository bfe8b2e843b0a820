"""Windows whose members contradict each other, or that a route does not have (contract §3.3, §3.6)."""

from __future__ import annotations

from common.errors import InvalidInput
from query_api.spans.windowing import Order, WindowBy, Windowing


def refuse_unfit(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if members contradict each other on spans: the feed ascends, and only the feed waits.

    ``at`` is the path of the window in the request.
    """
    _refuse_sort(windowing, at=at)
    if windowing.by is WindowBy.SETTLED_AT:
        raise InvalidInput(
            f"{at}.by: the feed by settled_at returns traces: use /traces/query; allowed here: start_time, created_at."
        )
    if windowing.by is WindowBy.CREATED_AT:
        refuse_unfit_feed(windowing, at=at)
    elif windowing.from_ is not None:
        raise InvalidInput(f'{at}.from: only the feed begins at a created_at; ask with "by": "created_at".')
    elif windowing.wait_s:
        raise InvalidInput(f'{at}.wait_s: only the feed can wait; ask with "by": "created_at".')


def refuse_unfit_feed(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if members contradict each other on a feed."""
    _refuse_sort(windowing, at=at)
    if windowing.order is Order.DESCENDING:
        raise InvalidInput(f"{at}.order: the feed by {windowing.by} is ascending; allowed: ascending, or no order.")
    if windowing.from_ is not None and windowing.next is not None:
        raise InvalidInput(f"{at}.from: the feed goes on at {at}.next; allowed: one of the two.")


def _refuse_sort(windowing: Windowing, *, at: str) -> None:
    """Raise ``InvalidInput`` if a ranking is asked to continue, or to stream."""
    if windowing.sort is not None:
        if windowing.next is not None:
            raise InvalidInput(f"{at}.sort: a ranking has no next page; allowed: sort or next, not both.")
        if windowing.by in (WindowBy.CREATED_AT, WindowBy.SETTLED_AT):
            raise InvalidInput(f"{at}.sort: the feed by {windowing.by} has its own order; allowed here: by start_time.")


def refuse_feed(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if a feed is asked for where there is none."""
    _refuse_sort(windowing, at=at)
    if windowing.by is WindowBy.SETTLED_AT:
        raise InvalidInput(f"{at}.by: only /traces/query has the feed by settled_at; allowed here: start_time.")
    if windowing.by is WindowBy.CREATED_AT:
        raise InvalidInput(
            f"{at}.by: the feed by created_at returns spans: use /spans/query; allowed here: start_time."
        )
    for name, value in (("wait_s", windowing.wait_s), ("from", windowing.from_)):
        if value:
            raise InvalidInput(
                f"{at}.{name}: only for the feeds: of /spans/query by created_at, of /traces/query by settled_at."
            )
