"""A small process that outlives the stack by a moment: when the stack is gone, however it went, it ends the children.

The stack holds the other end of the guard's standard input and writes one line of JSON each time its list of children
changes. The kernel closes that end when the stack dies, ``kill -9`` included; the guard reads the end of the file, ends
what still lives, and goes. Run as ``python -m clearspan.embedded.guard``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict

from clearspan.embedded.processes import Child


class Guard:
    """The stack's end of the guard."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clearspan.embedded.guard"], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, children: list[Child]) -> None:
        """Replace the list of children to end."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps([asdict(child) for child in children]).encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Let the guard go, after the children were stopped."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Read lists until the stack is gone, then end the last one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children: list[Child] = []
    for line in sys.stdin.buffer:
        children = [Child(**each) for each in json.loads(line)]
    for child in children:
        child.end(grace_s=5.0)


if __name__ == "__main__":
    main()
