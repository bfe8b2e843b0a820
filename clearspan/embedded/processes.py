"""The processes of the embedded stack and its ports: told apart by id and birth, ended by id, named when they stand in the way."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Final

import psutil

from clearspan.embedded.layout import Layout, StackError

LOOPBACK: Final = "127.0.0.1"


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


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free_ports(ports: Mapping[str, int]) -> None:
    """Raise ``StackError`` when somebody listens on one of the ports, given by variable, or when two are the same."""
    for (variable, port), (other, same) in combinations(ports.items(), 2):
        if port == same != 0:
            raise StackError(f"{variable} and {other} are both {port}. Set one of them to another port.")
    for variable, port in ports.items():
        _require_free_port(port, variable)


def _require_free_port(port: int, variable: str) -> None:
    """Raise ``StackError`` when somebody listens on the port; names the port, who it is, and the variable that moves us."""
    if taken := why_taken(port):
        raise StackError(f"{taken}. Set {variable} to another one.")


def why_taken(port: int) -> str:
    """That somebody listens on the port, and who; empty if nobody does, or if the port is 0."""
    if port == 0:
        return ""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return f"Port {port} is taken{_by_whom(port)}"
    return ""


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
