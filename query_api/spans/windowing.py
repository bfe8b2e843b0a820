"""Which spans a request asks for, in which order, and where a page continues (reference §6, contract §3.3): members of
requests and responses. What they mean for a statement: ``window.py``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, field_validator

from common.times import RelativeTime, parse_time_ns
from query_api.filter.parse import FilteringModel, check_groups
from query_api.request.json_body import ApiModel, Strict, refuse_boolean
from query_api.request.references import Bound, Text

SORT_LENGTH_MAX: Final = 4_096
"""Characters of the path of an attribute to sort by."""


BEGINNING: Final = "beginning"
NOW: Final = "now"
"""Where a feed begins: before everything that is stored, and after it."""


def _checked_beginning(text: str) -> str:
    if text != BEGINNING and RelativeTime.read(text) is None:
        parse_time_ns(text)
    return text


Filtering: TypeAlias = Annotated[FilteringModel | None, BeforeValidator(check_groups)]
"""A filter in a body. Its groups are counted before pydantic descends into them."""


class Order(StrEnum):
    """The direction of pages along ``start_time``."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class WindowBy(StrEnum):
    """The time by which pages are ordered."""

    START_TIME = "start_time"
    CREATED_AT = "created_at"
    SETTLED_AT = "settled_at"


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
    by: WindowBy | None = Field(
        None,
        description="Default start_time. created_at is the feed of spans, settled_at that of settled traces.",
    )
    wait_s: float | None = Field(
        None, ge=0, le=30, description="Only for a feed: how many seconds to wait for new spans or traces."
    )
    rate: float | None = Field(
        None, ge=0, le=1, description="The share of traces that is sampled, from 0 to 1; default 1, all of them."
    )
    interval: int | None = Field(None, gt=0, description="Minutes of a bucket; only for analytics.")

    _are_numbers = field_validator("limit", "wait_s", "rate", "interval", mode="before")(refuse_boolean)


class SortedScore(Strict):
    """A score as the value by which spans or traces are ranked."""

    field: Literal["scores"] = Field(description="`scores`.")
    key: Text = Field(min_length=1, max_length=SORT_LENGTH_MAX, description="The name of the score.")


_SortedPath: TypeAlias = Annotated[Text, Field(min_length=1, max_length=SORT_LENGTH_MAX)]


def _sorted_form(value: Any) -> str:
    return "score" if isinstance(value, dict | SortedScore) else "attribute"


class Sort(Strict):
    """The value by which spans or traces are ranked."""

    by: Annotated[
        Annotated[_SortedPath, Tag("attribute")] | Annotated[SortedScore, Tag("score")], Discriminator(_sorted_form)
    ] = Field(
        description="`duration`, `tokens`, `cost`, the path of an attribute, or a score as `{field, key}`. Strings that"
        " are numbers count; spans without a number there are left out. A trace has the duration from its earliest"
        " start to its latest end, the tokens and cost of all its spans, and the largest value of an attribute, or of"
        " a score, of its matching spans.",
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
        description="Only for a feed: where it begins without `next`: `beginning` (default), `now`, or after a"
        " `created_at` or `settled.at`, as ISO 8601 or relative to now, such as `-15m`.",
    )


class WindowingResponse(ApiModel):
    """Present if there may be another page, else absent."""

    next: str = Field(description="Put it into windowing.next and leave the rest of the query unchanged.")


IsComplete: TypeAlias = Annotated[
    bool | None,
    Field(description="False if the query's budget ended before the page was full; absent otherwise."),
]
"""The member of a response."""


def beginning_us(begins_at: str, *, now_us: int) -> int:
    """Return the ``created_at`` that ``windowing.from`` names: neither ``BEGINNING`` nor ``NOW``."""
    relative = RelativeTime.read(begins_at)
    return parse_time_ns(begins_at) // 1_000 if relative is None else relative.at_us(now_us)
