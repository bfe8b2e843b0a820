"""The embedded stack on a Kafka that it does not own: ``CLEARSPAN_EMBEDDED_BROKER=off``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clearspan.embedded.layout import Layout
from common.kafka.offsets import uncommitted_count
from common.settings import Encoding, TopicSettings
from tests.support.deployment import until
from tests.support.kafka import Broker
from tests.support.ports import free_port
from tests.support.produce import produce
from tests.support.stack import RunningStack, running_stack, stack_environment


def span(number: int) -> bytes:
    return json.dumps(
        {"trace_id": "1" * 32, "span_id": f"{number:016x}", "span_name": "s", "start_time": "2026-01-01T00:00:00Z"}
    ).encode()


def count_is(stack: RunningStack, count: int) -> None:
    stack.ask_until("/spans/query", {}, lambda answer: answer["count"] == count)


@pytest.mark.kafka
def test_killed_stack_loses_nothing_that_its_kafka_has(kafka: Broker, unique: str, tmp_path: Path) -> None:
    """Spans that were acknowledged but not stored, and dead letters, are in Kafka, not in the stack."""
    settings = {
        "CLEARSPAN_EMBEDDED_BROKER": "off",
        "CLEARSPAN_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "CLEARSPAN_KAFKA__GROUP": unique,
        "CLEARSPAN_KAFKA__SESSION_TIMEOUT_S": "2",
        "CLEARSPAN_KAFKA__TOPICS": json.dumps({unique: {"encoding": "span_json"}}),
        "CLEARSPAN_KAFKA__INTAKE_TOPIC": unique,
        "CLEARSPAN_KAFKA__OTLP_TOPIC": unique,
        "CLEARSPAN_KAFKA__DEAD_LETTER_TOPIC": f"{unique}.dead",
        "CLEARSPAN_KAFKA__STORED_TOPIC": f"{unique}.stored",
    }
    root = tmp_path / "data"
    with running_stack(root, **settings) as stack:
        produce(kafka.bootstrap, unique, [span(1), b"not a span"])
        count_is(stack, 1)
        produce(kafka.bootstrap, unique, [span(2)])
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(180)
    produce(kafka.bootstrap, unique, [span(3)])
    with running_stack(root, **settings, CLEARSPAN_KAFKA_PORT=str(free_port())) as stack:
        count_is(stack, 3)
        [dead_letter] = stack.command("dead-letters", "list", "--json").stdout.splitlines()
        assert json.loads(dead_letter)["reason"]
        stack.process.send_signal(signal.SIGTERM)
        assert stack.process.wait(180) == 0

    read = kafka.settings(group=unique, topics={unique: TopicSettings(encoding=Encoding.SPAN_JSON)})
    assert asyncio.run(uncommitted_count(read, [unique])) == 0
    assert not Layout(root).broker.exists()


@pytest.mark.long
def test_stack_waits_for_its_kafka_and_can_be_stopped(tmp_path: Path) -> None:
    more = {"CLEARSPAN_EMBEDDED_BROKER": "off", "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_port()}"}
    environment, log = stack_environment(tmp_path / "data", **more), tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearspan", "up"], env=environment, stdout=output, stderr=output
        )
    try:
        until(lambda: "Waiting." in log.read_text() or process.poll() is not None, what="the stack waits")
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0, log.read_text()[-2_000:]
    finally:
        process.kill()
        process.wait()
