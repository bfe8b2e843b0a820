"""The part of the spans that a page is taken from, and the position at which the previous page ended.

A cursor holds that position. The page after it continues exactly there (reference §6, contract §3.3).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar
from uuid import UUID

import orjson

from common.errors import InvalidCursor
from query_api.filter.language import Node
from query_api.pages.snapshot import Snapshot
from query_api.request.cursor import fingerprint, read_cursor
from query_api.request.json_body import number_up_to
from query_api.spans.versions import Position
from query_api.spans.windowing import SAMPLED, Order, Windowing, microseconds, percent_of

LIMIT_AT: Final = ("body", "windowing", "limit")
_SPAN_CURSOR: Final = struct.Struct(">q16s16s")
_TRACE_CURSOR: Final = struct.Struct(">q16sB")
_NEWEST_INCLUDED: Final = 1
_LOWEST_ID: Final = bytes(16)
_HIGHEST_ID: Final = b"\xff" * 16


class TracePosition(NamedTuple):
    """The place of a trace in the order of pages, which is the order of these columns."""

    start_us: int
    """The start of its latest match."""

    trace_id: bytes


Place: TypeAlias = Position | TracePosition
At = TypeVar("At", Position, TracePosition)


def edge(kind: type[At], start_us: int, order: Order) -> At:
    """Return the place after everything that starts then or comes before that in the order."""
    last_id = _LOWEST_ID if order is Order.DESCENDING else _HIGHEST_ID
    return kind(start_us, *[last_id] * (len(kind._fields) - 1))


def is_edge(place: Place) -> bool:
    """Return whether the place is between two starts and not the place of a span or trace."""
    return set(place[1:]) in ({_LOWEST_ID}, {_HIGHEST_ID})


class Conditions(NamedTuple):
    """Conditions on rows of ``spans``, and the values in them."""

    texts: list[str]
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """The spans that may be on a page, and their order. Bounds are microseconds; ``after`` is where the last page
    ended.

    The bound at which pages begin is excluded, the other one is included (reference §6.2). ``rate_percent`` is how
    many of a hundred traces are kept.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    rate_percent: int = 100
    after: Place | None = None

    @classmethod
    def of(cls, windowing: Windowing) -> Self:
        """Return the window of a first page."""
        order = windowing.order or Order.DESCENDING
        bounds = (microseconds(windowing.newest), microseconds(windowing.oldest))
        return cls(order, *bounds, percent_of(windowing.rate))

    @property
    def is_descending(self) -> bool:
        """Whether pages go from the newest to the oldest."""
        return self.order is Order.DESCENDING

    @property
    def newest_is_included(self) -> bool:
        """Whether a span that starts at ``newest_us`` is in the window."""
        return not self.is_descending

    @property
    def oldest_is_included(self) -> bool:
        """Whether a span that starts at ``oldest_us`` is in the window."""
        return self.is_descending

    @property
    def leading_us(self) -> int | None:
        """The bound at which pages begin."""
        return self.newest_us if self.is_descending else self.oldest_us

    def after_place(self) -> Conditions:
        """Return the conditions that leave the rows after ``after``."""
        if self.after is None:
            return Conditions([], {})
        sign = "<" if self.is_descending else ">"
        [start, *ids] = self.after._fields
        places = [f"toFixedString(unhex({{after_{column}:String}}), 16)" for column in ids]
        texts = [
            f"{start} {sign}= {{after_{start}:Int64}}",  # on its own, so that it prunes by the primary key
            f"({', '.join(self.after._fields)}) {sign} ({', '.join([f'{{after_{start}:Int64}}', *places])})",
        ]
        packed = {f"after_{column}": place.hex() for column, place in zip(ids, self.after[1:], strict=True)}
        return Conditions(texts, {f"after_{start}": self.after.start_us, **packed})

    def bounds(self) -> Conditions:
        """Return the conditions on ``start_us``. A place is within the leading bound, which is omitted after it."""
        texts: list[str] = []
        parameters: dict[str, Any] = {}
        if self.newest_us is not None and (self.after is None or not self.is_descending):
            texts.append(f"start_us {'<=' if self.newest_is_included else '<'} {{newest_us:Int64}}")
            parameters["newest_us"] = self.newest_us
        if self.oldest_us is not None and (self.after is None or self.is_descending):
            texts.append(f"start_us {'>=' if self.oldest_is_included else '>'} {{oldest_us:Int64}}")
            parameters["oldest_us"] = self.oldest_us
        return Conditions(texts, parameters)

    def sampling(self) -> Conditions:
        """Return the condition that keeps ``rate_percent`` of the traces."""
        return (
            Conditions([SAMPLED], {"rate_percent": self.rate_percent})
            if self.rate_percent < 100
            else Conditions([], {})
        )

    def conditions(self) -> Conditions:
        """Return all conditions of the window."""
        parts = (self.after_place(), self.bounds(), self.sampling())
        texts = [text for part in parts for text in part.texts]
        return Conditions(texts, {name: value for part in parts for name, value in part.parameters.items()})


@dataclass(frozen=True, slots=True)
class TraceWindow(Window):
    """The spans that can make a trace match. In both orders ``oldest_us`` is included and ``newest_us`` is not.

    A trace is placed by its latest matching span. If matches of it were stored when the scan began (``snapshot``), it
    is placed by the latest of these, whatever arrived since.
    """

    includes_newest: bool = False
    """Whether ``newest_us`` is included after all: a cursor that a client of the reference made is a place on it."""

    snapshot: Snapshot = field(default_factory=Snapshot)

    @property
    def newest_is_included(self) -> bool:
        """Whether a span that starts at ``newest_us`` is in the window."""
        return self.includes_newest

    @property
    def oldest_is_included(self) -> bool:
        """Whether a span that starts at ``oldest_us`` is in the window."""
        return True

    def includes(self, start_us: int) -> bool:
        """Return whether a span that starts then can make its trace match."""
        if self.oldest_us is not None and start_us < self.oldest_us:
            return False
        return self.newest_us is None or start_us < self.newest_us + self.includes_newest

    def pack(self, place: TracePosition) -> bytes:
        """Return what the cursor of a page that ends at ``place`` holds."""
        return _TRACE_CURSOR.pack(*place, _NEWEST_INCLUDED if self.includes_newest else 0) + self.snapshot.pack()


def spans_window(windowing: Windowing, *, scope: bytes, secret: bytes) -> Window:
    """Return the part of the spans that a page is taken from. Raises ``InvalidCursor``."""
    window = Window.of(windowing)
    if windowing.next is None:
        return window
    bound = _place_of_reference(windowing.next, window, "a span id", "the start_time of that span")
    if bound is None:
        return replace(window, after=unpack_position(read_cursor(windowing.next, scope=scope, secret=secret)))
    # After all spans of that time and id: the order of the reference is not total (reference §6.2).
    start_us, span_id = bound
    return replace(window, after=edge(Position, start_us, window.order)._replace(span_id=span_id))


def traces_window(windowing: Windowing, *, snapshot: Snapshot, scope: bytes, secret: bytes) -> TraceWindow:
    """Return the part of the traces that a page is taken from. Raises ``InvalidCursor``.

    ``snapshot`` is what is stored now, for a scan that begins.
    """
    window = replace(TraceWindow.of(windowing), snapshot=snapshot)
    if windowing.next is None:
        return window
    bound = _place_of_reference(windowing.next, window, "a trace id", "the place of that trace")
    if bound is not None:
        return replace(window, after=TracePosition(*bound), includes_newest=window.is_descending)
    packed = read_cursor(windowing.next, scope=scope, secret=secret)
    try:
        start_us, trace_id, flags = _TRACE_CURSOR.unpack_from(packed)
        snapshot = Snapshot.unpack(packed[_TRACE_CURSOR.size :])
    except struct.error as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    includes_newest = bool(flags & _NEWEST_INCLUDED)
    return replace(window, after=TracePosition(start_us, trace_id), snapshot=snapshot, includes_newest=includes_newest)


def _place_of_reference(cursor: str, window: Window, what: str, bound: str) -> tuple[int, bytes] | None:
    """Read a cursor of a client of the reference: an id, and a bound that is its place. ``None`` if it is ours."""
    try:
        id_ = UUID(cursor).bytes
    except ValueError:
        return None
    if window.leading_us is None:
        name = "newest" if window.is_descending else "oldest"
        raise InvalidCursor(f"windowing.next as {what} needs windowing.{name}: {bound}.")
    return window.leading_us, id_


def pack_position(position: Position) -> bytes:
    """Return the 40 bytes that the cursor of a page of spans holds."""
    return _SPAN_CURSOR.pack(*position)


def unpack_position(packed: bytes) -> Position:
    """Return the position that ``pack_position`` wrote. Raises ``InvalidCursor``."""
    try:
        return Position(*_SPAN_CURSOR.unpack(packed))
    except struct.error as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc


def cursor_scope(kind: str, project_id: UUID, filtering: Node, windowing: Windowing) -> bytes:
    """Return the fingerprint of all that decides what pages there are and in which order; the limit is not part of it.

    ``kind`` names the pages, so that a cursor of one route is invalid on another.
    """
    order = windowing.order or Order.DESCENDING
    bounds = [microseconds(windowing.newest), microseconds(windowing.oldest), windowing.rate]
    conditions = orjson.dumps(filtering, option=orjson.OPT_SORT_KEYS)  # one text for one filter
    rest = repr([str(part) for part in [order, *bounds]]).encode()
    return fingerprint([kind.encode(), project_id.bytes, conditions, rest])


def limit_of(limit: int | None, *, default: int, max_count: int, at: tuple[str, ...] = LIMIT_AT) -> int:
    """Return how many items a page may hold: ``limit``, or ``default`` if there is none.

    Raises ``InvalidRequest`` (422) above ``max_count``; ``at`` is the path of the limit in the request.
    """
    return number_up_to(max_count, limit, default=default, at=at)
