"""The ``windowing`` and ``filtering`` of a request: which spans, and in which order (reference §6, contract §3.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from common.errors import InvalidInput
from common.times import parse_time_ns
from query_api.filter.parse import FilteringModel, check_groups
from query_api.request.json_body import Strict, refuse_boolean
from query_api.request.references import Time

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

SAMPLED: Final = "reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}"
"""The condition of ``windowing.rate`` on ``trace_id``: the same traces each time (reference §6.4). Omit it at 100 %."""


def _with_groups_checked(filtering: Any) -> Any:
    check_groups(filtering)
    return filtering


Filtering: TypeAlias = Annotated[FilteringModel | None, BeforeValidator(_with_groups_checked)]
"""A filter in a body. Its groups are counted before pydantic descends into them."""


def _parse_microseconds(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(  # noqa: TRY004 - pydantic reports only ValueError
            "a time is an ISO 8601 string, or an integer of 10, 13, 16 or 19 digits (s, ms, µs or ns since 1970)"
        )
    try:
        return parse_time_ns(value) // 1000
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc


Moment: TypeAlias = Annotated[int | None, BeforeValidator(_parse_microseconds, json_schema_input_type=str | int | None)]
"""A time in a request, as microseconds since 1970."""


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


class Windowing(Strict):
    """The page to return: its bounds, its order and its size."""

    newest: Time | None = Field(None, description="Bound of start_time: excluded when descending.")
    oldest: Time | None = Field(None, description="Bound of start_time: excluded when ascending.")
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


class WindowingResponse(BaseModel):
    """Present if there may be another page, else absent."""

    next: str = Field(description="Put it into windowing.next and leave the rest of the query unchanged.")


def microseconds(moment: datetime | None) -> int | None:
    """Return microseconds since 1970; a time without a zone is UTC."""
    if moment is None:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def percent_of(rate: float | None) -> int:
    """Return how many of a hundred traces ``rate`` keeps, rounded down; 100 if there is none."""
    return 100 if rate is None else int(rate * 100)


def refuse_unfit(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if members contradict each other on spans: the feed ascends, and only the feed waits.

    ``at`` is the path of the window in the request.
    """
    if windowing.by is WindowBy.CREATED_AT:
        if windowing.order is Order.DESCENDING:
            raise InvalidInput(f"{at}.order: the feed by created_at is ascending; allowed: ascending, or no order.")
    elif windowing.wait_s:
        raise InvalidInput(f'{at}.wait_s: only the feed can wait; ask with "by": "created_at".')


def refuse_feed(windowing: Windowing, *, at: str = "windowing") -> None:
    """Raise ``InvalidInput`` if the feed is asked for traces: it returns spans."""
    if windowing.by is WindowBy.CREATED_AT:
        raise InvalidInput(
            f"{at}.by: the feed by created_at returns spans: use /spans/query; allowed here: start_time."
        )
    if windowing.wait_s:
        raise InvalidInput(f"{at}.wait_s: only the feed by created_at of /spans/query can wait.")
