"""Tests that start servers, write the ids of their processes to a file, and wait to be killed; see ``test_process_guard.py``.

The environment names the file to write: ``SERVERS_FILE``, a JSON object ``{"tests": pid, "processes": [[pid, created]],
"directories": [path]}``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import psutil
import pytest

from clearspan.embedded.layout import Layout, Running
from common.settings import PostgresSettings
from tests.fixtures_clickhouse import FreshSettings
from tests.support.api_process import api_processes
from tests.support.kafka import Broker
from tests.support.stack import RunningStack, clearspan, stack_environment
from tests.support.worker import worker_process

WAIT_S = 300.0


async def test_servers(
    database_settings: PostgresSettings,
    embedded: Broker,
    http_settings: FreshSettings,
    stack: RunningStack,
    tmp_path: Path,
) -> None:
    background = stack_environment(tmp_path / "background")
    assert clearspan(background, "up", "--detach").returncode == 0
    layouts = [Layout(Path(each["CLEARSPAN_DATA_DIR"])) for each in (stack.environment, background)]
    running = Running.read(layouts[1])
    assert running is not None
    children = [child["pid"] for layout in layouts for child in json.loads(layout.children.read_text())]
    postgres, clickhouse = await _data_directory(database_settings), http_settings()
    environment = {
        "CLEARSPAN_KAFKA__BOOTSTRAP": embedded.bootstrap,
        "CLEARSPAN_CLICKHOUSE__PORT": str(clickhouse.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": clickhouse.database,
        "CLEARSPAN_POSTGRES__DSN": database_settings.dsn.get_secret_value(),
    }
    with (
        api_processes(database_settings, tmp_path, count=1),
        worker_process(environment, tmp_path / "worker.log") as worker,
    ):
        worker.start()
        worker.wait_until_ready()
        _wait_to_be_killed([*children, _postmaster(postgres), running.pid], directories=[postgres.parent, tmp_path])


async def test_postgres_and_broker(postgres_settings: PostgresSettings, embedded: Broker) -> None:
    postgres = await _data_directory(postgres_settings)
    _wait_to_be_killed([_postmaster(postgres)], directories=[postgres.parent])


@pytest.mark.kafka
def test_apache_kafka(kafka: Broker) -> None:
    _wait_to_be_killed([], directories=[])


async def _data_directory(settings: PostgresSettings) -> Path:
    connection = await asyncpg.connect(settings.dsn.get_secret_value())
    try:
        return Path(await connection.fetchval("SHOW data_directory"))
    finally:
        await connection.close()


def _postmaster(data_directory: Path) -> int:
    return int((data_directory / "postmaster.pid").read_text().splitlines()[0])


def _wait_to_be_killed(in_background: Sequence[int], *, directories: Sequence[Path]) -> None:
    me = psutil.Process()
    above = [psutil.Process(pid) for pid in in_background]
    processes = {*above, *me.children(recursive=True)}
    processes |= {child for process in above for child in process.children(recursive=True)}
    found = {
        "tests": me.pid,
        "processes": [[process.pid, process.create_time()] for process in processes],
        "directories": [str(each) for each in directories],
    }
    file = Path(os.environ["SERVERS_FILE"])
    file.with_suffix(".new").write_text(json.dumps(found))
    file.with_suffix(".new").replace(file)
    time.sleep(WAIT_S)
