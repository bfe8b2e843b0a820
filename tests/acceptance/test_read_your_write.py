"""Intake, then a query that waits for it: found at once on the embedded stack, and said to be fresh."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.stack import RunningStack

pytestmark = pytest.mark.timeout(120)
ROUNDS = 3


def _post(
    stack: RunningStack, path: str, body: Any, headers: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], Mapping[str, str]]:
    sent = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(stack.api + path, data=json.dumps(body).encode(), headers=sent)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer), answer.headers


def test_what_was_just_sent_is_found_by_the_next_question(stack: RunningStack) -> None:
    for number in range(ROUNDS):
        name = f"read your write {number} {time.time_ns()}"
        span = {"trace_id": f"{time.time_ns():032x}", "span_id": f"{number + 1:016x}", "span_name": name}
        _, sent = _post(stack, "/tracing/spans/ingest", {"spans": [{**span, "start_time": "2026-01-01T00:00:00Z"}]})
        filtering = {"conditions": [{"field": "span_name", "value": name}]}
        wait = {"X-Clearspan-Wait-For": sent["X-Clearspan-Coordinates"]}

        found, headers = _post(stack, "/spans/query", {"filtering": filtering}, wait)

        assert found["count"] == 1
        assert datetime.now(UTC) - datetime.fromisoformat(headers["X-Data-Through"]) < timedelta(seconds=30)


def test_status_says_that_what_was_stored_is_not_behind(stack: RunningStack) -> None:
    span = {"trace_id": "c" * 32, "span_id": "c" * 16, "span_name": "status", "start_time": "2026-01-01T00:00:00Z"}
    _, sent = _post(stack, "/tracing/spans/ingest", {"spans": [span]})
    topic, partition, offset = sent["X-Clearspan-Coordinates"].split("/")
    _post(stack, "/spans/query", {"windowing": {"limit": 1}}, {"X-Clearspan-Wait-For": sent["X-Clearspan-Coordinates"]})
    time.sleep(1.0)  # what Kafka said of its ends may be a second old

    status = stack.ask("/status/freshness")

    [of_partition] = [
        each for each in status["partitions"] if (each["topic"], each["partition"]) == (topic, int(partition))
    ]
    assert of_partition["is_behind"] is False
    assert of_partition["last_stored"]["offset"] == of_partition["stored_offset"] == int(offset)
    assert of_partition["produced_offset"] == int(offset)
    assert status["data_through"] == status["asked_at"]
