"""The embedded stack after an end: killed, stopped and started again; and its broker, full or killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from clearspan.embedded.layout import Layout, Running
from common.kafka.record import Coordinates
from ingest.masking.current import STALE_S
from tests.support.left_over import is_free, processes_below
from tests.support.produce import produce
from tests.support.stack import RunningStack, ask, clearspan, running_stack, stack_environment

SAMPLE = Path(__file__).parents[1] / "data/samples/traceloop-sdk-01.otlp_proto.bin"
ROOT_OF_SAMPLE = {"filtering": {"conditions": [{"field": "span_name", "value": "joke_workflow.workflow"}]}}

GROWN_COUNT = 2_000
"""Records that the stack gets just before it is stopped."""

FEED = {"windowing": {"by": "created_at", "limit": 10_000}}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a stack that is stopped at the end."""
    environment = stack_environment(tmp_path / "data")
    yield environment
    clearspan(environment, "down")


@pytest.mark.long
def test_killed_stack_leaves_no_process_and_keeps_its_dead_letters(environment: Mapping[str, str]):
    layout = Layout(Path(environment["CLEARSPAN_DATA_DIR"]))
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(layout)
    assert running is not None
    _send_large_attribute(f"http://127.0.0.1:{environment['CLEARSPAN_API_PORT']}")
    children = psutil.Process(running.pid).children(recursive=True)
    computing = [child for child in children if "compute" in child.cmdline()]
    produce(running.kafka, "otlp_spans", [b"not a span", b"nor is this"])
    first, second = _dead_letters(environment, count=2)
    assert clearspan(environment, "dead-letters", "drop", first["id"], "--yes").returncode == 0

    os.kill(running.pid, signal.SIGKILL)

    deadline_s = time.monotonic() + 120
    while processes_below(str(layout.root)) or not is_free(environment["CLEARSPAN_KAFKA_PORT"]):
        assert time.monotonic() < deadline_s, processes_below(str(layout.root))
        time.sleep(0.1)
    assert computing
    assert psutil.wait_procs(computing, timeout=120)[1] == []
    again = clearspan(environment, "up", "--detach")
    assert again.returncode == 0, again.stdout + again.stderr
    [after] = _dead_letters(environment, count=1)
    assert after == second
    raw = clearspan(environment, "dead-letters", "show", after["id"], "--raw").stdout
    assert raw in {"not a span", "nor is this"}


@pytest.mark.long
def test_stack_that_is_killed_after_its_guard_leaves_no_process(environment: Mapping[str, str]):
    layout = Layout(Path(environment["CLEARSPAN_DATA_DIR"]))
    assert clearspan(environment, "up", "--detach").returncode == 0
    running = Running.read(layout)
    assert running is not None
    [guard] = _guards(running.pid)
    guard.kill()
    deadline_s = time.monotonic() + 60
    while _guards(running.pid) in ([], [guard]):
        assert time.monotonic() < deadline_s, layout.log.read_text()[-3000:]
        time.sleep(0.1)
    _wait_for_log(layout.log, "Starting another one")

    os.kill(running.pid, signal.SIGKILL)

    deadline_s = time.monotonic() + 60
    while left := processes_below(str(layout.root)):
        assert time.monotonic() < deadline_s, left
        time.sleep(0.1)


def _guards(stack_pid: int) -> list[psutil.Process]:
    children = psutil.Process(stack_pid).children()
    return [
        child
        for child in children
        if child.status() != psutil.STATUS_ZOMBIE and "clearspan.embedded.guard" in child.cmdline()
    ]


def _send_large_attribute(address: str) -> None:
    """Send a body that the API reads in a process of its own."""
    span = {
        "trace_id": "c0ffee00c0ffee00c0ffee00c0ffee01",
        "span_id": "c0ffee0000000001",
        "attributes": {"a": "x" * 100_000},
    }
    assert ask(address, "/tracing/spans/ingest", {"spans": [span]})["count"] == 1


def _dead_letters(environment: Mapping[str, str], *, count: int) -> list[dict[str, str]]:
    deadline_s = time.monotonic() + 120
    while True:
        listed = clearspan(environment, "dead-letters", "list", "--json").stdout.splitlines()
        if len(listed) == count:
            return [json.loads(line) for line in listed]
        assert time.monotonic() < deadline_s, listed
        time.sleep(0.1)


def _wait_until_stored(stack: RunningStack, where: Sequence[Coordinates]) -> None:
    wait = {"X-Clearspan-Wait-For": ",".join(f"{at.topic}/{at.partition}/{at.offset}" for at in where)}
    request = urllib.request.Request(f"{stack.api}/spans/query", b"{}", {"Content-Type": "application/json", **wait})
    with urllib.request.urlopen(request, timeout=120):
        pass


@dataclass(frozen=True)
class Restarted:
    """A stack that was stopped with SIGTERM, whose data was copied as ``docs/backup.md`` says, and the copy started."""

    stack: RunningStack
    before: dict[str, Any]
    """The sample as the first stack returned it."""
    after: dict[str, Any]
    """The sample as the second one returned it, before anything was sent to it."""
    kept: dict[str, str]
    """The dead letter that was not dropped."""
    feed: dict[str, Any]
    """What the second stack returned for a cursor of the feed that the first one returned after the sample."""
    modes: dict[str, int]
    """Permissions of the data directory and of what is in it, while the first stack ran."""


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    root = tmp_path_factory.mktemp("restarted") / "data"
    root.mkdir(mode=0o755)
    (root / "clearspan.log").write_text("of an earlier stack")
    (root / "clearspan.log").chmod(0o644)
    with running_stack(root) as stack:
        modes = {path.name: path.stat().st_mode & 0o777 for path in [root, *root.iterdir()]}
        _wait_until_stored(stack, produce(stack.kafka, "otlp_spans", [SAMPLE.read_bytes()] * 3))
        before = stack.ask("/spans/query", ROOT_OF_SAMPLE)
        assert before["count"] == 1
        cursor = stack.ask("/spans/query", FEED)["windowing"]["next"]
        produce(stack.kafka, "otlp_spans", [b"not a span", b"nor is this"])
        first, second = _dead_letters(stack.environment, count=2)
        assert stack.command("dead-letters", "drop", first["id"], "--yes").returncode == 0
        produce(stack.kafka, "spans", [_span_json(number, b'"x"') for number in range(GROWN_COUNT)])
        stack.process.send_signal(signal.SIGTERM)
        stack.process.wait(180)
    copy = root.with_name("copy")
    subprocess.run(["cp", "-a", root, copy], check=True)
    shutil.rmtree(root)
    with running_stack(copy) as stack:
        after = stack.ask("/spans/query", ROOT_OF_SAMPLE)
        after_cursor = {"windowing": {**FEED["windowing"], "next": cursor}}
        feed = stack.ask_until("/spans/query", after_cursor, lambda page: page["count"] == GROWN_COUNT)
        yield Restarted(stack, before, after, second, feed, modes)


def test_spans_survive_a_restart(restarted: Restarted):
    assert restarted.after == restarted.before


def test_feed_goes_on_in_the_copy_of_the_data(restarted: Restarted):
    names = Counter(span["span_name"] for span in restarted.feed["spans"])

    assert names == {"grown": GROWN_COUNT}


def test_acknowledged_spans_are_stored_after_a_stop(restarted: Restarted):
    query = {"filtering": {"conditions": [{"field": "span_name", "value": "grown"}]}, "windowing": {"limit": 10_000}}

    assert restarted.stack.ask("/spans/query", query)["count"] == GROWN_COUNT


def test_dead_letters_survive_a_restart_but_not_the_dropped_ones(restarted: Restarted):
    [after] = _dead_letters(restarted.stack.environment, count=1)
    raw = restarted.stack.command("dead-letters", "show", after["id"], "--raw").stdout

    assert after == restarted.kept
    assert raw in {"not a span", "nor is this"}


def test_span_sent_again_after_a_restart_replaces_the_old_one(restarted: Restarted):
    created_at = restarted.before["spans"][0]["created_at"]

    produce(restarted.stack.kafka, "otlp_spans", [SAMPLE.read_bytes()])

    restarted.stack.ask_until(
        "/spans/query",
        ROOT_OF_SAMPLE,
        lambda answer: [span["created_at"] > created_at for span in answer["spans"]] == [True],
    )


def test_other_users_cannot_read_data_or_older_logs(restarted: Restarted):
    modes = dict(restarted.modes)

    assert modes.pop("data") == (0o711 if os.geteuid() == 0 else 0o700)
    assert {"clearspan.log", "clickhouse", "postgres", "running.json", "broker.log"} <= modes.keys()
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.long
def test_producer_that_is_faster_than_the_worker_loses_nothing_and_the_disk_space_is_kept(tmp_path: Path):
    padding, bytes_max = b'"' + b"x" * 500_000 + b'"', 64 * 1024 * 1024
    with running_stack(tmp_path / "data", CLEARSPAN_EMBEDDED_BROKER_BYTES_MAX=str(bytes_max)) as stack:
        produce(stack.kafka, "otlp_spans", [b"not a span"])
        produce(stack.kafka, "spans", [_span_json(number, padding) for number in range(200)])
        files = (Layout(tmp_path / "data").broker).rglob("*.log")
        used = sum(file.stat().st_size for file in files)
        produce(stack.kafka, "spans", [_span_json(200, b'"after"')])

        count = _count_all(stack)
        letters = stack.command("dead-letters", "list", "--json")

    assert used <= bytes_max
    assert count == 201
    assert letters.stdout.count('"undecodable"') == 1


@pytest.mark.long
def test_broker_that_dies_is_started_again_with_its_records(tmp_path: Path):
    with running_stack(tmp_path / "data") as stack:
        _, postgres = stack.process_ids
        os.kill(postgres, signal.SIGKILL)
        time.sleep(2 * STALE_S)  # the worker does not know the masking rules any more, so it takes no records
        produce(stack.kafka, "spans", [_span_json(number, b'"x"') for number in range(201)])
        [broker] = [
            child
            for child in psutil.Process(stack.process.pid).children()
            if "clearspan.embedded.broker_server.server" in child.cmdline()
        ]

        broker.kill()

        _wait_for_log(tmp_path / "data.log", "The broker died.")
    with running_stack(tmp_path / "data") as stack:
        assert _count_all(stack) == 201


def _count_all(stack: RunningStack) -> int:
    """Distinct spans over all pages; a page also ends at 16 MiB."""
    deadline_s = time.monotonic() + 120
    while True:
        seen: set[str] = set()
        windowing: dict[str, object] = {"limit": 100}
        while True:
            answer = stack.ask(
                "/spans/query",
                {"filtering": {"conditions": [{"field": "span_name", "value": "grown"}]}, "windowing": windowing},
            )
            seen |= {span["span_id"] for span in answer["spans"]}
            if "windowing" not in answer:
                break
            windowing = {"limit": 100, "next": answer["windowing"]["next"]}
        if len(seen) >= 201 or time.monotonic() > deadline_s:
            return len(seen)
        time.sleep(0.2)


def _span_json(number: int, padding: bytes) -> bytes:
    head = (
        f'{{"trace_id": "{number + 1:032x}", "span_id": "{number + 1:016x}", "span_name": "grown", '
        f'"start_time": "2026-01-01T00:00:00Z", "attributes": {{"padding": '
    )
    return head.encode() + padding + b"}}"


def _wait_for_log(log: Path, words: str) -> None:
    deadline_s = time.monotonic() + 120
    while words not in log.read_text():
        assert time.monotonic() < deadline_s, log.read_text()[-3000:]
        time.sleep(0.1)
