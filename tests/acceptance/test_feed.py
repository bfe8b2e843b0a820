"""The feed of a running stack: a waiting request is woken over Kafka when a worker has stored spans."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

import pytest

from tests.support.stack import RunningStack

TRIES: int = 5
NEWS_S_MAX: int = 8
"""Less than the interval at which the table is read without an announcement."""


def send(stack: RunningStack, name: str) -> None:
    span = {
        "trace_id": uuid.uuid4().hex,
        "span_id": uuid.uuid4().hex[:16],
        "span_name": name,
        "start_time": "2026-05-01T12:00:00Z",
        "end_time": "2026-05-01T12:00:01Z",
    }
    stack.ask("/tracing/spans/ingest", {"spans": [span]})


def test_waiting_request_returns_as_soon_as_a_span_is_stored(stack: RunningStack):
    for _ in range(TRIES):  # a busy machine may take longer once; without announcements it always does
        if _seconds_until_news(stack) < NEWS_S_MAX:
            return
    pytest.fail(f"the waiting request got no news within {NEWS_S_MAX} s, {TRIES} times")


def _seconds_until_news(stack: RunningStack) -> float:
    """Send a span while a request waits for it; return how long the request waited."""
    name = f"news {uuid.uuid4()}"
    question: dict[str, Any] = {"filtering": {"conditions": [{"field": "span_name", "value": name}]}}
    at_the_end = stack.ask("/spans/query", {**question, "windowing": {"by": "created_at"}})
    assert at_the_end["count"] == 0
    sending = threading.Timer(1.0, send, (stack, name))
    sending.start()

    began_s = time.monotonic()
    windowing = {"by": "created_at", "wait_s": 30, **at_the_end["windowing"]}
    page = stack.ask("/spans/query", {**question, "windowing": windowing})
    took_s = time.monotonic() - began_s
    sending.join()

    assert [span["span_name"] for span in page["spans"]] == [name]
    after = stack.ask("/spans/query", {**question, "windowing": {**windowing, "wait_s": 0, **page["windowing"]}})
    assert after["count"] == 0
    return took_s
