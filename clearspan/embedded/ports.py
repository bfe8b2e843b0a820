"""Ports on loopback: free ones, those of the last start, and who listens on a taken one."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Final

import psutil

from clearspan.embedded.layout import Layout, StackError, read_json, write_json
from common.settings import Settings

LOOPBACK: Final = "127.0.0.1"
OTLP_PORTS: Final = {"otlp_http_port": "CLEARSPAN_OTLP_HTTP_PORT", "otlp_grpc_port": "CLEARSPAN_OTLP_GRPC_PORT"}
"""The settings of the ports to which SDKs send by default, and their variables."""

PORT_MAX: Final = 65_535
_LASTING: Final = ("api_port", "worker_port", "kafka_port", *OTLP_PORTS)


def free_port() -> int:
    """Return a port of loopback on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def with_last_ports(settings: Settings, layout: Layout) -> Settings:
    """Return the settings with the ports of the last start on the data directory where the environment names none."""
    last = read_json(layout.ports, _ports) or {}
    return settings.model_copy(
        update={name: port for name, port in last.items() if name not in settings.model_fields_set}
    )


def write_last_ports(settings: Settings, layout: Layout) -> None:
    """Write the ports of this start for the next one. A port that nobody has set stays a default."""
    write_json(layout.ports, {name: getattr(settings, name) for name in _LASTING if name in settings.model_fields_set})


def _ports(members: Mapping[str, int]) -> dict[str, int]:
    """Check the content of the file. Raises ``ValueError`` or ``TypeError``."""
    ports = {name: int(port) for name, port in dict(members).items()}
    if not ports.keys() <= set(_LASTING) or not all(0 <= port <= PORT_MAX for port in ports.values()):
        raise ValueError("no ports")
    return ports


def require_free_ports(ports: Mapping[str, int]) -> None:
    """Check the ports, given by environment variable. Raises ``StackError`` if one is taken or two are the same."""
    for (variable, port), (other, same) in combinations(ports.items(), 2):
        if port == same != 0:
            raise StackError(f"{variable} and {other} are both {port}. Set one of them to another port.")
    for variable, port in ports.items():
        if taken := why_taken(port):
            raise StackError(f"{taken}. Set {variable} to another port.")


def why_left_out(settings: Settings, other_ports: Iterable[int]) -> dict[str, str]:
    """Return which of ``OTLP_PORTS`` cannot be used, and why; those that were set by hand must be used."""
    left_out: dict[str, str] = {}
    used = {*other_ports, *(getattr(settings, name) for name in OTLP_PORTS if name in settings.model_fields_set)}
    for name in OTLP_PORTS:
        port = getattr(settings, name)
        if name not in settings.model_fields_set:
            reason = f"Port {port} has another use" if port in used else why_taken(port)
            left_out |= {name: reason} if reason else {}
    return left_out


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
