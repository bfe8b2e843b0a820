"""Requests and responses of the routes of dead letters."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, field_validator

from common.errors import RejectionCode
from query_api.request.json_body import ApiModel, Strict, refuse_boolean
from query_api.request.references import Time
from query_api.spans.windowing import WindowingResponse

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
"""Dead letters on a page, and those that one request replays or drops."""

_TEXT_LENGTH_MAX: Final = 249
"""Of the name of a topic in Kafka."""


class DeadLetterFilter(Strict):
    """Which of the open dead letters. Every member that is given must match; without any, all match."""

    code: RejectionCode | None = Field(None, description="The code of the rejection.")
    topic: str | None = Field(None, max_length=_TEXT_LENGTH_MAX, description="The topic of the original record.")
    project: str | None = Field(
        None, max_length=_TEXT_LENGTH_MAX, description="The project, as `project` of a dead letter says it."
    )
    oldest: Time | None = Field(None, description="The first time of rejection; included.")
    newest: Time | None = Field(None, description="The end of the times of rejection; excluded.")


class DeadLettersParameters(DeadLetterFilter):
    """The dead letters to list, and the page."""

    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="Dead letters on a page.")] = PAGE_DEFAULT
    next: str | None = Field(None, max_length=1_000, description="The cursor that the last page returned.")


class DryRunOption(Strict):
    """Whether to only say what would happen."""

    dry_run: bool = Field(default=False, description="Change nothing; return what would be returned.")


class ResolveDeadLetters(DeadLetterFilter):
    """The dead letters to replay or to drop."""

    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="How many at most; the oldest ones.")] = PAGE_MAX
    dry_run: bool = Field(default=False, description="Change nothing; return what would be returned.")

    _is_number = field_validator("limit", mode="before")(refuse_boolean)


class WentTo(ApiModel):
    """Where a replay published the record."""

    topic: str = Field(description="The topic.")
    partition: int = Field(description="The number of the partition.")
    offset: int = Field(description="The offset of the record.")


class DeadLetterSummary(ApiModel):
    """A rejected record, or a record of rejected spans, without its bytes."""

    id: str = Field(description="The id of the dead letter: partition and offset of the original record, and a digest.")
    topic: str = Field(description="The topic of the original record.")
    partition: int = Field(description="The partition of the original record.")
    offset: int = Field(description="The offset of the original record.")
    span_index: int | None = Field(
        None, description="The position of the span in its record, from 0. Absent if it is about more than one span."
    )
    code: str = Field(description="The code of the rejection.")
    reason: str = Field(description="What is wrong, where, and what is allowed.")
    created_at: str = Field(description="The time of the rejection.")
    bytes_count: int = Field(description="The size of the original bytes.")
    span_count: int | None = Field(None, description="How many spans share this dead letter.")
    codes: dict[str, int] | None = Field(None, description="The number of these spans by their codes.")
    project: str | None = Field(
        None,
        description="The project that the record's header `project-id` names, else that of its topic. Absent if only"
        " the content of the record could name one.",
    )
    went_to: WentTo | None = Field(None, description="After a replay: where the record is now.")


class DeadLetterWithValue(DeadLetterSummary):
    """A dead letter with its bytes."""

    value_base64: str = Field(description="The original bytes, as base64.")


class DeadLettersResponse(ApiModel):
    """A page of open dead letters, the newest first."""

    count: int = Field(description="The number of dead letters in this response.")
    dead_letters: list[DeadLetterSummary] = Field(description="The dead letters, the newest first.")
    windowing: WindowingResponse | None = Field(None, description="Present if there may be another page.")


class DeadLetterResponse(ApiModel):
    """One open dead letter."""

    count: int = Field(description="1, or 0 if there is no such open dead letter.")
    dead_letter: DeadLetterWithValue | None = Field(None, description="The dead letter.")


class DeadLetterResolved(ApiModel):
    """The dead letter that was replayed or dropped."""

    count: int = Field(1, description="Always 1.")
    dead_letter: DeadLetterSummary = Field(description="The dead letter.")
    dry_run: bool | None = Field(None, description="True if nothing was changed.")


class Skipped(ApiModel):
    """A dead letter that cannot be replayed."""

    id: str = Field(description="The id of the dead letter.")
    reason: str = Field(description="Why it cannot be replayed.")


class DeadLettersResolved(ApiModel):
    """The dead letters that were replayed or dropped."""

    count: int = Field(description="The number of dead letters that were replayed or dropped.")
    dead_letters: list[DeadLetterSummary] = Field(description="These dead letters, the oldest first.")
    skipped: list[Skipped] | None = Field(None, description="Those that match and cannot be replayed.")
    remaining: int = Field(description="How many more match and can be replayed or dropped by asking again.")
    dry_run: bool | None = Field(None, description="True if nothing was changed.")
