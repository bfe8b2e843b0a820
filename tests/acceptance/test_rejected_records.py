"""Rejected records in a running stack: they delay no other record, and their dead letters survive a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clearspan.embedded.layout import Layout, Running
from tests.support.produce import produce
from tests.support.scale import scaled
from tests.support.stack import RunningStack, clearspan, running_stack, stack_environment

pytestmark = pytest.mark.timeout(180)
SPAN_JSON = ("content-type", b"application/vnd.clearspan.span+json")


def bad_spans(topic: str, count: int) -> bytes:
    """Return a record of empty spans in the encoding of its topic."""
    if topic == "otlp_spans":
        scope = delimited(2, b"\x12\x00" * count)
        return delimited(1, scope)
    spans = b",".join([b"{}"] * count)
    return (
        b'{"spans":[%b]}' % spans
        if topic == "spans"
        else b'{"resourceSpans":[{"scopeSpans":[{"spans":[%b]}]}]}' % spans
    )


def delimited(number: int, content: bytes) -> bytes:
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


def good_span(number: int) -> bytes:
    return json.dumps(
        {
            "trace_id": f"{number:032x}",
            "span_id": f"{number:016x}",
            "span_name": "good",
            "start_time": "2026-01-01T00:00:00Z",
        }
    ).encode()


def wait_for_good(stack: RunningStack, count: int) -> None:
    query = {"filtering": {"conditions": [{"field": "span_name", "value": "good"}]}}
    stack.ask_until("/spans/query", query, lambda answer: answer["count"] == count)


def letters(stack: RunningStack, *, count: int) -> list[dict[str, Any]]:
    deadline_s = time.monotonic() + 30
    while True:
        listed = stack.command("dead-letters", "list", "--json").stdout.splitlines()
        if len(listed) == count:
            return [json.loads(line) for line in listed]
        assert time.monotonic() < deadline_s, len(listed)
        time.sleep(0.2)


@pytest.mark.parametrize(
    "topic",
    [
        "otlp_spans",
        pytest.param("otlp_spans_json", marks=pytest.mark.long),
        pytest.param("spans", marks=pytest.mark.long),
    ],
)
def test_record_of_100_000_bad_spans_delays_no_other_record(tmp_path: Path, topic: str):
    with running_stack(tmp_path / "data") as stack:
        started_s = time.monotonic()
        produce(stack.kafka, topic, [bad_spans(topic, 100_000)], key=b"k")
        produce(stack.kafka, topic, [good_span(1)], key=b"k", headers=[SPAN_JSON])  # after it, on the same partition
        produce(stack.kafka, topic, [good_span(n) for n in range(2, 9)], headers=[SPAN_JSON])
        wait_for_good(stack, 8)
        took_s = time.monotonic() - started_s
        before = letters(stack, count=101)
    with running_stack(tmp_path / "data") as stack:
        after = letters(stack, count=101)
        (shared,) = [each for each in after if each["code"] == "many_spans"]
        replayed = stack.command("dead-letters", "replay", str(shared["id"]))
        again = letters(stack, count=201)
        wait_for_good(stack, 8)

    assert took_s < 20  # 1 s on a quiet machine
    assert {each["span_index"] for each in before} == {each["span_index"] for each in after} == {None, *range(100)}
    assert (shared["span_count"], shared["codes"]) == (99_900, {"invalid_trace_id": 99_900})
    assert replayed.returncode == 0
    assert sorted(each["span_count"] for each in again if each["code"] == "many_spans") == [99_800]


def test_header_without_a_value_survives_a_restart(tmp_path: Path):
    headers = [("null", None), ("empty", b""), SPAN_JSON]
    with running_stack(tmp_path / "data") as stack:
        produce(stack.kafka, "spans", [b"no json", good_span(1)], headers=headers)
        wait_for_good(stack, 1)
        letters(stack, count=1)
    with running_stack(tmp_path / "data") as stack:
        (letter,) = letters(stack, count=1)
        assert stack.command("dead-letters", "replay", str(letter["id"])).returncode == 0
        letters(stack, count=1)  # it is still not JSON
        assert stack.process.poll() is None


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    environment = stack_environment(
        tmp_path / "data",
        CLEARSPAN_INGEST__DEAD_LETTER_STREAK_MAX="2",
        CLEARSPAN_INGEST__SHUTDOWN_GRACE_S="2",
    )
    yield environment
    clearspan(environment, "down")


def test_down_reports_dropped_records_and_fails(environment: Mapping[str, str]):
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(Layout(Path(environment["CLEARSPAN_DATA_DIR"])))
    assert running is not None
    produce(running.kafka, "otlp_spans", [b"no protobuf"] * 5, key=b"k")  # the partition is held at the third

    stopped = clearspan(environment, "down")
    again = clearspan(environment, "up", "--detach")

    assert stopped.returncode == 1
    assert "Stopped." not in stopped.stdout
    assert "5 records of otlp_spans/" in stopped.stderr or "3 records of otlp_spans/" in stopped.stderr
    assert "cannot be decoded and name no project" in stopped.stderr
    assert again.returncode == 0
    assert clearspan(environment, "down").returncode == 0


@pytest.mark.scaled
def test_stack_that_is_stopped_at_once_stores_acknowledged_records(tmp_path: Path):
    with running_stack(tmp_path / "data") as stack:
        produce(stack.kafka, "otlp_spans", [bad_spans("otlp_spans", scaled(50_000, 300_000))] * 4)
        produce(stack.kafka, "spans", [good_span(n) for n in range(1, 101)])
        stack.process.terminate()
        code = stack.process.wait(60)
    with running_stack(tmp_path / "data") as stack:
        wait_for_good(stack, 100)
        letters(stack, count=4 * 101)

    assert code == 0


def test_tables_are_created_before_anything_waits_for_them(stack: RunningStack):
    path = Path(stack.environment["CLEARSPAN_DATA_DIR"]).with_suffix(".log")
    deadline_s = time.monotonic() + 30
    while "Partitions assigned." not in (log := path.read_text()):
        assert time.monotonic() < deadline_s, log
        time.sleep(0.1)

    assert "tables of this version" not in log
    assert "Starting: waiting" not in log
    assert log.index("ClickHouse is up to date.") < log.index("Postgres is up to date.") < log.index("The API listens.")
    assert log.index("The API listens.") < log.index("Partitions assigned.")
