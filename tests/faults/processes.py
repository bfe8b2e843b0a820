"""A worker or an API as a process that a scenario kills, stops and starts again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
READY_S = 180.0
END_S = 120.0


@dataclass
class ServerProcess:
    """``python -m`` with ``arguments``, a server with ``/readyz``; it keeps its port when it is started again."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    _crashes: list[str] = field(default_factory=list)

    def start(self, *arguments: str) -> None:
        """Start it; ``arguments`` replace the usual ones this time."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *(arguments or self.arguments)],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
            )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal and do not wait."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> int:
        """Send the signal, wait, and return the exit code."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends, and return the exit code."""
        process, self.process = self.process, None
        return 0 if process is None else process.wait(END_S)

    def restart(self) -> None:
        """Start it if it does not run, as a supervisor does; one that nobody has ended has crashed."""
        if self.is_running:
            return
        if self.process is not None:
            self._crashes.append(f"{self.name} ended by itself with {self.process.returncode}:\n{self.last_lines()}")
        self.process = None
        self.start()

    def take_crashes(self) -> list[str]:
        """Return how it has ended by itself since the last call."""
        crashes, self._crashes = self._crashes, []
        return crashes

    def waiting_for(self) -> dict[str, str]:
        """Return what it waits for; empty if it is ready."""
        try:
            return dict(self._readiness().get("waiting_for", {}))
        except OSError as error:
            return {"process": str(error)}

    def gaps(self) -> dict[str, str]:
        """Return the gaps that a worker names, ready or not, by partition."""
        return dict(self._readiness().get("gaps", {}))

    def _readiness(self) -> dict[str, Any]:
        try:
            response = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=30)
        except urllib.error.HTTPError as not_ready:
            response = not_ready
        with response:
            return dict(json.load(response))

    def metric(self, name: str) -> float:
        """Return the sum of the metrics whose line starts with ``name``; 0 without any, or if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as response:
                lines = response.read().decode().splitlines()
        except OSError:
            return 0.0
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def wait_until_ready(self) -> None:
        """Return when it is ready; one that has ended is started again, as a supervisor does."""
        deadline_s = time.monotonic() + READY_S
        while waiting := self.waiting_for():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{self.name} is not ready within {READY_S:g} s: {waiting}\n{self.last_lines()}")
            self.restart()
            time.sleep(0.05)

    def last_lines(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-3_000:]
