"""The embedded stack starts on the data of an older release, and refuses data of a newer one (docs/upgrade.md)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.deployment import Release, next_release
from tests.support.stack import RunningStack, running_stack, stack_environment, wait_until_ready

SPAN = {"trace_id": "1" * 32, "span_id": "1" * 16, "span_name": "s", "start_time": "2026-01-01T00:00:00Z"}


@contextmanager
def _stack_of(release: Release, data_dir: Path) -> Iterator[RunningStack]:
    environment, log = stack_environment(data_dir), data_dir.with_suffix(f".{release.name}.log")
    command = [sys.executable, "-m", "clearspan", "up"]
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=release.directory, env=environment, stdout=output, stderr=output)
    stack = RunningStack(environment, process)
    try:
        wait_until_ready([stack.api, stack.worker], process, log)
        yield stack
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0, log.read_text()[-2_000:]
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_stack_starts_on_data_of_the_older_release(tmp_path: Path) -> None:
    newer, data_dir = next_release(tmp_path / "next"), tmp_path / "data"
    feed = {"windowing": {"by": "created_at"}}
    with running_stack(data_dir) as stack:
        stack.ask("/tracing/spans/ingest", {"spans": [SPAN]})
        before = stack.ask_until("/spans/query", feed, lambda answer: answer["count"] == 1)
    with _stack_of(newer, data_dir) as stack:
        assert stack.ask("/spans/query", feed)["spans"] == before["spans"]
        stack.ask("/tracing/spans/ingest", {"spans": [{**SPAN, "span_id": "2" * 16}]})
        more = {"windowing": {**feed["windowing"], "next": before["windowing"]["next"]}}
        found = stack.ask_until("/spans/query", more, lambda answer: answer["count"] > 0)
        assert [span["span_id"] for span in found["spans"]] == ["2" * 16]

    refused = subprocess.run(
        [sys.executable, "-m", "clearspan", "up"],
        env=stack_environment(data_dir),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stderr.rstrip().endswith("the program is older than the database.")
    with _stack_of(newer, data_dir) as stack:
        assert stack.ask("/spans/query", feed)["count"] == 2
