"""One ClickHouse node: the engine in chDB's wheel with the server's own HTTP handler, until it is killed.

``python -m tests.support.clickhouse_node DIRECTORY [HOST PORT]``; its ``config.xml`` names the port, and that of the
native protocol if other nodes send statements to it. HOST and PORT are the address at which other nodes fetch its
parts, which is its HTTP port on the second of its addresses. The extension is loaded
without its package: importing ``chdb`` starts an engine inside the process first. What it serves is one statement of
clickhouse-local, which reads from a named pipe that nobody writes to.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.support.interserver import open_interserver

RTLD_DEEPBIND: Final = 0x8
"""As the package loads it: the library's own allocator is used for its own calls."""


def extension(interserver: tuple[str, int] | None = None) -> ModuleType:
    """Return the compiled module of chDB; ``interserver`` is the address for other replicas."""
    directory = Path(sysconfig.get_paths()["purelib"]) / "chdb"
    path = str(directory / "_chdb.abi3.so")
    os.chdir(directory)  # its own libraries are looked for here
    ctypes.CDLL(path, mode=sys.getdlopenflags() | RTLD_DEEPBIND)
    loader = importlib.machinery.ExtensionFileLoader("_chdb", path)
    spec = importlib.util.spec_from_loader("_chdb", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    if interserver is not None:
        open_interserver(path, *interserver)
    return module


def serve(directory: Path, interserver: tuple[str, int] | None = None) -> None:
    """Serve the data below ``directory``."""
    engine = extension(interserver)
    os.chdir(directory)  # clickhouse-local reads `config.xml` of its current directory
    pipe = directory / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    held_open = os.open(pipe, os.O_RDWR)
    protocols = ("HTTP", "TCP") if "<tcp_port>" in (directory / "config.xml").read_text() else ("HTTP",)
    listen = "".join(f"SYSTEM START LISTEN {protocol}; " for protocol in protocols)
    result = engine.query(
        f"{listen}SELECT count() FROM file('{pipe}', 'LineAsString', 'line String')",
        "TSV",
        path=str(directory / "data"),
    )
    os.close(held_open)
    sys.exit(result.error_message() if result.has_error() else 0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), (sys.argv[2], int(sys.argv[3])) if len(sys.argv) > 2 else None)
