"""Requests and responses of ``/retention``."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

DAYS_MAX: Final = 36_500
BYTES_MAX: Final = 2**62


class RetentionRules(BaseModel):
    """What a project keeps: at least one rule."""

    max_age_days: float | None = Field(
        None,
        ge=0,
        le=DAYS_MAX,
        allow_inf_nan=False,
        description="A trace is deleted when its last span started this many days ago.",
        examples=[30],
    )
    max_bytes: int | None = Field(
        None,
        ge=0,
        le=BYTES_MAX,
        description="The oldest traces are deleted until the others have at most this estimated size.",
    )


class SetRetention(BaseModel):
    """The rules to set. They replace all earlier ones."""

    retention: RetentionRules = Field(description="The rules.")
    confirm: bool = Field(
        default=False, description="Must be true if a rule is 0, because the next run then deletes every trace."
    )


class FiguresResponse(BaseModel):
    """Traces, their spans and their size."""

    traces: int = Field(description="The number of traces.")
    spans: int = Field(description="The number of spans.")
    bytes: int = Field(description="An estimate of their uncompressed size: that of the spans in responses.")
    oldest: str | None = Field(None, description="The start of the first span; absent if there is none.")


class NextRun(BaseModel):
    """The next run."""

    at: str = Field(description="The time at which it begins; a time that has passed means at once.")
    running: bool | None = Field(None, description="True while a run deletes; absent otherwise.")
    before: str | None = Field(
        None, description="It deletes the traces whose last span starts before this time, if it begins now."
    )
    because: Literal["max_age_days", "max_bytes"] | None = Field(None, description="The rule that decides that time.")
    deletes: FiguresResponse | None = Field(None, description="What it deletes if it begins now.")


class LastRun(BaseModel):
    """The last run with rules of this project."""

    started_at: str = Field(description="When it began.")
    ended_at: str | None = Field(None, description="When it ended; absent while it runs.")
    failure: str | None = Field(None, description="Why it did not delete everything; the next run continues.")
    deleted: FiguresResponse = Field(description="What it has deleted.")


class RetentionState(BaseModel):
    """What a project keeps, what it stores, and what is deleted and when."""

    max_age_days: float | None = Field(None, description="The rule, absent if there is none.")
    max_bytes: int | None = Field(None, description="The rule, absent if there is none.")
    updated_at: str | None = Field(None, description="When the rules were set.")
    stored: FiguresResponse | None = Field(None, description="What is stored now.")
    reason: str | None = Field(None, description="Why `stored` and `next_run.deletes` are absent.")
    next_run: NextRun | None = Field(None, description="The next run; absent if there are no rules.")
    last_run: LastRun | None = Field(None, description="The last run; absent before the first one.")
    deleted: FiguresResponse = Field(description="What all runs together have deleted.")


class RetentionResponse(BaseModel):
    """The retention of the project of the key."""

    count: int = Field(1, description="Always 1.")
    retention: RetentionState = Field(description="The rules, and what they do.")
