"""Run ``clearspan`` on a terminal."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from rich.ansi import AnsiDecoder

ROOT: Final = Path(__file__).parents[2]
LINES: Final = 40
ENDS_S: Final = 50.0
CTRL_C: Final = b"\x03"


class Shown(NamedTuple):
    """What a command has written to its terminal, with escape sequences, and its exit code."""

    code: int
    written: str

    def lines(self) -> list[str]:
        """Return the lines without colors and empty ones, and of a line that was written again the last writing."""
        lines = AnsiDecoder().decode(self.written.replace("\r\n", "\n"))
        return [line.plain.rstrip() for line in lines if line.plain.strip()]


def on_terminal(
    environment: Mapping[str, str],
    *arguments: str,
    columns: int = 80,
    stdout: Path | None = None,
    interrupt_after: str | None = None,
) -> Shown:
    """Run a command whose standard output is the terminal or a file; type Ctrl-C once a text was written."""
    controlling, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    output = terminal if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    process = subprocess.Popen(
        [sys.executable, "-m", "clearspan", *arguments],
        cwd=ROOT,
        env={**environment, "TERM": "xterm-256color"},
        stdin=terminal,
        stdout=output,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - runs no Python of this process's threads
    )
    for descriptor in {terminal, output}:
        os.close(descriptor)
    try:
        written = _read_all(controlling, interrupt_after)
        return Shown(process.wait(ENDS_S), written)
    finally:
        process.kill()
        process.wait()
        os.close(controlling)


def _take_terminal() -> None:
    """Make standard input the terminal of the process, which then ends on Ctrl-C also below a background job."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_all(controlling: int, interrupt_after: str | None) -> str:
    """Return what the command writes until it ends."""
    written, is_interrupted = b"", interrupt_after is None
    deadline_s = time.monotonic() + ENDS_S
    while time.monotonic() < deadline_s and select.select([controlling], [], [], ENDS_S)[0]:
        try:
            written += os.read(controlling, 65_536)
        except OSError:  # nobody has the terminal open any more
            break
        if not is_interrupted and str(interrupt_after).encode() in written:
            os.write(controlling, CTRL_C)
            is_interrupted = True
    return written.decode()
