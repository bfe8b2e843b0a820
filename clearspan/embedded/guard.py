"""The guard: a process that ends the child processes of the stack when the stack is gone.

The stack holds the write end of the guard's standard input and writes one line of JSON each time its list of children
changes. The kernel closes that end when the stack dies, even by ``kill -9``; the guard then reads the end of the file,
ends the children that still live, and exits. If the guard is killed, the stack starts another one (``children.py``).

A child is identified by its process id and its start time, never by name. The creation time that psutil returns moves
when the clock is set, so ``identity_of`` reads what the kernel counts.

The guard waits as long as the stack runs, so this module imports little: 8 MB, where the settings alone take 25 more.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
END_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Child:
    """A process that the stack has started; ``identity`` tells it from a later process with the same id."""

    name: str
    pid: int
    identity: str

    @staticmethod
    def of(name: str, pid: int) -> Child:
        """Return the living process ``pid``. Raises ``psutil.NoSuchProcess``."""
        return Child(name, pid, identity_of(pid))

    def end(self) -> bool:
        """Terminate the process if it lives, and kill it after a grace period; return whether it lived."""
        try:
            process = psutil.Process(self.pid)
            if identity_of(self.pid) != self.identity:
                return False
            process.terminate()
            try:
                process.wait(END_GRACE_S)
            except psutil.TimeoutExpired:
                process.kill()
                with suppress(psutil.TimeoutExpired):  # psutil counts a zombie that nobody reaps as running
                    process.wait(END_GRACE_S)
        except psutil.NoSuchProcess:
            return False
        return True


def identity_of(pid: int) -> str:
    """Return a text that no other process with this id has, and that stays the same when the clock is set.

    On Linux, the boot and the ticks from there to the start of the process: field 22 of proc_pid_stat(5). Elsewhere,
    the hash that psutil makes of the process id and the start time that the kernel has noted; ``create_time`` corrects
    that time by the clock. Raises ``psutil.NoSuchProcess``.
    """
    if sys.platform != "linux":
        return str(hash(psutil.Process(pid)))
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    after_name = status.rpartition(b")")[2].split()  # from field 3; the name before it may contain anything
    return f"{BOOT_ID.read_text().strip()}/{after_name[19].decode()}"


def is_alive(pid: int) -> bool:
    """Return whether the process lives; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def main() -> None:
    """Read lists until the stack is gone, then end the children of the last list."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children: list[Child] = []
    for line in sys.stdin.buffer:
        children = [Child(**members) for members in json.loads(line)]
    for child in children:
        child.end()


if __name__ == "__main__":
    main()
