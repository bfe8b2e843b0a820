"""Shards of two replicas with a Keeper, as processes of the engine and ZooKeeper (ADR 0037).

``tests/containers/test_cluster.py`` shows the same with the official images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from common.settings import ClickHouseSettings
from tests.support import interserver
from tests.support.clickhouse import ClickHouseServer
from tests.support.clickhouse_cluster import ClickHouseCluster, clickhouse_cluster
from tests.support.replica_checks import Lost, check_inserts_wait, check_lost_shard, check_rows_once
from tests.support.zookeeper import ZooKeeper, zookeeper

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

KEEPER: Final = "keeper"


@dataclass(frozen=True, slots=True)
class Servers:
    keeper: ZooKeeper
    cluster: ClickHouseCluster

    def shards(self) -> list[list[str]]:
        hosts = [node.host for node in self.cluster.nodes]
        return [hosts[:2], hosts[2:]]

    def settings(self, database: str) -> ClickHouseSettings:
        hosts = ",".join(node.host for node in self.cluster.nodes)
        return self.cluster.settings(host=hosts, database=database, replication="on", insert_quorum="2")

    def lost(self, *names: str) -> Lost:
        return Lost(names, lambda name: self._server(name).stop(), lambda name: self._server(name).start())

    def _server(self, name: str) -> ClickHouseServer | ZooKeeper:
        return self.keeper if name == KEEPER else next(node for node in self.cluster.nodes if node.host == name)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    if not interserver.is_possible():
        pytest.skip(f"needs chdb-core {interserver.WHEEL} on {interserver.MACHINE}: replicas fetch parts through it")
    directory = tmp_path_factory.mktemp("replicas")
    with (
        zookeeper(directory / "zookeeper") as keeper,
        clickhouse_cluster(directory, shards_count=2, replicas_count=2, keeper_port=keeper.port) as cluster,
    ):
        yield Servers(keeper, cluster)


async def test_every_replica_has_the_rows_of_its_shard_once(servers: Servers, tmp_path: Path) -> None:
    await check_rows_once(servers.settings("once"), servers.shards(), tmp_path)


@pytest.mark.parametrize("what", ["replica", KEEPER])
async def test_inserts_wait_for_what_is_lost_and_queries_go_on(servers: Servers, tmp_path: Path, what: str) -> None:
    name = KEEPER if what == KEEPER else servers.shards()[1][1]
    await check_inserts_wait(servers.settings(f"lost_{what}"), servers.lost(name), tmp_path)


async def test_lost_shard_makes_queries_fail(servers: Servers, tmp_path: Path) -> None:
    await check_lost_shard(servers.settings("shard"), servers.lost(*servers.shards()[1]), tmp_path)
