"""What a stack may leave behind: processes and ports."""

from __future__ import annotations

import socket

import psutil


def processes_below(directory: str) -> list[str]:
    """Return the command lines that name the data directory."""
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] and any(directory in argument for argument in process.info["cmdline"])
    ]


def is_free(port: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(port)))
        except OSError:
            return False
    return True
