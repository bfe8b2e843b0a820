"""The embedded stack after it was killed during an insert: its broker, which had the records, is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.produce import produce
from tests.support.stack import ROOT, RunningStack, running_stack

pytestmark = pytest.mark.long

FEED = {"by": "created_at", "limit": 100}


def record(*numbers: int, attempt: int) -> bytes:
    spans = [
        {
            "trace_id": "1" * 32,
            "span_id": f"{number:016x}",
            "span_name": f"attempt {attempt}",
            "start_time": "2026-01-01T00:00:00Z",
            "attributes": {"shard": "one"},
        }
        for number in numbers
    ]
    return json.dumps({"spans": spans}).encode()


def names(page: dict[str, Any]) -> list[tuple[int, str]]:
    return sorted((int(span["span_id"], 16), span["span_name"]) for span in page["spans"])


def count_of_group(stack: RunningStack) -> int:
    body = {"group_by": [{"field": "attributes", "key": "shard"}], "measures": [{"of": "count"}]}
    [group] = stack.ask("/spans/groups/query", body)["groups"]
    count: int = group["values"]["count"]
    return count


@pytest.mark.parametrize("arguments", [(), ("--without-copies",)], ids=["before its position", "before its copies"])
def test_what_an_interrupted_insert_has_stored_is_in_every_answer(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    with running_stack(data) as stack:
        for at, value in enumerate([record(1, 2, attempt=1), record(2, 3, attempt=2)], start=1):
            produce(stack.kafka, "spans", [value], key=b"same partition")
            stack.wait_until_stored(2 * at, within_s=60)
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(60)
    interrupt = [sys.executable, "-m", "tests.support.interrupted_insert", str(data), *arguments]
    subprocess.run(interrupt, cwd=ROOT, check=True, timeout=120)

    with running_stack(data) as stack:
        stored = [(1, "attempt 1"), (2, "attempt 2"), (3, "attempt 2")]
        assert names(stack.ask("/spans/query", {"windowing": FEED})) == stored
        assert names(stack.ask("/spans/query", {})) == stored
        assert names(stack.ask(f"/spans/?trace_ids={'1' * 32}")) == stored
        assert count_of_group(stack) == 3
