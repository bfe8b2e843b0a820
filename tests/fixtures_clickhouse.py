"""Engines for tests. chDB allows one data path a process, so all tests of a run share one and have databases of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import clickhouse_connect
import pytest

from common.settings import ClickHouseSettings
from tests.support.clickhouse import ClickHouseServer, clickhouse_server

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def chdb_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The one data directory of chDB in this process: pass it as ``data_dir``.

    The engine is held open: it would leave with its last handle, and load every table of every test when it comes back.
    """
    directory = tmp_path_factory.mktemp("chdb")
    client = clickhouse_connect.get_client(interface="chdb", path=str(directory / "clickhouse"))
    yield directory
    client.close()


@pytest.fixture(scope="session")
def chdb_settings() -> Callable[[], ClickHouseSettings]:
    """Settings of a fresh database in this process; nothing is created yet."""
    return lambda: ClickHouseSettings(interface="chdb", database=f"db{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def clickhouse_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """A server that speaks ClickHouse's HTTP interface, in a process of its own."""
    with clickhouse_server(tmp_path_factory.mktemp("clickhouse_http") / "data") as server:
        yield server
