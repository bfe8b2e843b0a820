"""What the embedded stack keeps in its data directory, who holds it, and which ports it wants.

One stack per directory: the lock is the kernel's, so it goes with the process however that ends.
"""

from __future__ import annotations

import fcntl
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

LOOPBACK: Final = "127.0.0.1"


class StackError(Exception):
    """The embedded stack cannot start or stop; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie below the data directory."""

    root: Path

    @property
    def clickhouse(self) -> Path:
        """The engine's tables."""
        return self.root / "clickhouse"

    @property
    def postgres(self) -> Path:
        """Postgres's cluster."""
        return self.root / "postgres"

    @property
    def log(self) -> Path:
        """What a stack in the background says."""
        return self.root / "clearspan.log"

    @property
    def broker_log(self) -> Path:
        """What the broker says."""
        return self.root / "broker.log"

    @property
    def lock(self) -> Path:
        """Held by the running stack."""
        return self.root / "lock"

    @property
    def running(self) -> Path:
        """Who runs, and where it listens."""
        return self.root / "running.json"

    @property
    def children(self) -> Path:
        """The processes the stack has started, so that the next start finds what was left over."""
        return self.root / "children.json"


@dataclass(frozen=True, slots=True)
class Running:
    """The running stack, as it wrote itself down."""

    pid: int
    api: str
    worker: str
    kafka: str
    postgres: str

    def write(self, layout: Layout) -> None:
        """Write it down."""
        layout.running.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(layout: Layout) -> Running | None:
        """The stack that holds the directory now, or ``None``."""
        try:
            running = Running(**json.loads(layout.running.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return running if _is_held(layout) else None


@contextmanager
def hold(layout: Layout) -> Iterator[None]:
    """Hold the data directory. Raises ``StackError`` when another stack does."""
    layout.root.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"A stack is already running on {layout.root}. `make down` stops it.") from None
        try:
            yield
        finally:
            layout.running.unlink(missing_ok=True)


def _is_held(layout: Layout) -> bool:
    try:
        with layout.lock.open("a+") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class Child:
    """A process that the stack has started. Its birth tells it from a later one with the same id."""

    name: str
    pid: int
    born: float

    @staticmethod
    def of(name: str, pid: int) -> Child:
        """The living process ``pid``."""
        return Child(name, pid, psutil.Process(pid).create_time())

    def end(self, *, grace_s: float) -> bool:
        """End it if it lives: politely, after ``grace_s`` seconds for good. Returns whether it was there."""
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.born) > 1.0:
                return False
            process.terminate()
            try:
                process.wait(grace_s)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(grace_s)
        except psutil.NoSuchProcess:
            return False
        return True


def write_children(layout: Layout, children: list[Child]) -> None:
    """Replace the list of children, in one step."""
    fresh = layout.children.with_suffix(".new")
    fresh.write_text(json.dumps([asdict(child) for child in children]))
    fresh.replace(layout.children)


def end_left_over(layout: Layout) -> list[Child]:
    """End what an earlier stack left behind, by id; returns what was still there."""
    try:
        children = [Child(**each) for each in json.loads(layout.children.read_text())]
    except (OSError, ValueError, TypeError):
        children = []
    ended = [child for child in children if child.end(grace_s=5.0)]
    layout.children.unlink(missing_ok=True)
    return ended


def require_free_port(port: int, variable: str) -> None:
    """Raise ``StackError`` when somebody listens on the port; names the port, who it is, and the variable that moves us."""
    if port == 0:
        return
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            raise StackError(f"Port {port} is taken{_by_whom(port)}. Set {variable} to another one.") from None


def _by_whom(port: int) -> str:
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="inet"):
            listens_there = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
            if listens_there and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    return ""


def is_alive(pid: int) -> bool:
    """Whether the process lives (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
