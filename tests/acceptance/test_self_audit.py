"""``clearspan audit`` against a running embedded stack: results, exit codes, metrics, and how it fails; what ``docs/self-audit.md``
shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.command_line import RunCommand, runner
from tests.support.ports import free_port
from tests.support.produce import produce
from tests.support.stack import RunningStack

ROOT = Path(__file__).parents[2]
NOT_MADE, WRONG_USAGE = 4, 2


@pytest.fixture
def run(stack: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    return runner(monkeypatch, capsys, stack.environment)


@pytest.mark.parametrize("through", ["kafka", "http"])
def test_marked_spans_are_found(run: RunCommand, tmp_path: Path, through: str) -> None:
    metrics = tmp_path / "audit.prom"

    ended = run("audit", "--through", through, "--spans", "25", "--timeout", "120", "--json", "--metrics", str(metrics))

    assert ended.code == 0, ended
    result = json.loads(ended.stdout)
    assert (result["through"], result["sent"], result["is_good"]) == (through, 25, True)
    assert [result[name] for name in ("found", "missing", "twice", "differing")] == [25, 0, 0, 0]
    text = metrics.read_text()
    assert "clearspan_self_audit_success 1\n" in text
    assert "clearspan_self_audit_missing_spans 0\n" in text
    assert [path.name for path in tmp_path.iterdir()] == ["audit.prom"]


def test_audit_needs_no_option(run: RunCommand) -> None:
    ended = run("audit")

    assert ended.code == 0, ended
    assert "Sent 20 spans through Kafka" in ended.stdout


def test_records_in_kafka_are_compared(run: RunCommand, stack: RunningStack) -> None:
    bad = {"trace_id": "e" * 32, "span_id": "0" * 16, "span_name": "bad", "start_time": "2026-01-01T00:00:00Z"}
    [where] = produce(stack.kafka, "spans", [json.dumps(bad).encode()])

    def compared() -> tuple[int, dict[str, Any]]:
        ended = run("audit", "--verify", "--topic", "spans", "--json")
        partitions = json.loads(ended.stdout)["partitions"]
        return ended.code, next(each for each in partitions if each["partition"] == where.partition)

    deadline_s = time.monotonic() + 120
    while (found := compared())[1]["through_offset"] < where.offset:
        assert time.monotonic() < deadline_s
        time.sleep(0.2)

    code, report = found
    assert (code, report["missing"]) == (0, 0), report
    assert report["dead_lettered"] >= 1
    assert report["spans"] == report["stored"] + report["deleted"] + report["dead_lettered"]


def test_audit_that_cannot_be_made_says_why(run: RunCommand, tmp_path: Path) -> None:
    nowhere, metrics = f"http://127.0.0.1:{free_port()}", tmp_path / "audit.prom"

    for options in (["--metrics", str(metrics)], ["--verify"]):
        ended = run("audit", "--url", nowhere, *options)
        assert ended.code == NOT_MADE
        assert "the audit could not be made" in ended.stderr
        assert "does not answer" in ended.stderr

    assert "clearspan_self_audit_made 0\n" in metrics.read_text()
    for options in (["--verify", "--through", "http"], ["--topic", "spans"], ["--verify", "--topic", "no"]):
        assert run("audit", *options).code == WRONG_USAGE, options
    assert run("audit", "--metrics", str(tmp_path / "no" / "file")).code == WRONG_USAGE


def test_spans_that_no_worker_reads_are_missing(
    run: RunCommand, stack: RunningStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that this installation does not read stands for a worker that loses them."""
    asyncio.run(_create_topic(stack.kafka, "audit.nobody.reads"))
    topics = {"audit.nobody.reads": {"encoding": "otlp_json"}}
    monkeypatch.setenv("CLEARSPAN_KAFKA__TOPICS", json.dumps(topics))
    monkeypatch.setenv("CLEARSPAN_KAFKA__OTLP_TOPIC", "audit.nobody.reads")
    monkeypatch.setenv("CLEARSPAN_KAFKA__INTAKE_TOPIC", "audit.nobody.reads")

    ended = run("audit", "--spans", "3", "--timeout", "1", "--json")

    assert ended.code == 1, ended
    result = json.loads(ended.stdout)
    assert (result["is_good"], result["missing"], result["seconds"]) == (False, 3, None)


async def _create_topic(bootstrap: str, name: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1)])
    finally:
        await admin.close()


def test_interval_goes_on_until_it_is_stopped(stack: RunningStack, tmp_path: Path) -> None:
    metrics = tmp_path / "audit.prom"
    command = [sys.executable, "-m", "clearspan", "audit", "--interval", "1s", "--json", "--metrics", str(metrics)]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **stack.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        assert first["run"] != second["run"]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, b"")
    finally:
        process.kill()
        process.communicate()
