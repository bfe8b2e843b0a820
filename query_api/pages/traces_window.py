"""Where a walk over traces stands, and which part of the spans it looks at (contract §3.3, reference §6.3).

A trace stands where its latest matching span starts. A trace with matches that were stored when the walk began stands
where the latest of these starts, whatever came since (``spans/snapshot.py``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from common.errors import InvalidCursor
from query_api.pages.position import is_extreme, last_id
from query_api.request.cursor import read_cursor
from query_api.spans.snapshot import Snapshot
from query_api.spans.windowing import Order, Windowing, microseconds, percent_of

_HEAD: Final = struct.Struct(">q16sB")
_NEWEST_INCLUDED: Final = 1


class TracePosition(NamedTuple):
    """The place of a trace in the order of pages; also in the order of their columns."""

    latest_us: int
    trace_id: bytes

    @classmethod
    def edge(cls, latest_us: int, order: Order) -> TracePosition:
        """Behind everything that starts then, and before that in the order."""
        return cls(latest_us, last_id(order))

    @property
    def is_edge(self) -> bool:
        """Whether it is one between two starts, rather than that of a trace."""
        return is_extreme(self.trace_id)


@dataclass(frozen=True, slots=True)
class TraceWindow:
    """Which spans can make a trace match, and where in the order of traces a page begins.

    Microseconds; ``oldest_us`` is in the window, ``newest_us`` is not, in both orders. ``rate_percent`` keeps so many of a
    hundred traces. ``newest_is_included`` under a cursor of the reference's making, whose position lies on it.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    newest_is_included: bool = False
    rate_percent: int = 100
    after: TracePosition | None = None
    snapshot: Snapshot = field(default_factory=Snapshot)

    @property
    def end_us(self) -> int | None:
        """The earliest start that is behind the window; ``None``: there is none."""
        return self.newest_us if self.newest_us is None or not self.newest_is_included else self.newest_us + 1

    def spans(self, start_us: int) -> bool:
        """Whether a span that starts then can make its trace match."""
        is_early = self.oldest_us is not None and start_us < self.oldest_us
        return not is_early and (self.end_us is None or start_us < self.end_us)

    def pack(self, position: TracePosition) -> bytes:
        """What the cursor of the page that ends at ``position`` holds."""
        head = _HEAD.pack(*position, _NEWEST_INCLUDED if self.newest_is_included else 0)
        return head + self.snapshot.pack()


def traces_window(windowing: Windowing, *, snapshot: Snapshot, scope: bytes, secret: bytes) -> TraceWindow:
    """The part of the traces that a page is taken from.

    ``snapshot``: what is stored now, for a walk that begins. Raises ``InvalidCursor``.
    """
    order = windowing.order or Order.DESCENDING
    window = TraceWindow(
        order,
        newest_us=microseconds(windowing.newest),
        oldest_us=microseconds(windowing.oldest),
        rate_percent=percent_of(windowing.rate),
        snapshot=snapshot,
    )
    return window if windowing.next is None else _from(window, windowing.next, scope=scope, secret=secret)


def _from(window: TraceWindow, cursor: str, *, scope: bytes, secret: bytes) -> TraceWindow:
    try:
        trace_id = UUID(cursor).bytes
    except ValueError:
        return _unpacked(window, read_cursor(cursor, scope=scope, secret=secret))
    is_descending = window.order is Order.DESCENDING
    name, bound_us = ("newest", window.newest_us) if is_descending else ("oldest", window.oldest_us)
    if bound_us is None:
        raise InvalidCursor(f"windowing.next as a trace id needs windowing.{name}: where that trace stood.")
    return replace(window, after=TracePosition(bound_us, trace_id), newest_is_included=is_descending)


def _unpacked(window: TraceWindow, packed: bytes) -> TraceWindow:
    try:
        latest_us, trace_id, flags = _HEAD.unpack_from(packed)
        snapshot = Snapshot.unpack(packed[_HEAD.size :])
    except struct.error as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    included = bool(flags & _NEWEST_INCLUDED)
    after = TracePosition(latest_us, trace_id)
    return replace(window, after=after, snapshot=snapshot, newest_is_included=included)
