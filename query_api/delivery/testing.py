"""``POST /subscriptions/{subscription_id}/test``: send one made-up span to the target now, and say what happened.

It changes nothing of the subscription. Few tests run at the same time, because each waits for a system that may be
slow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from common.errors import ServiceError
from common.fair_share import FairShare
from common.times import format_us
from query_api.delivery.handlers import named_subscription
from query_api.delivery.schemas import TestDelivery, TestDeliveryResponse
from query_api.delivery.store import Subscriptions
from query_api.delivery.targets.opening import open_target
from query_api.delivery.targets.target import (
    DeliveryBatch,
    MessageTarget,
    RejectedSpans,
    Target,
    TargetRefused,
    TargetUnavailable,
)
from query_api.request.context import ApiContext, database_of
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response

TESTS_MAX: Final = 16
"""Tests that run at the same time in one process."""

_tests: Final = FairShare("test deliveries", TESTS_MAX)


async def test_subscription(request: Request) -> Response:
    """Send one made-up span to the target, whose name is `clearspan.test`."""
    found = await named_subscription(request)
    context = request.context
    store = Subscriptions(database_of(context), request.project_id, request.user_id)
    secrets = await store.secrets(found.id)
    now_us = context.clock.now_ns() // 1_000
    batch = DeliveryBatch(f"test_{uuid4().hex}", found.slug, datetime.now(UTC), [test_span(now_us)])
    target = open_target(found.target, secrets, settings=context.settings, project_id=request.project_id)
    return await test_response(context, target, batch.id, lambda: target.deliver(batch))


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
