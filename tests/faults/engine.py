"""ClickHouse's engine behind its HTTP interface, as a process that a scenario stops and that answers with faults."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import urlencode

from tests.faults.processes import ROOT
from tests.support.ports import free_port

START_LINE_S: Final = 60


class EngineProcess:
    """The server; a context that starts and ends it. It keeps port and data when it is started again."""

    def __init__(self, path: Path) -> None:
        self.port = free_port()
        self._path = path
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> EngineProcess:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Start it over its data, and return when it listens."""
        command = [sys.executable, "-m", "tests.fakes.clickhouse_http", "--path", str(self._path)]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the engine ended at its start"

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def stop(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after ``stop``, or start it if it was killed."""
        if self._process is None:
            self.start()
        self._send(signal.SIGCONT)

    def fail(
        self, kind: str, *, code: int = 0, after: bool = False, times: int = 1_000_000, inserts: bool = True
    ) -> None:
        """Let the next ``times`` statements fail; with ``inserts`` only inserts. ``after`` lets them take effect."""
        self._arm({"kind": kind, "code": code, "after": int(after), "times": times, "inserts": int(inserts)})

    def heal(self) -> None:
        """Let every statement succeed again."""
        self._arm({"kind": "none", "times": 0})

    def _arm(self, fault: dict[str, object]) -> None:
        url = f"http://127.0.0.1:{self.port}/faults?{urlencode(fault)}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
            pass

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
