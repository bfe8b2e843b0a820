"""Tests of targets: send one made-up span or message now, and say what happened.

A test changes nothing of the subscription or alert. Few tests run at the same time, because each waits for a system
that may be slow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

from common.errors import ServiceError
from common.fair_share import FairShare
from common.times import format_us
from query_api.delivery.schemas import TestDelivery, TestDeliveryResponse
from query_api.delivery.targets.target import (
    MessageTarget,
    RejectedSpans,
    Target,
    TargetRefused,
    TargetUnavailable,
)
from query_api.request.context import ApiContext
from query_api.request.json_body import json_response
from query_api.request.route import Response

TESTS_MAX: Final = 16
"""Tests that run at the same time in one process."""

_tests: Final = FairShare("test deliveries", TESTS_MAX)


async def test_response(
    context: ApiContext,
    target: Target | MessageTarget,
    id_: str,
    send: Callable[[], Awaitable[RejectedSpans | None]],
) -> Response:
    """Send to a target when it is the turn of this test, close it, and return what happened."""
    async with _tests.place(timeout_s=context.settings.query.queue_s):
        began_s = context.clock.monotonic_s()
        try:
            reason = await _failure(send)
        finally:
            await target.close()
        duration_ms = (context.clock.monotonic_s() - began_s) * 1_000
    result = TestDelivery(batch_id=id_, delivered=reason is None, reason=reason, duration_ms=round(duration_ms, 1))
    return json_response(TestDeliveryResponse(count=1, delivery=result))


async def _failure(send: Callable[[], Awaitable[RejectedSpans | None]]) -> str | None:
    try:
        rejected = await send()
    except (TargetUnavailable, TargetRefused) as exc:
        return exc.reason
    except ServiceError as exc:
        return exc.public_message
    return None if rejected is None else f"The target rejected the span: {rejected.reason}"


def test_span(now_us: int) -> dict[str, Any]:
    """Return a span object as ``/spans/query`` returns them, which begins and ends now."""
    now = format_us(now_us)
    return {
        "created_at": now,
        "trace_id": uuid4().hex,
        "span_id": uuid4().hex[:16],
        "trace_type": "invocation",
        "span_type": "task",
        "span_kind": "SPAN_KIND_INTERNAL",
        "span_name": "clearspan.test",
        "start_time": now,
        "end_time": now,
        "start_time_unix_nano": str(now_us * 1_000),
        "end_time_unix_nano": str(now_us * 1_000),
        "status_code": "STATUS_CODE_OK",
        "attributes": {},
    }
