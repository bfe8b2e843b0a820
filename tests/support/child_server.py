"""A server of tests as a child process, which keeps its data when it is killed and started again."""

from __future__ import annotations

import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

ROOT: Final = Path(__file__).parents[2]
POLL_S: Final = 0.02


class ChildServer(ABC):
    """A subclass says which program runs, and when it answers. What it prints is in the file ``output``."""

    name: ClassVar[str]
    start_s_max: ClassVar[float]

    def __init__(self, output: Path) -> None:
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command of the process."""

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether the server takes requests."""

    def start(self) -> None:
        """Start it over its data, and return when it answers."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command(), cwd=ROOT, stdout=output, stderr=output)
        deadline_s = time.monotonic() + self.start_s_max
        while not self._answers():
            printed = self._output.read_text(errors="replace")
            assert self._process.poll() is None, f"{self.name} ended at its start: {printed[-2_000:]}"
            assert time.monotonic() < deadline_s, f"{self.name} does not answer: {printed[-2_000:]}"
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Send SIGKILL and wait."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def freeze(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after ``freeze``, or start it if it was killed."""
        if self._process is None:
            self.start()
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
