"""The ingest worker, a deliverer or an API, as a child process, for tests that kill it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.support.metrics import metric
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
_PORTS = {"ingest": "CLEARSPAN_WORKER_PORT", "deliver": "CLEARSPAN_DELIVER_PORT", "serve": "CLEARSPAN_API_PORT"}


class WorkerProcess:
    """``python -m clearspan ingest``, ``deliver`` or ``serve``; it keeps its port over restarts."""

    def __init__(
        self, environment: Mapping[str, str], log: Path, *, command: Literal["ingest", "deliver", "serve"] = "ingest"
    ) -> None:
        self.port = free_port()
        self._command = command
        self._environment = {**os.environ, **environment, _PORTS[command]: str(self.port)}
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "clearspan", self._command],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
            )

    @property
    def process_id(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send the signal without waiting."""
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals, *, within_s: float = 120.0) -> int:
        """Send the signal, wait, and return the exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(within_s)

    def readiness(self) -> dict[str, str]:
        """Return what the worker waits for; empty if it is ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=30):
                return {}
        except urllib.error.HTTPError as answer:
            waiting: dict[str, str] = json.load(answer)["waiting_for"]
            return waiting
        except OSError as error:
            return {"process": str(error)}

    def text(self, path: str) -> str:
        """Return the body of a response of success."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            body: bytes = answer.read()
        return body.decode()

    def metric(self, line: str) -> float:
        """Return the sum of the metrics whose line starts with ``line``; 0 without any."""
        try:
            return metric(f"http://127.0.0.1:{self.port}", line)
        except OSError:
            return 0.0

    def wait_until_ready(self, *, within_s: float = 180.0) -> None:
        deadline = time.monotonic() + within_s
        while waiting := self.readiness():
            if self._process is None or self._process.poll() is not None:
                raise AssertionError(f"the process ended: {self.log.read_text()[-3_000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"not ready within {within_s} s: {waiting}")
            time.sleep(0.05)


@contextmanager
def worker_process(environment: Mapping[str, str], log: Path) -> Iterator[WorkerProcess]:
    """A worker that is started by the test, and killed at the end if it still runs."""
    worker = WorkerProcess(environment, log)
    try:
        yield worker
    finally:
        worker.end(signal.SIGKILL)
