"""The ClickHouse test server as a child process, because chDB allows one data path per process; and copies of databases."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clickhouse_connect.driver.client import Client

from common.settings import ClickHouseSettings

ROOT = Path(__file__).parents[2]


class ClickHouseServer:
    """A running test server."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.port = port

    def settings(self, **changed: object) -> ClickHouseSettings:
        return ClickHouseSettings.model_validate({"interface": "http", "port": self.port, **changed})

    def arm(self, kind: str, *, after: bool = False, code: int = 0) -> None:
        """Let the next statement hang or fail; with ``after`` it still takes effect."""
        url = f"http://127.0.0.1:{self.port}/faults?kind={kind}&after={int(after)}&code={code}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
            pass

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(5)


@contextmanager
def clickhouse_server(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    password: str = "",
    backups: Path | None = None,
    certificates: tuple[Path, Path] | None = None,
) -> Iterator[ClickHouseServer]:
    """A server over the data at ``path``; killed at the end. ``backups`` is the directory of BACKUP and RESTORE.

    ``certificates`` are its own, with its key, and the authority of its clients; with them it speaks TLS.
    """
    command = [sys.executable, "-m", "tests.fakes.clickhouse_http", "--path", str(path), "--port", str(port)]
    if certificates is not None:
        own, authority = certificates
        command += ["--certificate", str(own), "--client-authority", str(authority)]
    command += ["--host", host, "--password", password, *([] if backups is None else ["--backups", str(backups)])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ClickHouseServer(process, int(process.stdout.readline()))
        finally:
            process.kill()


class DatabaseTemplate:
    """A migrated database without spans, from which other databases are created by the same statements."""

    def __init__(self, client: Client, database: str) -> None:
        self._client = client
        self._database = database
        # A view comes after the tables that it reads and writes.
        tables = client.query(
            "SELECT create_table_query FROM system.tables WHERE database = {database:String} "
            "ORDER BY engine = 'MaterializedView'",
            {"database": database},
        )
        self._statements = [str(statement) for (statement,) in tables.result_rows]

    def copy(self, database: str) -> None:
        """Create ``database`` with the same tables and the same record of migrations."""
        self._client.command(f"CREATE DATABASE {database}")
        for statement in self._statements:
            self._client.command(statement.replace(f"{self._database}.", f"{database}."))
        self._client.command(f"INSERT INTO {database}.migrations SELECT * FROM {self._database}.migrations")
