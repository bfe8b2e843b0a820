"""Ports for servers of tests."""

from __future__ import annotations

import random
import socket
from typing import Final

TRIES_MAX: Final = 1000
# Linux gives ports from 32768 on to the connections of clients: one of those could take a port before its server starts.
_PORTS: Final = range(10_000, 32_768)
_HANDED_OUT: Final[set[int]] = set()


def free_port() -> int:
    """Return a port that was free a moment ago and that this process did not get before."""
    return free_ports(1).start


def free_ports(count: int) -> range:
    """Return `count` ports in a row, each as `free_port` returns one."""
    for _ in range(TRIES_MAX):
        first = random.SystemRandom().randrange(_PORTS.start, _PORTS.stop - count)  # not the seed that processes share
        ports = range(first, first + count)
        if _HANDED_OUT.isdisjoint(ports) and all(map(_is_free, ports)):
            _HANDED_OUT.update(ports)
            return ports
    raise RuntimeError(f"no {count} free ports in a row in {_PORTS.start}-{_PORTS.stop - 1}, after {TRIES_MAX} tries")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
