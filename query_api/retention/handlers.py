"""``/retention``: the rules of the project of the key, and what they delete and when."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from common.errors import DeadlineExceeded, InvalidInput
from common.postgres.leases import Schedule
from common.times import format_us, microseconds, nearest_formattable_us
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, json_response
from query_api.request.route import Request, Response
from query_api.retention.rules import NO_RULES, KeepRules, RetentionRecords, RunResult
from query_api.retention.survey import NEVER_US, NOTHING, Figures, Survey, survey
from query_api.spans.project_spans import project_spans

DAYS_MAX: Final = 36_500
BYTES_MAX: Final = 2**62


class RetentionRules(ApiModel):
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


class SetRetention(ApiModel):
    """The rules to set. They replace all earlier ones."""

    retention: RetentionRules = Field(description="The rules.")
    confirm: bool = Field(
        default=False, description="Must be true if a rule is 0, because the next run then deletes every trace."
    )


class FiguresResponse(ApiModel):
    """Traces, their spans and their size."""

    traces: int = Field(description="The number of traces.")
    spans: int = Field(description="The number of spans.")
    bytes: int = Field(description="An estimate of their uncompressed size: that of the spans in responses.")
    oldest: str | None = Field(None, description="The start of the first span; absent if there is none.")


class NextRun(ApiModel):
    """The next run."""

    at: str = Field(description="The time at which it begins; a time that has passed means at once.")
    running: bool | None = Field(None, description="True while a run deletes; absent otherwise.")
    before: str | None = Field(
        None, description="It deletes the traces whose last span starts before this time, if it begins now."
    )
    because: Literal["max_age_days", "max_bytes"] | None = Field(None, description="The rule that decides that time.")
    deletes: FiguresResponse | None = Field(None, description="What it deletes if it begins now.")


class LastRun(ApiModel):
    """The last run with rules of this project."""

    started_at: str = Field(description="When it began.")
    ended_at: str | None = Field(None, description="When it ended; absent while it runs.")
    failure: str | None = Field(None, description="Why it did not delete everything; the next run continues.")
    deleted: FiguresResponse = Field(description="What it has deleted.")


class RetentionState(ApiModel):
    """What a project keeps, what it stores, and what is deleted and when."""

    max_age_days: float | None = Field(None, description="The rule, absent if there is none.")
    max_bytes: int | None = Field(None, description="The rule, absent if there is none.")
    updated_at: str | None = Field(None, description="When the rules were set.")
    stored: FiguresResponse | None = Field(None, description="What is stored now.")
    reason: str | None = Field(None, description="Why `stored` and `next_run.deletes` are absent.")
    next_run: NextRun | None = Field(None, description="The next run; absent if there are no rules.")
    last_run: LastRun | None = Field(None, description="The last run; absent before the first one.")
    deleted: FiguresResponse = Field(description="What all runs together have deleted.")


class RetentionResponse(ApiModel):
    """The retention of the project of the key."""

    count: int = Field(1, description="Always 1.")
    retention: RetentionState = Field(description="The rules, and what they do.")


async def get_retention(request: Request) -> Response:
    """Return the rules of the project, what it stores, what the next run deletes, and what runs have deleted.

    The figures are computed from what is stored now. If that takes longer than a query may, they are absent.
    """
    return json_response(RetentionResponse(retention=await _state(request)))


async def set_retention(request: Request) -> Response:
    """Set the rules of the project; return the same as `GET /retention`. The next run applies them.

    A rule of 0 deletes every trace and needs `confirm`.
    """
    body: SetRetention = request.body
    rules = body.retention
    if rules.max_age_days is None and rules.max_bytes is None:
        raise InvalidInput(
            "retention: at least one of max_age_days and max_bytes is required. DELETE /retention removes all rules."
        )
    for name, value in (("max_age_days", rules.max_age_days), ("max_bytes", rules.max_bytes)):
        if value == 0 and not body.confirm:
            raise InvalidInput(
                f'retention.{name}: 0 deletes every trace of the project. Send "confirm": true if you mean that.'
            )
    records = RetentionRecords(database_of(request.context))
    wanted = KeepRules(rules.max_age_days, rules.max_bytes)
    await records.set_rules(request.project_id, wanted, user_id=request.user_id)
    return json_response(RetentionResponse(retention=await _state(request)))


async def remove_retention(request: Request) -> Response:
    """Remove the rules of the project: everything is kept from now on. Return the same as `GET /retention`."""
    await RetentionRecords(database_of(request.context)).remove_rules(request.project_id)
    return json_response(RetentionResponse(retention=await _state(request)))


async def _state(request: Request) -> RetentionState:
    records = RetentionRecords(database_of(request.context))
    rules, result, schedule = await asyncio.gather(
        records.find_rules(request.project_id), records.find_result(request.project_id), records.find_schedule()
    )
    spans = project_spans(request)
    reason: str | None = None
    found: Survey | None = None
    try:
        found = await survey(lambda: spans, rules or NO_RULES, now_us=request.context.clock.now_ns() // 1_000)
    except DeadlineExceeded as error:
        reason = error.public_message
    kept = rules or NO_RULES
    return RetentionState(
        max_age_days=kept.max_age_days,
        max_bytes=kept.max_bytes,
        updated_at=_time(kept.updated_at),
        stored=None if found is None else _figures(found.stored),
        reason=reason,
        next_run=None if rules is None else _next_run(schedule, found),
        last_run=None if result is None else _last_run(result),
        deleted=_figures(NOTHING if result is None else _deleted_by_all(result)),
    )


def _next_run(schedule: Schedule, found: Survey | None) -> NextRun:
    before_us = NEVER_US if found is None else found.before_us
    return NextRun(
        at=format_us(microseconds(schedule.next_run)),
        running=schedule.is_running or None,
        before=None if before_us == NEVER_US else format_us(nearest_formattable_us(before_us)),
        because=None if found is None or before_us == NEVER_US else found.limit,
        deletes=None if found is None else _figures(found.expired),
    )


def _last_run(result: RunResult) -> LastRun:
    return LastRun(
        started_at=format_us(microseconds(result.started_at)),
        ended_at=_time(result.ended_at),
        failure=result.failure,
        deleted=_figures(Figures(result.traces_count, result.spans_count, result.bytes_count)),
    )


def _deleted_by_all(result: RunResult) -> Figures:
    return Figures(result.traces_total, result.spans_total, result.bytes_total)


def _figures(figures: Figures) -> FiguresResponse:
    return FiguresResponse(
        traces=figures.traces_count,
        spans=figures.spans_count,
        bytes=figures.bytes_count,
        oldest=None if figures.oldest_us is None else format_us(nearest_formattable_us(figures.oldest_us)),
    )


def _time(time: datetime | None) -> str | None:
    return None if time is None else format_us(microseconds(time))
