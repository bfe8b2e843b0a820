"""Apache ZooKeeper, which a cluster of ClickHouse nodes uses as its Keeper."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.child_server import ChildServer
from tests.support.jars import JavaServer
from tests.support.ports import free_port

ZOOKEEPER: Final = JavaServer("Apache ZooKeeper", Path(__file__).parent / "pom.xml", heap_mb=128)
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
PROPERTIES: Final = """tickTime=500
dataDir={directory}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
"""


class ZooKeeper(ChildServer):
    """A server that keeps its port, too, when it is killed and started again."""

    name = "ZooKeeper"
    start_s_max = 180.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "output")
        self.port = free_port()
        self._configuration = directory / "zoo.cfg"
        directory.mkdir(parents=True, exist_ok=True)
        self._configuration.write_text(PROPERTIES.format(directory=directory, port=self.port))

    def _command(self) -> Sequence[str]:
        return [*ZOOKEEPER.command(), MAIN, str(self._configuration)]

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
