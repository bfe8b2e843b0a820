"""ClickHouse's engine as a server of its own, and copies of databases. chDB allows one data path per process."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from clickhouse_connect.driver.client import Client

from common.settings import ClickHouseSettings
from tests.support.child_server import ChildServer
from tests.support.ports import free_port

USER: Final = "clearspan"
"""Has the password; ``default`` is the user of the node itself."""

CONFIG: Final = """<clickhouse>
<logger><level>warning</level><log>{directory}/log</log></logger>
<listen_host>{host}</listen_host><http_port>{port}</http_port>
<user_directories><users_xml><path>{directory}/users.xml</path></users_xml></user_directories>
<mark_cache_size>268435456</mark_cache_size><primary_index_cache_size>268435456</primary_index_cache_size>
<backups><allowed_path>{backups}</allowed_path></backups>
{more}
</clickhouse>"""

USERS: Final = """<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>
<default><password></password><networks><ip>{networks}</ip></networks>{account}</default>
<{user}><password>{password}</password><networks><ip>::/0</ip></networks>{account}</{user}>
</users></clickhouse>"""
ACCOUNT: Final = "<profile>default</profile><quota>default</quota>"


class ClickHouseServer(ChildServer):
    """The engine with the server's own HTTP handler. It keeps its address, too, when it is started again."""

    name = "the engine"
    start_s_max = 60.0

    def __init__(
        self,
        path: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str = "",
        backups: Path | None = None,
        more: str = "",
        interserver_host: str = "",
    ) -> None:
        """``more`` is further XML of its configuration. At ``interserver_host`` other replicas fetch its parts."""
        super().__init__(path / "output")
        self.host, self.port = host, port or free_port()
        self._password = password
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        self._interserver = [interserver_host, str(self.port)] if interserver_host else []
        more += f"<listen_host>{interserver_host}</listen_host>" if interserver_host else ""
        values = {"directory": path, "host": host, "port": self.port}
        (path / "config.xml").write_text(CONFIG.format(**values, backups=backups or path / "backups", more=more))
        users = {"user": USER, "password": escape(password), "networks": "127.0.0.0/8", "account": ACCOUNT}
        (path / "users.xml").write_text(USERS.format(**users))

    def settings(self, **changed: object) -> ClickHouseSettings:
        """Return the settings of a client."""
        user = {"username": USER, "password": self._password} if self._password else {}
        return ClickHouseSettings.model_validate(
            {"interface": "http", "host": self.host, "port": self.port, **user, **changed}
        )

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-m", "tests.support.clickhouse_node", str(self._path), *self._interserver]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.port}/ping", timeout=self.start_s_max):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def clickhouse_server(
    path: Path, *, host: str = "127.0.0.1", port: int = 0, password: str = "", backups: Path | None = None
) -> Iterator[ClickHouseServer]:
    """A server over the data at ``path``; killed at the end. ``backups`` is the directory of BACKUP and RESTORE."""
    server = ClickHouseServer(path, host=host, port=port, password=password, backups=backups)
    server.start()
    try:
        yield server
    finally:
        server.stop()


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
