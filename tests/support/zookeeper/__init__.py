"""Apache ZooKeeper, which a cluster of ClickHouse nodes uses as its Keeper."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.jars import JavaServer
from tests.support.ports import free_port

ZOOKEEPER: Final = JavaServer("Apache ZooKeeper", Path(__file__).parent / "pom.xml", heap_mb=128)
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_S_MAX: Final = 180.0
PROPERTIES: Final = """tickTime=500
dataDir={directory}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
"""


class ZooKeeper:
    """A server that keeps its port and data when it is killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "zoo.cfg").write_text(PROPERTIES.format(directory=directory, port=self.port))

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        with (self._directory / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*ZOOKEEPER.command(), MAIN, str(self._directory / "zoo.cfg")], stdout=output, stderr=output
            )
        deadline_s = time.monotonic() + START_S_MAX
        while not self._answers():
            printed = (self._directory / "output").read_text(errors="replace")
            assert self._process.poll() is None, f"ZooKeeper ended at its start: {printed[-2_000:]}"
            assert time.monotonic() < deadline_s, f"ZooKeeper does not answer: {printed[-2_000:]}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Send SIGKILL and wait."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


@contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    """A server over the data in ``directory``; killed at the end."""
    server = ZooKeeper(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
