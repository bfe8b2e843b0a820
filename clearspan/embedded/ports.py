"""Ports on loopback: free ones, and who listens on a taken one."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations
from typing import Final

import psutil

from clearspan.embedded.layout import StackError

LOOPBACK: Final = "127.0.0.1"


def free_port() -> int:
    """Return a port of loopback on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def require_free_ports(ports: Mapping[str, int]) -> None:
    """Check the ports, given by environment variable. Raises ``StackError`` if one is taken or two are the same."""
    for (variable, port), (other, same) in combinations(ports.items(), 2):
        if port == same != 0:
            raise StackError(f"{variable} and {other} are both {port}. Set one of them to another port.")
    for variable, port in ports.items():
        if taken := why_taken(port):
            raise StackError(f"{taken}. Set {variable} to another port.")


def why_taken(port: int) -> str:
    """Return a sentence without its period that the port is taken, and by which process; empty if it is free or 0."""
    if port == 0:
        return ""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return f"Port {port} is taken{_by_process(port)}"
    return ""


def _by_process(port: int) -> str:
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="inet"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
            if listens and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    return ""
