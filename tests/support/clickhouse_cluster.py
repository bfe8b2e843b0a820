"""A cluster of ClickHouse nodes: processes on addresses of loopback, with the same ports.

``Distributed`` tables send statements over the native protocol. A shard is one node. Each has a Keeper
of its own in memory: replicated tables can be created and used until the node ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.settings import ClickHouseSettings
from tests.support.clickhouse import ClickHouseServer
from tests.support.ports import free_port

CLUSTER: Final = "shards"

REMOTE_SERVERS: Final = """<tcp_port>{tcp_port}</tcp_port>
<zookeeper><implementation>testkeeper</implementation></zookeeper>
<interserver_http_host>{host}</interserver_http_host><interserver_http_port>{interserver_port}</interserver_http_port>
<macros><shard>{host}</shard><replica>first</replica></macros>
<remote_servers replace="1"><{cluster}>{shards}</{cluster}></remote_servers>"""
SHARD: Final = (
    "<shard><internal_replication>true</internal_replication>"
    "<replica><host>{host}</host><port>{tcp_port}</port></replica></shard>"
)


class ClickHouseCluster:
    """Nodes that are a shard each. ``known_count`` is how many of them the cluster has at first, ``more`` further XML
    of their configuration.
    """

    def __init__(self, path: Path, *, shards_count: int, known_count: int | None = None, more: str = "") -> None:
        self._hosts = [f"127.0.0.{2 + number}" for number in range(shards_count)]
        self._tcp_port, self._interserver_port, port = free_port(), free_port(), free_port()
        self._path = path
        self.nodes = [
            ClickHouseServer(
                path / host, host=host, port=port, more=self._more(host, known_count or shards_count) + more
            )
            for host in self._hosts
        ]

    def start(self) -> None:
        """Start all nodes, and return when they answer."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(ClickHouseServer.start, self.nodes))

    def stop(self) -> None:
        """Kill all nodes."""
        for node in self.nodes:
            node.stop()

    def settings(self, **changed: object) -> ClickHouseSettings:
        """Return the settings of a client of the cluster, which uses the first node."""
        divided = {"cluster": CLUSTER, "sharding": "on", "replication": "off"}
        return self.nodes[0].settings(**{**divided, **changed})

    def _more(self, host: str, shards_count: int) -> str:
        shards = "".join(SHARD.format(host=host, tcp_port=self._tcp_port) for host in self._hosts[:shards_count])
        ports = {"tcp_port": self._tcp_port, "interserver_port": self._interserver_port}
        return REMOTE_SERVERS.format(**ports, host=host, cluster=CLUSTER, shards=shards)


@contextmanager
def clickhouse_cluster(path: Path, *, shards_count: int = 2, more: str = "") -> Iterator[ClickHouseCluster]:
    """A cluster over the data at ``path``; killed at the end."""
    cluster = ClickHouseCluster(path, shards_count=shards_count, more=more)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
