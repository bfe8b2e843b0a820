"""a. The embedded stack as a whole, killed: its broker has on disk what it has acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.ids import DEFAULT_PROJECT_ID
from common.kafka.offsets import uncommitted_count
from common.settings import KafkaSettings
from tests.faults.checker import Follower, check
from tests.faults.client import ApiClient
from tests.faults.processes import ROOT
from tests.faults.producer import Plan, Producer
from tests.faults.round import Outcome, has_all, outcome_of, until
from tests.faults.spans import TOPICS
from tests.support.stack import stack_environment, wait_until_ready

FOLLOWED_S: Final = 120.0
SETTLED_S: Final = 120.0
SPANS_COUNT: Final = 2_000


def kill_the_embedded_stack(seed: int, *, size: float = 1.0) -> Outcome:
    """SIGKILL for the embedded stack, broker and Postgres included."""
    name, source = kill_the_embedded_stack.__name__, random.Random(seed)
    with TemporaryDirectory(prefix="clearspan-faults-stack-") as directory:
        environment = stack_environment(Path(directory) / "data", CLEARSPAN_EMBEDDED_BROKER_BYTES_MAX="67108864")
        with _stack(environment) as process:
            began_s = time.monotonic()
            kafka = f"127.0.0.1:{environment['CLEARSPAN_KAFKA_PORT']}"
            client = ApiClient([f"http://127.0.0.1:{environment['CLEARSPAN_API_PORT']}"], "")
            follower = Follower(client)
            plan = Plan(f"{name}/{seed}", int(SPANS_COUNT * size), seed)
            producer = Producer(kafka, str(DEFAULT_PROJECT_ID), plan)
            until(lambda: bool(follower.seen), "the follower sees a span", within_s=SETTLED_S)
            time.sleep(source.random() * plan.lasting_s)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            until(
                lambda: not _answers(int(environment["CLEARSPAN_KAFKA_PORT"])), "the broker is gone", within_s=SETTLED_S
            )
            with _stack(environment):
                sent = producer.finish()
                until(lambda: not _uncommitted(kafka), "the stack has committed everything", within_s=SETTLED_S)
                followed = follower.finish(lambda seen: has_all(seen, sent, set()), within_s=FOLLOWED_S)
                findings = check(client, plan.round_name, sent, followed)
    notes = [f"a response of status 500: {failure}" for failure in client.failures]
    return outcome_of(name, seed, began_s, sent, findings, notes=notes)


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def _uncommitted(kafka: str) -> int:
    return asyncio.run(uncommitted_count(KafkaSettings(bootstrap=kafka), TOPICS))


@contextmanager
def _stack(environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The embedded stack in the foreground of a process; stopped at the end if it still runs."""
    log = Path(environment["CLEARSPAN_DATA_DIR"]).with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearspan", "up"], cwd=ROOT, env=dict(environment), stdout=output, stderr=output
        )
    try:
        ports = (environment["CLEARSPAN_API_PORT"], environment["CLEARSPAN_WORKER_PORT"])
        wait_until_ready([f"http://127.0.0.1:{port}" for port in ports], process, log)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(180)
