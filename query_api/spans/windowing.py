"""Which spans a request asks for, in which order, and where a page continues (reference §6, contract §3.3).

``Windowing`` and ``Filtering`` are members of requests. A ``Window`` is what they mean for a statement: bounds, order,
sample, and the position at which the previous page ended. A cursor (``cursor.py``) holds that position, and the next
page continues exactly there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, Self, TypeAlias, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator

from common.errors import InvalidCursor, InvalidInput
from common.settings import QuerySettings
from common.times import RelativeTime, parse_time_ns
from query_api.filter.parse import FilteringModel, check_groups
from query_api.request.json_body import Strict, number_up_to, refuse_boolean
from query_api.request.references import Bound, Text
from query_api.spans.versions import Position

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

SAMPLED: Final = "reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}"
"""The condition of ``windowing.rate`` on ``trace_id``: the same traces each time (reference §6.4). Omit it at 100 %."""

SORT_LENGTH_MAX: Final = 4_096
"""Characters of the path of an attribute to sort by."""

LIMIT_AT: Final = ("body", "windowing", "limit")
_SPAN_CURSOR: Final = struct.Struct(">q16s16s")
_LOWEST_ID: Final = bytes(16)
_HIGHEST_ID: Final = b"\xff" * 16


BEGINNING: Final = "beginning"
NOW: Final = "now"
"""Where a feed begins: before everything that is stored, and after it."""


def _checked_beginning(text: str) -> str:
    if text != BEGINNING and RelativeTime.read(text) is None:
        parse_time_ns(text)
    return text


def _with_groups_checked(filtering: Any) -> Any:
    check_groups(filtering)
    return filtering


Filtering: TypeAlias = Annotated[FilteringModel | None, BeforeValidator(_with_groups_checked)]
"""A filter in a body. Its groups are counted before pydantic descends into them."""


class Order(StrEnum):
    """The direction of pages along ``start_time``."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class WindowBy(StrEnum):
    """The time by which pages are ordered."""

    START_TIME = "start_time"
    CREATED_AT = "created_at"


class Focus(StrEnum):
    """Whether a query finds traces or spans."""

    TRACE = "trace"
    SPAN = "span"


class Format(StrEnum):
    """How traces are returned: as trees, or as the list of their spans."""

    AGENTA = "agenta"
    OPENTELEMETRY = "opentelemetry"


class BasicWindowing(Strict):
    """The page to return: its bounds, its order and its size."""

    newest: Bound | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: Bound | None = Field(None, description="Bound of start_time: excluded when ascending.")
    next: str | None = Field(None, max_length=131_072, description="The cursor that the last page returned.")
    limit: int | None = Field(None, ge=1, description="Spans on a page; default 100, at most 10,000.")
    order: Order | None = Field(None, description="Default descending.")
    by: WindowBy | None = Field(None, description="Default start_time.")
    wait_s: float | None = Field(
        None, ge=0, le=30, description="Only for the feed: how many seconds to wait for new spans."
    )
    rate: float | None = Field(
        None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1; default 1, all of them."
    )
    interval: int | None = Field(None, gt=0, description="Minutes of a bucket; only for analytics.")

    _are_numbers = field_validator("limit", "wait_s", "rate", "interval", mode="before")(refuse_boolean)


class Sort(Strict):
    """The value by which spans or traces are ranked."""

    by: Text = Field(
        min_length=1,
        max_length=SORT_LENGTH_MAX,
        description="`duration`, `tokens`, `cost`, or the path of an attribute. Strings that are numbers count; spans"
        " without a number there are left out. A trace has the duration from its earliest start to its latest end, the"
        " tokens and cost of all its spans, and the largest value of an attribute of its matching spans.",
    )
    order: Order | None = Field(None, description="Default descending: the largest first.")


class Windowing(BasicWindowing):
    """The page to return: its bounds, its order and its size, and where a feed begins."""

    sort: Sort | None = Field(
        None,
        description="Return the first spans or traces by a value, at most 1,000, without `next`. Equal values are in"
        " the order of pages.",
    )

    from_: Annotated[str, AfterValidator(_checked_beginning)] | None = Field(
        None,
        alias="from",
        description="Only for the feed: where it begins without `next`: `beginning` (default), `now`, or after a"
        " `created_at`, as ISO 8601 or relative to now, such as `-15m`.",
    )


class WindowingResponse(BaseModel):
    """Present if there may be another page, else absent."""

    next: str = Field(description="Put it into windowing.next and leave the rest of the query unchanged.")


IsComplete: TypeAlias = Annotated[
    bool | None,
    Field(description="False if the query's budget ended before the page was full; absent otherwise."),
]
"""The member of a response."""


def bound_us(bound: datetime | RelativeTime | None, *, now_us: int) -> int | None:
    """Return a bound in microseconds since 1970; a relative one counts from ``now_us``."""
    if bound is None:
        return None
    return bound.at_us(now_us) if isinstance(bound, RelativeTime) else microseconds(bound)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a time without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def beginning_us(begins_at: str, *, now_us: int) -> int:
    """Return the ``created_at`` that ``windowing.from`` names: neither ``BEGINNING`` nor ``NOW``."""
    relative = RelativeTime.read(begins_at)
    return parse_time_ns(begins_at) // 1_000 if relative is None else relative.at_us(now_us)


def percent_of(rate: float | None) -> int:
    """Return how many of a hundred traces ``rate`` keeps, rounded down; 100 if there is none."""
    return 100 if rate is None else int(rate * 100)


def refuse_unfit(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if members contradict each other on spans: the feed ascends, and only the feed waits.

    ``at`` is the path of the window in the request.
    """
    _refuse_sort(windowing, at=at)
    if windowing.by is WindowBy.CREATED_AT:
        if windowing.order is Order.DESCENDING:
            raise InvalidInput(f"{at}.order: the feed by created_at is ascending; allowed: ascending, or no order.")
        if windowing.from_ is not None and windowing.next is not None:
            raise InvalidInput(f"{at}.from: the feed goes on at {at}.next; allowed: one of the two.")
    elif windowing.from_ is not None:
        raise InvalidInput(f'{at}.from: only the feed begins at a created_at; ask with "by": "created_at".')
    elif windowing.wait_s:
        raise InvalidInput(f'{at}.wait_s: only the feed can wait; ask with "by": "created_at".')


def _refuse_sort(windowing: Windowing, *, at: str) -> None:
    """Raise ``InvalidInput`` if a ranking is asked to continue, or to stream."""
    if windowing.sort is not None:
        if windowing.next is not None:
            raise InvalidInput(f"{at}.sort: a ranking has no next page; allowed: sort or next, not both.")
        if windowing.by is WindowBy.CREATED_AT:
            raise InvalidInput(f"{at}.sort: the feed by created_at has its own order; allowed here: by start_time.")


def refuse_feed(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if the feed is asked for traces: it returns spans."""
    _refuse_sort(windowing, at=at)
    if windowing.by is WindowBy.CREATED_AT:
        raise InvalidInput(
            f"{at}.by: the feed by created_at returns spans: use /spans/query; allowed here: start_time."
        )
    for name, value in (("wait_s", windowing.wait_s), ("from", windowing.from_)):
        if value:
            raise InvalidInput(f"{at}.{name}: only for the feed by created_at of /spans/query.")


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
    def of(cls, windowing: BasicWindowing, *, now_us: int) -> Self:
        """Return the window of a first page; relative bounds count from ``now_us``."""
        order = windowing.order or Order.DESCENDING
        newest_us, oldest_us = (bound_us(bound, now_us=now_us) for bound in (windowing.newest, windowing.oldest))
        return cls(order, newest_us, oldest_us, percent_of(windowing.rate))

    @property
    def is_descending(self) -> bool:
        """Whether pages go from the newest to the oldest."""
        return self.order is Order.DESCENDING

    @property
    def signs(self) -> tuple[str, str]:
        """How ``start_us`` compares with ``newest_us``, and with ``oldest_us``."""
        return ("<", ">=") if self.is_descending else ("<=", ">")

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
        newest_sign, oldest_sign = self.signs
        if self.newest_us is not None and (self.after is None or not self.is_descending):
            texts.append(f"start_us {newest_sign} {{newest_us:Int64}}")
            parameters["newest_us"] = self.newest_us
        if self.oldest_us is not None and (self.after is None or self.is_descending):
            texts.append(f"start_us {oldest_sign} {{oldest_us:Int64}}")
            parameters["oldest_us"] = self.oldest_us
        return Conditions(texts, parameters)

    def sampling(self) -> Conditions:
        """Return the condition that keeps ``rate_percent`` of the traces."""
        if self.rate_percent >= 100:
            return Conditions([], {})
        return Conditions([SAMPLED], {"rate_percent": self.rate_percent})

    def conditions(self) -> Conditions:
        """Return all conditions of the window."""
        parts = (self.after_place(), self.bounds(), self.sampling())
        texts = [text for part in parts for text in part.texts]
        return Conditions(texts, {name: value for part in parts for name, value in part.parameters.items()})


def spans_window(windowing: Windowing, *, position: bytes | None, now_us: int) -> Window:
    """Return the part of the spans that a page is taken from. Raises ``InvalidCursor``.

    ``position`` and ``now_us`` are those of the ``PageCursor``.
    """
    window = Window.of(windowing, now_us=now_us)
    if position is not None:
        return replace(window, after=unpack_position(position))
    if windowing.next is None:
        return window
    bound = place_of_reference(windowing.next, window, "a span id", "the start_time of that span")
    # After all spans of that time and id: the order of the reference is not total (reference §6.2).
    start_us, span_id = bound
    return replace(window, after=edge(Position, start_us, window.order)._replace(span_id=span_id))


def place_of_reference(cursor: str, window: Window, what: str, bound: str) -> tuple[int, bytes]:
    """Return the place in a cursor of a client of the reference: an id, and the bound that is its time."""
    if window.leading_us is None:
        name = "newest" if window.is_descending else "oldest"
        raise InvalidCursor(f"windowing.next as {what} needs windowing.{name}: {bound}.")
    return window.leading_us, UUID(cursor).bytes


def pack_position(position: Position) -> bytes:
    """Return the 40 bytes that the cursor of a page of spans holds."""
    return _SPAN_CURSOR.pack(*position)


def unpack_position(packed: bytes) -> Position:
    """Return the position that ``pack_position`` wrote. Raises ``InvalidCursor``."""
    try:
        return Position(*_SPAN_CURSOR.unpack(packed))
    except struct.error as exc:
        raise InvalidCursor("The cursor in `next` cannot be read.") from exc


def limit_of(limit: int | None, settings: QuerySettings, *, at: tuple[str, ...] = LIMIT_AT) -> int:
    """Return how many items a page may hold: ``limit``, or the default if there is none.

    Raises ``InvalidRequest`` (422) above the maximum; ``at`` is the path of the limit in the request.
    """
    return number_up_to(settings.page_limit_max, limit, default=settings.page_limit_default, at=at)
