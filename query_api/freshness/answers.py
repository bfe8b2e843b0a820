"""What every answer made of spans carries beside itself: how fresh it is; and what a request may ask for: to wait first."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from common.stored_position import ALL_PROJECTS
from common.telemetry import DATA_BEHIND_SECONDS
from common.times import format_us
from query_api.filter.parse import parse
from query_api.filter.sql.compile import compile_filter
from query_api.freshness.through import asked_through_us, through_us
from query_api.freshness.waiting import WAIT_FOR_HEADER, read_wanted, wait_until_stored
from query_api.http.auth import sees_all_projects
from query_api.request.context import ApiContext
from query_api.request.route import Handler, Request, Response

DATA_THROUGH_HEADER: Final = "X-Data-Through"
ENDS_TIMEOUT_S: Final = 0.25
"""An answer that is ready waits no longer for Kafka to say where its logs end; a usual query takes longer than that."""


async def answer_fresh(request: Request, handler: Handler) -> Response:
    """The handler's answer, after what the request waits for, with the time up to which it is complete. An illegal filter is
    refused before: nothing that is stored meanwhile makes it legal.

    How far spans are stored is looked at before the handler reads them, so that the answer holds what the header says.
    """
    context = request.context
    if text := ",".join(request.headers.getall(WAIT_FOR_HEADER, [])):
        wanted = read_wanted(text, request, sees_all=sees_all_projects(request))
        _refuse_illegal_filter(request)
        await wait_until_stored(request, wanted)
    if context.ends is None:
        return await handler(request)
    stored = context.stored.through(ALL_PROJECTS)
    context.ends.ask()
    answer = await handler(request)
    ends = await context.ends.heard(timeout_s=ENDS_TIMEOUT_S)
    time_us = through_us(ends, stored) if ends is not None else None
    if time_us is not None:
        _observe(context, time_us)
    if not sees_all_projects(request):  # it can be the time of a record of another project
        time_us = asked_through_us(context.ends.answers, stored)
    if time_us is None:
        return answer
    return replace(answer, headers={**answer.headers, DATA_THROUGH_HEADER: format_us(time_us)})


def _refuse_illegal_filter(request: Request) -> None:
    """Raise ``InvalidFilter`` where the filter that counts is illegal: flat in the body, in the query string, or in the body."""
    for sent, name in ((request.body, "filter"), (request.query, "filter"), (request.body, "filtering")):
        if (filtering := getattr(sent, name, None)) is not None:
            compile_filter(parse(filtering, path=name))
            return


def _observe(context: ApiContext, time_us: int) -> None:
    DATA_BEHIND_SECONDS.set(max(0.0, context.clock.now_ns() / 1e9 - time_us / 1e6))
