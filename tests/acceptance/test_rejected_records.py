"""Rejected records in a running stack: they delay no other record, and their dead letters survive a restart."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clearspan.embedded.layout import Layout, Running
from common.kafka.record import Coordinates
from ingest.masking.current import STALE_S
from tests.support.produce import produce
from tests.support.scale import scaled
from tests.support.stack import RunningStack, clearspan, running_stack, stack_environment

SPAN_JSON = ("content-type", b"application/vnd.clearspan.span+json")
LETTERS_PER_RECORD = 101
"""Of a record with many bad spans: one for each of the first hundred, and one for the others."""

LAST_COUNT = 4
"""Records of bad spans that the stack gets just before it is stopped."""

GOOD_COUNT = 100


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


def letters(
    stack: RunningStack, *, count: int, where: Callable[[dict[str, Any]], bool] = lambda _: True
) -> list[dict[str, Any]]:
    """Return the open dead letters for which ``where`` is true, as soon as there are ``count``."""
    deadline_s = time.monotonic() + 180
    while True:
        listed = map(json.loads, stack.command("dead-letters", "list", "--json").stdout.splitlines())
        found = [each for each in listed if where(each)]
        if len(found) == count:
            return found
        assert time.monotonic() < deadline_s, len(found)
        time.sleep(0.1)


def of_record(dead_letters: Iterable[dict[str, Any]], record: Coordinates) -> list[dict[str, Any]]:
    return [each for each in dead_letters if (each["topic"], each["partition"], each["offset"]) == record]


@dataclass(frozen=True)
class Restarted:
    """A stack that got bad records, was stopped at once after the last of them, and runs again."""

    stack: RunningStack
    large: Coordinates
    """The record of 100,000 bad spans."""
    no_json: Coordinates
    """A record that is not JSON, with a header without a value."""
    good_took_s: float
    """How long it took to store the good spans that were sent after the large record."""
    before: list[dict[str, Any]]
    """The dead letters of the first stack, before the records that it got last."""
    after: list[dict[str, Any]]
    """The dead letters of the second stack, before any replay."""
    exit_code: int


@pytest.fixture(scope="module", params=["otlp_spans", "otlp_spans_json", "spans"])
def restarted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    topic, data_dir = request.param, tmp_path_factory.mktemp("restarted") / "data"
    with running_stack(data_dir) as stack:
        started_s = time.monotonic()
        [large] = produce(stack.kafka, topic, [bad_spans(topic, 100_000)], key=b"k")
        produce(stack.kafka, topic, [good_span(1)], key=b"k", headers=[SPAN_JSON])  # after it, on the same partition
        produce(stack.kafka, topic, [good_span(n) for n in range(2, 9)], headers=[SPAN_JSON])
        wait_for_good(stack, 8)
        took_s = time.monotonic() - started_s
        headers = [("null", None), ("empty", b""), SPAN_JSON]
        [no_json, _] = produce(stack.kafka, "spans", [b"no json", good_span(9)], headers=headers)
        wait_for_good(stack, 9)
        before = letters(stack, count=LETTERS_PER_RECORD + 1)
        produce(stack.kafka, "otlp_spans", [bad_spans("otlp_spans", scaled(50_000, 300_000))] * LAST_COUNT)
        produce(stack.kafka, "spans", [good_span(n) for n in range(10, GOOD_COUNT + 1)])
        stack.process.terminate()
        exit_code = stack.process.wait(180)
    with running_stack(data_dir) as stack:
        wait_for_good(stack, GOOD_COUNT)
        after = letters(stack, count=(1 + LAST_COUNT) * LETTERS_PER_RECORD + 1)
        yield Restarted(stack, large, no_json, took_s, before, after, exit_code)


@pytest.mark.long
def test_record_of_100_000_bad_spans_delays_no_other_record(restarted: Restarted):
    before, after = (of_record(each, restarted.large) for each in (restarted.before, restarted.after))

    assert restarted.good_took_s < 20  # 1 s on a quiet machine
    assert {each["span_index"] for each in before} == {each["span_index"] for each in after} == {None, *range(100)}
    assert len(before) == len(after) == LETTERS_PER_RECORD


@pytest.mark.long
def test_dead_letter_of_many_spans_is_replayed_without_those_that_have_their_own(restarted: Restarted):
    of_large = of_record(restarted.after, restarted.large)
    others = {each["id"] for each in restarted.after if each not in of_large}
    (shared,) = [each for each in of_large if each["code"] == "many_spans"]

    replayed = restarted.stack.command("dead-letters", "replay", str(shared["id"]))

    again = letters(
        restarted.stack,
        count=2 * LETTERS_PER_RECORD - 1,
        where=lambda each: each["id"] not in others and each["code"] != "undecodable",
    )
    assert (shared["span_count"], shared["codes"]) == (99_900, {"invalid_trace_id": 99_900})
    assert replayed.returncode == 0
    assert sorted(each["span_count"] for each in again if each["code"] == "many_spans") == [99_800]
    wait_for_good(restarted.stack, GOOD_COUNT)


@pytest.mark.long
def test_header_without_a_value_survives_a_restart(restarted: Restarted):
    (letter,) = of_record(restarted.after, restarted.no_json)

    replayed = restarted.stack.command("dead-letters", "replay", str(letter["id"]))

    assert replayed.returncode == 0
    (again,) = letters(restarted.stack, count=1, where=lambda each: each["code"] == "undecodable")
    assert again["id"] != letter["id"]
    assert restarted.stack.process.poll() is None


@pytest.mark.scaled
@pytest.mark.long
def test_stack_that_is_stopped_at_once_stores_acknowledged_records(restarted: Restarted):
    known = [*of_record(restarted.after, restarted.large), *of_record(restarted.after, restarted.no_json)]
    last = [each for each in restarted.after if each not in known]

    assert restarted.exit_code == 0
    assert len(last) == LAST_COUNT * LETTERS_PER_RECORD


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    environment = stack_environment(
        tmp_path / "data",
        CLEARSPAN_INGEST__DEAD_LETTER_STREAK_MAX="2",
        CLEARSPAN_INGEST__SHUTDOWN_GRACE_S="2",
    )
    yield environment
    clearspan(environment, "down")


@pytest.mark.long
def test_down_leaves_what_is_not_stored_to_the_next_start(environment: Mapping[str, str]):
    layout = Layout(Path(environment["CLEARSPAN_DATA_DIR"]))
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(layout)
    assert running is not None
    os.kill(int((layout.postgres / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    time.sleep(2 * STALE_S)  # the worker does not know the masking rules any more, so it takes no records
    produce(running.kafka, "otlp_spans", [b"no protobuf"] * 5, key=b"k")

    stopped = clearspan(environment, "down")
    again = clearspan(environment, "up", "--detach")

    assert stopped.returncode == 0, stopped.stderr
    assert again.returncode == 0
    wait_for_dead_letters(environment, 5)


def test_no_partition_of_the_embedded_broker_is_held(environment: Mapping[str, str]):
    """Its records would fill the disk space of the broker, and nothing more could be produced."""
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(Layout(Path(environment["CLEARSPAN_DATA_DIR"])))
    assert running is not None
    produce(running.kafka, "otlp_spans", [b"no protobuf"] * 5, key=b"k")  # more in a row than the streak may have

    wait_for_dead_letters(environment, 5)


def wait_for_dead_letters(environment: Mapping[str, str], count: int) -> None:
    deadline_s = time.monotonic() + 120
    while len(listed := clearspan(environment, "dead-letters", "list", "--json").stdout.splitlines()) != count:
        assert time.monotonic() < deadline_s, listed
        time.sleep(0.1)


def test_tables_are_created_before_anything_waits_for_them(stack: RunningStack):
    path = Path(stack.environment["CLEARSPAN_DATA_DIR"]).with_suffix(".log")
    deadline_s = time.monotonic() + 120
    while "Partitions assigned." not in (log := path.read_text()):
        assert time.monotonic() < deadline_s, log
        time.sleep(0.1)

    assert "tables of this version" not in log
    assert "Starting: waiting" not in log
    assert log.index("ClickHouse is up to date.") < log.index("Postgres is up to date.") < log.index("The API listens.")
    assert log.index("The API listens.") < log.index("Partitions assigned.")
