"""What ends the child processes of a stack that was killed: the guard, or the next start if the guard was killed, too.

The next start finds the list in the data directory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

from clearspan.embedded.guard import Child
from clearspan.embedded.layout import Layout, read_json, write_json
from common.telemetry import get_logger

_log = get_logger(__name__)


def write_children(layout: Layout, children: list[Child]) -> None:
    """Replace the list of children in the data directory."""
    write_json(layout.children, [asdict(child) for child in children])


def end_left_over(layout: Layout) -> list[Child]:
    """End the children of an earlier stack; return those that still lived.

    A list that another version of Clearspan has written in another form is ignored.
    """
    children = read_json(layout.children, lambda listed: [Child(**members) for members in listed])
    ended = [child for child in children or [] if child.end()]
    layout.children.unlink(missing_ok=True)
    return ended


class Guard:
    """The stack's end of the guard, which is started again if it was killed."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        self._process = _start_guard()

    def watch(self, children: list[Child]) -> None:
        """Replace the list of children to end."""
        self._children = children
        self._send()
        self.revive()

    def revive(self) -> None:
        """Start another guard with the same list if this one has died, for example because memory ran out."""
        if self._process.poll() is None:
            return
        _log.warning("The guard of the child processes has died. Starting another one.", code=self._process.returncode)
        try:
            started = _start_guard()
        except OSError as exc:
            _log.warning("The guard of the child processes could not be started.", error=str(exc))
            return
        self.close()
        self._process = started
        self._send()

    def close(self) -> None:
        """Let the guard end what is left of the children, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _send(self) -> None:
        """Send the list; if the guard is gone, ``revive`` sends it to the next one."""
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps([asdict(child) for child in self._children]).encode() + b"\n")


def _start_guard() -> subprocess.Popen[bytes]:
    """Start a guard. Its input has no buffer, because ``close`` would try again to send what is in it."""
    return subprocess.Popen(
        [sys.executable, "-m", "clearspan.embedded.guard"], stdin=subprocess.PIPE, bufsize=0, start_new_session=True
    )
