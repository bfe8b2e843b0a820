"""Brokers for tests, as child processes on 127.0.0.1: the embedded one, and a real Apache Kafka in KRaft mode."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import Unavailable
from common.kafka.cluster import read_cluster_id
from common.settings import KafkaSettings
from tests.support.jars import REPOSITORY, JavaServer
from tests.support.ports import free_port

KAFKA = JavaServer("Apache Kafka", Path(__file__).parent / "apache_kafka" / "pom.xml", heap_mb=512)
START_S_MAX = 180.0
SESSION_TIMEOUT_S = 2.0
"""Short: the partitions of a killed member wait for it."""


@dataclass
class Broker:
    """A running broker. ``kill`` and ``start`` keep port and data."""

    name: str
    port: int
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def settings(self, **changes: Any) -> KafkaSettings:
        return KafkaSettings.model_validate(
            {"bootstrap": self.bootstrap, "session_timeout_s": SESSION_TIMEOUT_S, **changes}
        )

    def start(self) -> None:
        with self.log.open("ab") as log:
            # In its own session, so that it can be ended together with its children.
            self.process = subprocess.Popen(
                self.command, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        # In another thread: an asynchronous test may already run a loop in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(self._wait())).result()

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    async def _wait(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at its start: {self.log.read_text()[-2_000:]}")
            try:
                await read_cluster_id(self.settings(request_timeout_s=2.0))
            except Unavailable:
                if time.monotonic() > deadline:
                    self.kill()
                    raise
                await asyncio.sleep(0.1)
            else:
                return


@contextmanager
def embedded_broker(directory: Path) -> Iterator[Broker]:
    """The broker of the embedded stack."""
    port = free_port()
    options = {"port": port, "directory": str(directory / "data"), "bytes_max": 2**29, "group": "", "topics": []}
    command = [sys.executable, "-m", "clearspan.embedded.broker_server.server", json.dumps(options)]
    yield from running_broker(Broker("the embedded broker", port, command, directory / "broker.log"))


@contextmanager
def apache_kafka(directory: Path, *, port: int | None = None, advertised_port: int | None = None) -> Iterator[Broker]:
    """One node that is broker and controller, in about 350 MB. Clients connect to ``advertised_port``, by default its own."""
    java = KAFKA.command()
    properties = directory / "server.properties"
    port = port or free_port()
    properties.write_text(
        _properties(
            port=port,
            advertised_port=advertised_port or port,
            controller_port=free_port(),
            data=directory / "data",
        )
    )
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id_text(), "-c", str(properties)],
        check=True,
        capture_output=True,
        timeout=180,
    )
    yield from running_broker(
        Broker("Apache Kafka", port, [*java, "kafka.Kafka", str(properties)], directory / "kafka.log")
    )


def running_broker(broker: Broker) -> Iterator[Broker]:
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def cluster_id_text() -> str:
    """Return 22 characters of base64 for the format tool; they must not begin with a dash."""
    import base64

    return "C" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _properties(*, port: int, advertised_port: int, controller_port: int, data: Path) -> str:
    return f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised_port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
log.cleaner.enable=false
"""
