"""Engines for tests. chDB allows one data path a process, so all tests of a run share one and have databases of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.settings import ClickHouseSettings
from tests.support.clickhouse import ClickHouseServer, clickhouse_server

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def chdb_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one data directory of chDB in this process: pass it as ``data_dir``."""
    return tmp_path_factory.mktemp("chdb")


@pytest.fixture(scope="session")
def chdb_settings() -> Callable[[], ClickHouseSettings]:
    """Settings of a fresh database in this process; nothing is created yet."""
    return lambda: ClickHouseSettings(interface="chdb", database=f"db{next(_NUMBERS)}")


@pytest.fixture(scope="session")
def clickhouse_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseServer]:
    """A server that speaks ClickHouse's HTTP interface, in a process of its own."""
    with clickhouse_server(tmp_path_factory.mktemp("clickhouse_http") / "data") as server:
        yield server
