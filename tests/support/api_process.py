"""``clearspan serve`` as child processes, over a real Postgres and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.settings import PostgresSettings
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 180.0


@contextmanager
def api_processes(settings: PostgresSettings, logs: Path, *, count: int) -> Iterator[list[str]]:
    """Yield the addresses of ``count`` APIs without keys; Kafka and ClickHouse are unavailable."""
    ports = [free_port() for _ in range(count)]
    processes = [_start(settings, port, logs / f"{port}.log") for port in ports]
    try:
        for port, process in zip(ports, processes, strict=True):
            _wait_until_served(f"http://127.0.0.1:{port}/applications/query", process, logs / f"{port}.log")
        yield [f"http://127.0.0.1:{port}" for port in ports]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def killable_api(settings: PostgresSettings, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address and the process of one such API."""
    port = free_port()
    process = _start(settings, port, log)
    try:
        _wait_until_served(f"http://127.0.0.1:{port}/applications/query", process, log)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def _start(settings: PostgresSettings, port: int, log: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "CLEARSPAN_AUTH": "off",
        "CLEARSPAN_API_PORT": str(port),
        "CLEARSPAN_OTLP_HTTP_PORT": "0",
        "CLEARSPAN_OTLP_GRPC_PORT": "0",
        "CLEARSPAN_POSTGRES__DSN": settings.dsn.get_secret_value(),
        "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_port()}",
    }
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "clearspan", "serve"], cwd=ROOT, env=environment, stdout=out, stderr=out
        )


def _wait_until_served(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=60):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(f"the API does not serve:\n{log.read_text()}")
