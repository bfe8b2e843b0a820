"""Backup and restore, with the commands of ``docs/backup.md``: pages and feeds stay exact in the restored stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import clickhouse_connect
import pytest

from tests.support.clickhouse import ClickHouseServer, clickhouse_server
from tests.support.deployment import ROOT, THIS, Deployment, Project, deployment, until
from tests.support.kafka import Broker
from tests.support.postgres import PostgresServer, programs
from tests.support.producing import FeedReader, producing
from tests.support.shell_pages import blocks, check_commands

pytestmark = pytest.mark.long

NAME: Final = "backup"
FIRST_SPANS: Final = 200
MORE_SPANS: Final = 100


class Page:
    """The commands of the page, run by a shell against one engine and one database."""

    def __init__(self, directory: Path) -> None:
        self._backing_up, self._restoring = [text for kind, text in blocks("backup.md") if kind == "bash"]
        self._directory = directory

    def back_up(self, deployed: Deployment, engine: ClickHouseServer) -> None:
        self._run(f"date() {{ echo {NAME}; }}\n", self._backing_up, deployed, engine)

    def restore(self, deployed: Deployment, engine: ClickHouseServer) -> str:
        return self._run(f"name=clearspan-{NAME}\n", self._restoring, deployed, engine)

    def _run(self, prelude: str, block: str, deployed: Deployment, engine: ClickHouseServer) -> str:
        environment = {
            **deployed.environment,
            "PATH": f"{programs()}:{deployed.environment['PATH']}",
            "PYTHONPATH": str(ROOT),
            "CLICKHOUSE_URL": f"http://127.0.0.1:{engine.port}/",
        }
        prelude += f'cd "{self._directory}"\n'
        [printed] = asyncio.run(check_commands([(block, None)], environment=environment, prelude=prelude))
        return printed


@pytest.fixture
async def databases(postgres: PostgresServer) -> Any:
    """An empty database to work with, and one to restore into."""
    return await postgres.fresh_database(), await postgres.fresh_database()


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_pages_and_feeds_go_on_exactly_in_restored_stores(
    kafka: Broker, databases: Any, unique: str, tmp_path: Path
) -> None:
    backups, page = tmp_path / "backups", Page(tmp_path)
    with (
        clickhouse_server(tmp_path / "fresh", backups=backups) as fresh,
        clickhouse_server(tmp_path / "lost", backups=backups) as lost,
        deployment(kafka, lost.settings(), databases[0], unique, tmp_path) as deployed,
    ):
        assert deployed.command(THIS, "migrate").returncode == 0
        worker, api = deployed.start(THIS, "ingest"), deployed.start(THIS, "serve")
        project = Project.create(api)
        early, late = FeedReader(project), FeedReader(project)
        with producing(project, [api]) as producer:
            producer.has_sent(FIRST_SPANS)
            first = producer.sent[:FIRST_SPANS]
            until(
                lambda: Counter(project.walk([api], limit=1_000)) >= Counter(first), what="the first spans are stored"
            )
            early.read(api)
            walked, cursor = project.page(api, {"limit": 50})
            page.back_up(deployed, lost)
            producer.has_sent(len(producer.sent) + MORE_SPANS)
        assert producer.failures == []
        until(lambda: late.read(api, wait_s=1) == 0 and late.names >= Counter(producer.sent), what="the feed is read")
        after = [f"{len(producer.sent) + number}" for number in range(10)]
        coordinates = project.send(api, after)
        project.page(api, {}, X_Clearspan_Wait_For=coordinates)
        assert [worker.end(), api.end()] == [0, 0]
        lost.stop()
        everything = Counter(producer.sent + after)

        restored = deployed.over(fresh.settings(), databases[1])
        printed = page.restore(restored, fresh)
        assert "records are read again." in printed
        api = restored.start(THIS, "serve")
        in_backup = Counter(project.walk([api], limit=500))
        assert Counter(first) <= in_backup < everything
        walked += project.walk([api], cursor=cursor)  # spans that came after the first page stand before it
        assert Counter(first) <= Counter(walked) <= in_backup
        assert late.read(api) == 0
        worker = restored.start(THIS, "ingest")

        def has_all() -> bool:
            early.read(api)
            late.read(api)
            return early.names >= everything and late.names >= everything

        until(has_all, what="the readers of the feed have everything")
        assert (early.read(api), late.read(api)) == (0, 0)
        assert early.names == everything
        assert late.names == everything
        assert Counter(project.walk([api], limit=500)) == everything


def test_restored_table_takes_a_batch_that_the_dropped_one_had(tmp_path: Path) -> None:
    with clickhouse_server(tmp_path / "data", backups=tmp_path / "backups") as engine:
        client = clickhouse_connect.get_client(interface="http", port=engine.port)
        client.command("CREATE DATABASE d")
        client.command(
            "CREATE TABLE d.t (a UInt8) ENGINE = ReplacingMergeTree ORDER BY a"
            " SETTINGS non_replicated_deduplication_window = 1000"
        )
        client.command("BACKUP DATABASE d TO File('empty')")
        insert = "INSERT INTO d.t SETTINGS insert_deduplication_token = 'batch' SELECT 1"
        client.command(insert)
        client.command("DROP DATABASE d SYNC")
        client.command("RESTORE DATABASE d FROM File('empty')")

        client.command(insert)

        assert client.command("SELECT count() FROM d.t") == 1
