"""Ports for servers of tests."""

from __future__ import annotations

import socket
from typing import Final

TRIES_MAX: Final = 100
_HANDED_OUT: Final[set[int]] = set()


def free_port() -> int:
    """Return a port that was free a moment ago and that this process did not get before: the system may offer one twice."""
    for _ in range(TRIES_MAX):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _HANDED_OUT:
            _HANDED_OUT.add(port)
            return port
    raise RuntimeError(f"the system offered only known ports, {TRIES_MAX} times")
