"""``clearspan serve`` as a child process over a real broker, Postgres and engine, and what the process holds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from common.settings import ClickHouseSettings, PostgresSettings
from tests.support.kafka import Broker
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Held:
    """What processes hold of the machine."""

    memory_bytes: int
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class ServedApi:
    """A running API without authentication."""

    process: subprocess.Popen[bytes]
    port: int
    grpc_port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connections_count(self) -> int:
        """Return how many connections of clients are open, over HTTP and gRPC."""
        ports = {self.port, self.grpc_port}
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(bool(each.raddr) and each.laddr.port in ports for each in found)

    def held(self) -> Held:
        """Return what the process and its child processes, which decode large bodies, hold now."""
        process = psutil.Process(self.process.pid)
        return _sum([_held_by(each) for each in (process, *process.children(recursive=True))])


def _held_by(process: psutil.Process) -> Held:
    try:
        return Held(process.memory_info().rss, process.num_fds(), process.num_threads())
    except psutil.NoSuchProcess:  # a child process that has ended holds nothing
        return Held(0, 0, 0)


def _sum(held: Sequence[Held]) -> Held:
    return Held(
        sum(each.memory_bytes for each in held), sum(each.files for each in held), sum(each.threads for each in held)
    )


@contextmanager
def served_api(
    log: Path, *, postgres: PostgresSettings, clickhouse: ClickHouseSettings, broker: Broker, **more: str
) -> Iterator[ServedApi]:
    """Start the API, wait until it is ready, and kill it at the end."""
    port, grpc_port = free_port(), free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")}
    environment = {
        **clean,
        "CLEARSPAN_AUTH": "off",
        "CLEARSPAN_API_PORT": str(port),
        "CLEARSPAN_OTLP_HTTP_PORT": "0",
        "CLEARSPAN_OTLP_GRPC_PORT": str(grpc_port),
        "CLEARSPAN_POSTGRES__DSN": postgres.dsn.get_secret_value(),
        "CLEARSPAN_CLICKHOUSE__INTERFACE": "http",
        "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
        "CLEARSPAN_KAFKA__BOOTSTRAP": broker.bootstrap,
        "CLEARSPAN_LOG_LEVEL": "warning",
        **more,
    }
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "clearspan", "serve"], cwd=ROOT, env=environment, stdout=out, stderr=out
        )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/readyz", process, log)
        yield ServedApi(process, port, grpc_port)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(f"the API is not ready:\n{log.read_text()}")
