"""Batches of spans, as subscriptions deliver them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from query_api.delivery.targets.target import DeliveryBatch

START_NS = 1_795_258_458_725_666_593


def span_object(number: int, **members: Any) -> dict[str, Any]:
    """A span object; ``members`` replace its own."""
    return {
        "created_at": "2026-11-22T11:00:00.123456Z",
        "trace_id": f"{number // 4 + 1:032x}",
        "span_id": f"{number + 1:016x}",
        "trace_type": "invocation",
        "span_type": "task",
        "span_kind": "SPAN_KIND_INTERNAL",
        "span_name": f"span {number}",
        "start_time": "2026-11-21T22:14:18.725666Z",
        "end_time": "2026-11-21T22:14:18.726666Z",
        "start_time_unix_nano": str(START_NS + number),
        "end_time_unix_nano": str(START_NS + number + 1_000_000),
        "status_code": "STATUS_CODE_UNSET",
        "attributes": {"app": {"number": number}, "ag": {"type": {"trace": "invocation"}, "data": {}, "metrics": {}}},
        "resource": {"attributes": {"service": {"name": "shop"}}},
        **members,
    }


def batch_of(spans: Sequence[Mapping[str, Any]] | int, id_: str = "msg_1") -> DeliveryBatch:
    """A batch of the given spans; a number asks for that many different ones."""
    if isinstance(spans, int):
        spans = [span_object(number) for number in range(spans)]
    return DeliveryBatch(id_, "to-shop", datetime(2026, 11, 22, 11, tzinfo=UTC), spans)
