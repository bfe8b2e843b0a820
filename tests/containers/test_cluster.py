"""A cluster of the official images: two shards of two replicas, and a Keeper (ADR 0037). Stand-ins have no Keeper.

The names of the servers are those of the containers' own network; this process looks their addresses up itself.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from common.settings import ClickHouseSettings
from tests.containers.engine import NoContainers, engine_of_machine
from tests.containers.stand_ins import fetch_official_images, official_images
from tests.support.replica_checks import Lost, check_inserts_wait, check_lost_shard, check_rows_once

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(1800)]

USER: Final = "clearspan"
PASSWORD: Final = "secret"
SHARDS: Final = (("ch-1a", "ch-1b"), ("ch-2a", "ch-2b"))

KEEPER: Final = """<clickhouse><listen_host>0.0.0.0</listen_host><logger><console>1</console></logger>
<keeper_server><tcp_port>9181</tcp_port><server_id>1</server_id>
<log_storage_path>/tmp/keeper/log</log_storage_path>
<snapshot_storage_path>/tmp/keeper/snapshots</snapshot_storage_path>
<raft_configuration><server><id>1</id><hostname>localhost</hostname><port>9234</port></server></raft_configuration>
</keeper_server></clickhouse>"""
SERVER: Final = """<clickhouse><logger><console>1</console></logger>
<interserver_http_host>{host}</interserver_http_host>
<zookeeper><node><host>keeper</host><port>9181</port></node></zookeeper>
<macros><shard>{shard}</shard><replica>{host}</replica></macros>
<remote_servers replace="1"><main>{shards}</main></remote_servers></clickhouse>"""
REPLICA: Final = (
    "<replica><host>{host}</host><port>9000</port><user>{user}</user><password>{password}</password></replica>"
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Containers by the names of their servers, and the addresses that these have now."""

    containers: dict[str, DockerContainer]
    addresses: dict[str, str]
    network: str

    def kill(self, name: str) -> None:
        self.containers[name].get_wrapped_container().kill()

    def start(self, name: str) -> None:
        self.containers[name].get_wrapped_container().start()
        self.look_up(name)

    def look_up(self, name: str) -> None:
        container = self.containers[name].get_wrapped_container()
        container.reload()
        self.addresses[name] = container.attrs["NetworkSettings"]["Networks"][self.network]["IPAddress"]


@pytest.fixture(scope="module")
def engine() -> Iterator[None]:
    """The engine of this machine, with the official images."""
    try:
        variables = engine_of_machine()
        if variables is not None:
            fetch_official_images(variables)
    except NoContainers as exc:
        pytest.skip(str(exc))
    if variables is None:
        pytest.skip("needs a container engine that fetches the official images")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def cluster(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        started = Cluster({}, {}, network.name)
        for name, container in _containers(directory, network).items():
            started.containers[name] = stack.enter_context(container)
            started.look_up(name)
        with pytest.MonkeyPatch.context() as patch:
            resolve = socket.getaddrinfo

            def resolve_here(host: Any, *args: Any, **options: Any) -> Any:
                return resolve(started.addresses.get(host, host), *args, **options)

            patch.setattr(socket, "getaddrinfo", resolve_here)
            yield started


def _containers(directory: Path, network: Network) -> dict[str, DockerContainer]:
    (directory / "keeper.xml").write_text(KEEPER)
    keeper = (
        DockerContainer(official_images()["clickhouse"])
        .with_command("clickhouse keeper --config-file=/etc/keeper.xml")
        .with_volume_mapping(directory / "keeper.xml", "/etc/keeper.xml")
    )
    containers = {"keeper": keeper}
    replicas = ["".join(REPLICA.format(host=host, user=USER, password=PASSWORD) for host in hosts) for hosts in SHARDS]
    shards = "".join(f"<shard><internal_replication>true</internal_replication>{each}</shard>" for each in replicas)
    for shard, hosts in enumerate(SHARDS, 1):
        for host in hosts:
            (directory / f"{host}.xml").write_text(SERVER.format(host=host, shard=shard, shards=shards))
            containers[host] = (
                DockerContainer(official_images()["clickhouse"])
                .with_envs(CLICKHOUSE_USER=USER, CLICKHOUSE_PASSWORD=PASSWORD)
                .with_volume_mapping(directory / f"{host}.xml", "/etc/clickhouse-server/config.d/cluster.xml")
                .waiting_for(LogMessageWaitStrategy("Ready for connections"))
            )
    return {name: container.with_network(network).with_network_aliases(name) for name, container in containers.items()}


def settings_of(database: str) -> ClickHouseSettings:
    return ClickHouseSettings(
        host=",".join(host for hosts in SHARDS for host in hosts),
        username=USER,
        password=SecretStr(PASSWORD),
        database=database,
        cluster="main",
        sharding="on",
        insert_quorum="2",
    )


def lost(cluster: Cluster, *names: str) -> Lost:
    return Lost(names, cluster.kill, cluster.start)


async def test_every_replica_has_the_rows_of_its_shard_once(cluster: Cluster, tmp_path: Path) -> None:
    await check_rows_once(settings_of("once"), SHARDS, tmp_path)


@pytest.mark.parametrize("name", ["ch-2b", "keeper"])
async def test_inserts_wait_for_what_is_lost_and_queries_go_on(cluster: Cluster, tmp_path: Path, name: str) -> None:
    await check_inserts_wait(settings_of(f"lost_{name.replace('-', '_')}"), lost(cluster, name), tmp_path)


async def test_lost_shard_makes_queries_fail(cluster: Cluster, tmp_path: Path) -> None:
    await check_lost_shard(settings_of("shard"), lost(cluster, *SHARDS[1]), tmp_path)
