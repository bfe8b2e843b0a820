"""End every process that a test process has started as soon as the test process is gone, even after ``kill -9``.

The guard is a process of its own. The test process holds the other end of the guard's standard input; the kernel closes that
end when the test process dies. What belongs to the test process is known by its environment: each process that it starts
inherits ``STARTED_BY``, and passes it on to its own children. So a server needs no registration, and one that runs in the
background of its own accord, such as Postgres, is found as well. Run as ``python -m tests.support.process_guard NAME``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).parents[2]
STARTED_BY: Final = "STARTED_BY_TESTS"
"""The environment variable that names the test processes above a process, separated by spaces."""

GRACE_S: Final = 2.0
"""How long a process may take to end after SIGINT; then it gets SIGKILL."""

END_S: Final = 50.0
"""How long the guard looks for processes before it gives up."""


class ProcessGuard:
    """The guard, as the test process uses it."""

    def __init__(self) -> None:
        name = secrets.token_hex(8)
        above = os.environ.pop(STARTED_BY, "")  # a guard does not end another guard, which has directories to remove
        self._directories: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.process_guard", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        os.environ[STARTED_BY] = f"{above} {name}"

    def remove_directory(self, directory: Path) -> None:
        """Remove this directory as well if the test process ends without ``close``."""
        self._directories.append(str(directory))
        self._send(self._directories)

    def close(self) -> None:
        """End the processes that tests have left running; keep directories."""
        self._send([])
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _send(self, directories: list[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(directories).encode() + b"\n")
        self._process.stdin.flush()


def main() -> None:
    """Wait until the test process is gone, then end its processes and remove the directories of the last line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    directories: list[str] = []
    for line in sys.stdin.buffer:
        directories = json.loads(line)
    _end_processes(sys.argv[1])
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _end_processes(name: str) -> None:
    """Interrupt, then kill, until no process is left: one that ends may still start another.

    Postgres closes its connections on SIGINT and ends at once. On SIGTERM it would wait for its clients.
    """
    deadline_s = time.monotonic() + END_S
    while (running := _started_by(name)) and time.monotonic() < deadline_s:
        _send_signal(running, signal.SIGINT)
        _, alive = psutil.wait_procs(running, timeout=GRACE_S)
        _send_signal(alive, signal.SIGKILL)
        psutil.wait_procs(alive, timeout=GRACE_S)


def _started_by(name: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if name in process.environ().get(STARTED_BY, "").split():
                found.append(process)
        except (psutil.Error, OSError):  # it is gone, a zombie, or belongs to another user
            continue
    return found


def _send_signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:  # it is gone
            continue


if __name__ == "__main__":
    main()
