"""A query that waits for a span that was just sent finds it, and reports that it is fresh."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.produce import produce
from tests.support.stack import RunningStack, running_stack

pytestmark = pytest.mark.timeout(120)
ROUNDS = 3
WAIT_S = 1.0
ADMIN = "Access of-the-test"


def _post(
    stack: RunningStack, path: str, body: Any, headers: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], Mapping[str, str]]:
    sent = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(stack.api + path, data=json.dumps(body).encode(), headers=sent)
    with urllib.request.urlopen(request, timeout=30) as answer:
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
        assert datetime.now(UTC) - datetime.fromisoformat(headers["X-Data-Through"]) < timedelta(seconds=30)


def test_status_reports_a_stored_record_as_stored(stack: RunningStack) -> None:
    span = {"trace_id": "c" * 32, "span_id": "c" * 16, "span_name": "status", "start_time": "2026-01-01T00:00:00Z"}
    [where] = produce(stack.kafka, "spans", [json.dumps(span).encode()])
    raw = f"{where.topic}/{where.partition}/{where.offset}"
    _post(stack, "/spans/query", {"windowing": {"limit": 1}}, {"X-Clearspan-Wait-For": raw})
    time.sleep(1.0)  # end offsets may be a second old

    status = stack.ask("/status/freshness")

    [of_partition] = [
        each for each in status["partitions"] if (each["topic"], each["partition"]) == (where.topic, where.partition)
    ]
    assert of_partition["is_behind"] is False
    assert of_partition["last_stored"]["offset"] == of_partition["stored_offset"] == where.offset
    assert of_partition["produced_offset"] == where.offset
    assert status["data_through"] == status["asked_at"]


def test_project_learns_nothing_about_records_of_another_project(tmp_path: Path) -> None:
    """Two projects write to one partition. To one project, the other's record looks as if it were never stored."""
    more = {
        "CLEARSPAN_AUTH": "on",
        "CLEARSPAN_ADMIN_KEY": "of-the-test",
        "CLEARSPAN_QUERY__WAIT_FOR_MAX_S": str(WAIT_S),
    }
    with running_stack(tmp_path / "data", **more) as stack:
        mine, other = _account(stack), _account(stack)
        of_other, of_mine = _produced(stack, other), _produced(stack, mine)
        assert _until_answered(stack, other, of_other)[0] == 200
        assert _until_answered(stack, mine, of_mine)[0] == 200

        hidden = [of_other, "spans/0/900719925474", "spans/999/0", "nowhere/0/0"]
        ended = [_waited(stack, mine["key"], each) for each in hidden]

        for place, (status, body, seconds) in zip(hidden, ended, strict=True):
            assert status == 504
            assert body == {"detail": f"X-Clearspan-Wait-For: not queryable after {WAIT_S:g} s: {place}."}
            assert WAIT_S <= seconds < 2 * WAIT_S
        for place in (of_other, of_mine):
            assert _waited(stack, ADMIN, place, path="/admin/status/freshness")[0] == 200
        signed = _sent(stack, other["key"])
        assert _waited(stack, other["key"], signed)[0] == 200
        assert _waited(stack, mine["key"], signed)[0] == 400


def _account(stack: RunningStack) -> dict[str, str]:
    """Create a project; return its id and the Authorization header of its key."""
    options = {"create_api_keys": True, "return_api_keys": True}
    email = f"{time.time_ns()}@example.com"
    made, _ = _post(
        stack,
        "/admin/simple/accounts/",
        {"accounts": {"u": {"user": {"email": email}, "options": options}}},
        {"Authorization": ADMIN},
    )
    account = made["accounts"]["u"]
    [key], [project] = account["api_keys"].values(), account["projects"].values()
    return {"key": key, "project_id": project["id"]}


def _produced(stack: RunningStack, account: Mapping[str, str]) -> str:
    """Produce a record for the project, always to the same partition; return its coordinates."""
    span = {"trace_id": f"{time.time_ns():032x}", "span_id": "1" * 16, "start_time": "2026-01-01T00:00:00Z"}
    headers = [("project-id", account["project_id"].encode())]
    [where] = produce(stack.kafka, "spans", [json.dumps(span).encode()], key=b"one partition", headers=headers)
    return f"{where.topic}/{where.partition}/{where.offset}"


def _sent(stack: RunningStack, key: str) -> str:
    """Send a span over HTTP; return its coordinates."""
    span = {"trace_id": f"{time.time_ns():032x}", "span_id": "2" * 16, "start_time": "2026-01-01T00:00:00Z"}
    _, headers = _post(stack, "/tracing/spans/ingest", {"spans": [span]}, {"Authorization": key})
    return headers["X-Clearspan-Coordinates"]


def _until_answered(stack: RunningStack, account: Mapping[str, str], place: str) -> tuple[int, Any, float]:
    """Repeat the query until the record is stored: on a busy machine that takes longer than one wait."""
    deadline_s = time.monotonic() + 30
    while (ended := _waited(stack, account["key"], place))[0] == 504:
        assert time.monotonic() < deadline_s, ended
    return ended


def _waited(
    stack: RunningStack, authorization: str, place: str, *, path: str = "/spans/sessions/query"
) -> tuple[int, Any, float]:
    """Send a query that waits; return status, body and duration in seconds."""
    headers = {"Authorization": authorization, "X-Clearspan-Wait-For": place}
    data = None if path.startswith("/admin") else b"{}"
    headers |= {} if data is None else {"content-type": "application/json"}
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(urllib.request.Request(stack.api + path, data=data, headers=headers)) as answer:
            return answer.status, json.load(answer), time.monotonic() - began_s
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer), time.monotonic() - began_s
