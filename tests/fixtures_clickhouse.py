"""Engines for tests. chDB allows one data path per process, so all tests of a process share it and have their own databases."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client

from common.clickhouse import embedded, server
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from tests.support.clickhouse import ClickHouseServer, DatabaseTemplate, clickhouse_server
from tests.support.clickhouse_cluster import ClickHouseCluster, clickhouse_cluster
from tests.support.scale import rest_is_long
from tests.support.span_corpus import START_NS
from tests.support.stores import opened_store
from tests.support.two_apis import TwoApis, two_apis

SEED_OF_SHARDS: Final = 20_261_127
MIDDLE_US: Final = START_NS // 1_000 + 2_500_000
"""Of the starts of the spans: with two epochs that meet here, most traces are on both shards."""

FreshSettings = Callable[[], ClickHouseSettings]
_NUMBERS = itertools.count()
_COPIES: list[tuple[Client, str]] = []
"""Databases that the tests of a module have made."""


@pytest.fixture(autouse=True)
def _late_engine_is_not_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for the engine to end a statement by itself: a busy machine may stop it for seconds."""
    for module in (embedded, server):
        monkeypatch.setattr(module, "GRACE_S", 30.0)


@pytest.fixture(scope="module", autouse=True)
def _drop_databases() -> Iterator[None]:
    """Drop the databases of a module: four hundred idle ones would take the engine half a processor."""
    yield
    while _COPIES:
        client, database = _COPIES.pop()
        client.command(f"DROP DATABASE IF EXISTS {database} SYNC")


@pytest.fixture(scope="session")
def chdb_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The one data directory of chDB in this process: pass it as ``data_dir``.

    One handle stays open: the engine ends with its last handle, and loads every table again when it restarts.
    """
    directory = tmp_path_factory.mktemp("chdb")
    client = clickhouse_connect.get_client(interface="chdb", path=str(directory / "clickhouse"))
    yield directory
    client.close()


@pytest.fixture(scope="session")
def chdb_empty_settings() -> FreshSettings:
    """Settings of a new database in this process; nothing is created yet."""
    return lambda: ClickHouseSettings(interface="chdb", database=f"db{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def chdb_settings(chdb_dir: Path, chdb_empty_settings: FreshSettings) -> Iterator[FreshSettings]:
    """Settings of a new database in this process with all tables, empty: ``migrate`` has nothing left to do."""
    client = clickhouse_connect.get_client(interface="chdb", path=str(chdb_dir / "clickhouse"))
    yield _copies(client, _migrated(chdb_empty_settings(), chdb_dir), chdb_empty_settings)
    client.close()


@pytest.fixture
async def store(chdb_dir: Path, chdb_settings: FreshSettings) -> AsyncIterator[ColumnStore]:
    """A store with a new database."""
    async with opened_store(chdb_settings(), data_dir=chdb_dir) as opened:
        yield opened


@pytest.fixture(scope="module")
def engine(chdb_settings: FreshSettings) -> ClickHouseSettings:
    """One database for all tests of a module; each has a project of its own."""
    return chdb_settings()


@pytest.fixture
async def shared_store(chdb_dir: Path, engine: ClickHouseSettings) -> AsyncIterator[ColumnStore]:
    """A store with the database of the module."""
    async with opened_store(engine, data_dir=chdb_dir) as opened:
        yield opened


@pytest.fixture(scope="session")
def clickhouse_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """A server with ClickHouse's HTTP interface, as a child process."""
    with clickhouse_server(tmp_path_factory.mktemp("clickhouse_http") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def http_empty_settings(clickhouse_http: ClickHouseServer) -> FreshSettings:
    """Settings of a fresh database of that server; nothing is created yet."""
    return lambda: clickhouse_http.settings(database=f"db{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def http_settings(
    clickhouse_http: ClickHouseServer, http_empty_settings: FreshSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FreshSettings]:
    """Settings of a fresh database of that server with all tables, empty."""
    client = clickhouse_connect.get_client(interface="http", port=clickhouse_http.port)
    migrated = _migrated(http_empty_settings(), tmp_path_factory.mktemp("unused"))
    yield _copies(client, migrated, http_empty_settings)
    client.close()


@pytest.fixture(scope="session")
def clickhouse_shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseCluster]:
    """A cluster of two shards, as child processes."""
    with clickhouse_cluster(tmp_path_factory.mktemp("clickhouse_shards")) as cluster:
        yield cluster


@pytest.fixture
async def divided(clickhouse_shards: ClickHouseCluster, tmp_path: Path) -> AsyncIterator[ColumnStore]:
    """A store whose tables are divided among two shards, in a new database."""
    settings = clickhouse_shards.settings(database=f"db{next(_NUMBERS)}")
    await migrate(settings, data_dir=tmp_path)
    async with opened_store(settings, data_dir=tmp_path) as opened:
        yield opened
        async with opened.shards() as shards:
            for shard in shards:
                drop = Statement(f"DROP DATABASE {settings.database} SYNC")
                await shard.store.execute(drop, deadline_s=60.0)


@pytest.fixture(scope="module", params=rest_is_long(["", f"1,2@{MIDDLE_US}"]), ids=["one epoch", "two epochs"])
def apis(
    clickhouse_shards: ClickHouseCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TwoApis]:
    """The same spans in one engine and divided among two shards, and an API over each."""
    seed = int(request.config.getoption("--hypothesis-seed") or SEED_OF_SHARDS)
    one = clickhouse_shards.nodes[0].settings(database=f"db{next(_NUMBERS)}")
    divided = clickhouse_shards.settings(database=f"db{next(_NUMBERS)}", shard_epochs=request.param)
    with two_apis(one, divided, tmp_path_factory.mktemp("unused"), seed=seed) as opened:
        yield opened


def _migrated(settings: ClickHouseSettings, data_dir: Path) -> str:
    with asyncio.Runner() as runner:
        runner.run(migrate(settings, data_dir=data_dir))
    return settings.database


def _copies(client: Client, migrated: str, empty_settings: FreshSettings) -> FreshSettings:
    """Each call creates a database; a copy takes a fifth of the time of the migrations."""
    template = DatabaseTemplate(client, migrated)

    def fresh() -> ClickHouseSettings:
        settings = empty_settings()
        template.copy(settings.database)
        _COPIES.append((client, settings.database))
        return settings

    return fresh
