"""Ports for servers of tests."""

from __future__ import annotations

import socket
from typing import Final

_HANDED_OUT: Final[set[int]] = set()


def free_port() -> int:
    """A port that was free a moment ago, and that this process was not given before: the system may offer one twice."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _HANDED_OUT:
            _HANDED_OUT.add(port)
            return port
