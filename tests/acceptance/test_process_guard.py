"""Servers that tests start end with the test process: a small run with each kind of server is killed, and its processes are looked up by id."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

ROOT: Final = Path(__file__).parents[2]
SERVERS: Final = "tests/support/servers_left_running.py"
PYTEST: Final = (sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-o", "timeout=0")
STARTED_S: Final = 240.0
GONE_S: Final = 120.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@contextmanager
def servers_of(command: Sequence[str], directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A test run whose servers are running, and the list that it wrote of them; both are killed at the end."""
    file, log = directory / "servers.json", directory / "run.log"
    own = tempfile.mkdtemp(prefix="clearspan-tests-")
    # Own temporary directories: as root, a new pytest makes the shared ones inaccessible to Postgres.
    environment = {**os.environ, "SERVERS_FILE": str(file), "PYTEST_DEBUG_TEMPROOT": own}
    with log.open("wb") as output:
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        deadline_s = time.monotonic() + STARTED_S
        while not file.exists():
            if run.poll() is not None and "skipped" in log.read_text():
                pytest.skip("the machine lacks this server")
            assert run.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline_s, log.read_text()[-3000:]
            time.sleep(0.05)
        servers = json.loads(file.read_text())
        assert _alive(servers), "no server runs"
        yield run, servers
    finally:
        run.kill()
        run.wait()
        shutil.rmtree(own, ignore_errors=True)


def wait_until_gone(servers: dict[str, Any]) -> None:
    """Wait until every process is gone; fail with the list of those left."""
    deadline_s = time.monotonic() + GONE_S
    while left := [*_alive(servers), *filter(os.path.exists, servers["directories"])]:
        assert time.monotonic() < deadline_s, left
        time.sleep(0.05)


def _alive(servers: dict[str, Any]) -> list[str]:
    alive = []
    for pid, created in servers["processes"]:
        try:
            process = psutil.Process(pid)
            if abs(process.create_time() - created) < 0.1 and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(f"{pid}: {' '.join(process.cmdline())}")
        except psutil.NoSuchProcess:
            continue
    return alive


SIGNALS: Final = [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "name", ["test_servers", pytest.param("test_apache_kafka", marks=[pytest.mark.kafka, pytest.mark.long])]
)
def test_servers_end_with_the_test_process(name: str, number: signal.Signals, tmp_path: Path) -> None:
    with servers_of([*PYTEST, f"{SERVERS}::{name}"], tmp_path) as (run, servers):
        run.send_signal(number)

        wait_until_gone(servers)


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(lambda _run, servers: servers["tests"], id="a process of xdist"),
        pytest.param(lambda run, _servers: run.pid, id="pytest"),
    ],
)
@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS)
def test_servers_end_with_a_process_of_xdist(
    killed: Callable[[subprocess.Popen[bytes], dict[str, Any]], int], number: signal.Signals, tmp_path: Path
) -> None:
    command = [*PYTEST, "--numprocesses=1", "--max-worker-restart=0", f"{SERVERS}::test_postgres_and_broker"]
    with servers_of(command, tmp_path) as (run, servers):
        os.kill(killed(run, servers), number)

        wait_until_gone(servers)


@pytest.mark.parametrize("number", SIGNALS)
def test_servers_end_with_make(number: signal.Signals, tmp_path: Path) -> None:
    tests = f"TESTS={SERVERS}::test_postgres_and_broker -p no:cacheprovider -o timeout=0"
    # Do not install anything.
    command = ["make", "--assume-old=.venv/dev", "test", "PROCESSES=--numprocesses=1", tests]
    with servers_of(command, tmp_path) as (make, servers):
        make.send_signal(number)

        wait_until_gone(servers)
