"""A cluster of ClickHouse nodes: processes on addresses of loopback, with the same ports.

``Distributed`` tables send statements over the native protocol. A shard is one node, or some that have the same rows.
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
<zookeeper>{keeper}</zookeeper>
<interserver_http_host>{host}</interserver_http_host><interserver_http_port>{interserver_port}</interserver_http_port>
<macros><shard>{shard}</shard><replica>{host}</replica></macros>
<remote_servers replace="1"><{cluster}>{shards}</{cluster}></remote_servers>"""
SHARD: Final = "<shard><internal_replication>{by_itself}</internal_replication>{replicas}</shard>"
OWN_KEEPER: Final = "<implementation>testkeeper</implementation>"
"""In the memory of each node: replicated tables can be created and used until the node ends."""

KEEPER: Final = """<node><host>127.0.0.1</host><port>{port}</port></node>
<session_timeout_ms>4000</session_timeout_ms><sessions_path>/sessions/{host}</sessions_path>"""
REPLICA: Final = "<replica><host>{host}</host><port>{tcp_port}</port></replica>"


class ClickHouseCluster:
    """Nodes that can be killed, and shards that can be added. ``more`` is further XML of their configuration.

    With the port of a Keeper, replicas copy each other's parts (``interserver.is_possible``). Without one,
    ``Distributed`` itself writes to all replicas of a shard, and fails if one is away.
    """

    def __init__(
        self, path: Path, *, shards_count: int, replicas_count: int = 1, keeper_port: int = 0, more: str = ""
    ) -> None:
        self._ports = {"tcp_port": free_port(), "interserver_port": free_port()}
        self._http_port = free_port()
        self._path = path
        self._replicas_count, self._keeper_port, self._more = replicas_count, keeper_port, more
        self.nodes = self._nodes(shards_count)

    def start(self) -> None:
        """Start all nodes, and return when they answer."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(ClickHouseServer.start, self.nodes))

    def stop(self) -> None:
        """Kill all nodes."""
        for node in self.nodes:
            node.stop()

    def grow(self, shards_count: int) -> None:
        """Start all nodes again, with further shards."""
        self.stop()
        self.nodes = self._nodes(shards_count)
        self.start()

    def settings(self, **changed: object) -> ClickHouseSettings:
        """Return the settings of a client of the cluster, which uses the first node."""
        divided = {"cluster": CLUSTER, "sharding": "on", "replication": "off"}
        return self.nodes[0].settings(**{**divided, **changed})

    def _nodes(self, shards_count: int) -> list[ClickHouseServer]:
        count = self._replicas_count
        hosts = [f"127.0.0.{2 + number}" for number in range(shards_count * count)]
        replicas = [REPLICA.format(host=host, tcp_port=self._ports["tcp_port"]) for host in hosts]
        by_itself = str(count == 1 or self._keeper_port > 0).lower()
        shards = "".join(
            SHARD.format(by_itself=by_itself, replicas="".join(replicas[first : first + count]))
            for first in range(0, len(hosts), count)
        )
        return [
            ClickHouseServer(
                self._path / host,
                host=host,
                port=self._http_port,
                more=self._configuration(host, shard=number // count, shards=shards),
                interserver_host=host.replace(".0.0.", ".0.1.") if self._keeper_port else "",
            )
            for number, host in enumerate(hosts)
        ]

    def _configuration(self, host: str, *, shard: int, shards: str) -> str:
        keeper = KEEPER.format(port=self._keeper_port, host=host) if self._keeper_port else OWN_KEEPER
        values = {"host": host, "shard": shard, "cluster": CLUSTER, "shards": shards, "keeper": keeper}
        return REMOTE_SERVERS.format(**self._ports, **values) + self._more


@contextmanager
def clickhouse_cluster(
    path: Path, *, shards_count: int = 2, replicas_count: int = 1, keeper_port: int = 0, more: str = ""
) -> Iterator[ClickHouseCluster]:
    """A cluster over the data at ``path``; killed at the end."""
    cluster = ClickHouseCluster(
        path, shards_count=shards_count, replicas_count=replicas_count, keeper_port=keeper_port, more=more
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
