"""A query that waits for a span that was just sent finds it, and reports that it is fresh."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.produce import produce
from tests.support.stack import FOUND_S, RunningStack

ROUNDS = 3


def _post(
    stack: RunningStack, path: str, body: Any, headers: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], Mapping[str, str]]:
    sent = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(stack.api + path, data=json.dumps(body).encode(), headers=sent)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer), answer.headers


def test_sent_span_is_found_by_the_next_query(stack: RunningStack) -> None:
    for number in range(ROUNDS):
        name = f"read your write {number} {time.time_ns()}"
        span = {"trace_id": f"{time.time_ns():032x}", "span_id": f"{number + 1:016x}", "span_name": name}
        _, sent = _post(stack, "/tracing/spans/ingest", {"spans": [{**span, "start_time": "2026-01-01T00:00:00Z"}]})
        filtering = {"conditions": [{"field": "span_name", "value": name}]}
        wait = {"X-Clearspan-Wait-For": sent["X-Clearspan-Coordinates"]}

        found, headers = _post(stack, "/spans/query", {"filtering": filtering}, wait)
        assert found["count"] == 1
        deadline_s = time.monotonic() + FOUND_S
        while "X-Data-Through" not in headers:  # a busy machine reads the end offsets too late for a response
            assert time.monotonic() < deadline_s
            _, headers = _post(stack, "/spans/query", {"filtering": filtering}, wait)

        assert datetime.now(UTC) - datetime.fromisoformat(headers["X-Data-Through"]) < timedelta(seconds=FOUND_S)


def test_status_reports_a_stored_record_as_stored(stack: RunningStack) -> None:
    span = {"trace_id": "c" * 32, "span_id": "c" * 16, "span_name": "status", "start_time": "2026-01-01T00:00:00Z"}
    [where] = produce(stack.kafka, "spans", [json.dumps(span).encode()])
    raw = f"{where.topic}/{where.partition}/{where.offset}"
    _post(stack, "/spans/query", {"windowing": {"limit": 1}}, {"X-Clearspan-Wait-For": raw})

    def of_its_partition(status: dict[str, Any]) -> dict[str, Any]:
        partition = {"topic": where.topic, "partition": where.partition}
        return next((each for each in status["partitions"] if partition.items() <= each.items()), {})

    # End offsets may be a second old, and on a busy machine they may be missing.
    status = stack.ask_until(
        "/status/freshness",
        None,
        lambda status: (
            of_its_partition(status).get("produced_offset") == where.offset
            and status["data_through"] == status["asked_at"]
        ),
    )

    of_partition = of_its_partition(status)
    assert of_partition["is_behind"] is False
    assert of_partition["last_stored"]["offset"] == of_partition["stored_offset"] == where.offset
    assert status["data_through"] == status["asked_at"]
