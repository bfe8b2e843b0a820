"""The ClickHouse test server as a process of its own: chDB allows one data path a process."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        """The next statement hangs, is refused, is reset or gets an error; ``after`` it took effect."""
        url = f"http://127.0.0.1:{self.port}/faults?kind={kind}&after={int(after)}&code={code}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=5):
            pass

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(5)


@contextmanager
def clickhouse_server(path: Path, *, port: int = 0, password: str = "") -> Iterator[ClickHouseServer]:
    """A server over the data at ``path``; ended at the end, by its own process id."""
    command = [sys.executable, "-m", "tests.fakes.clickhouse_http", "--path", str(path), "--port", str(port)]
    with subprocess.Popen([*command, "--password", password], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ClickHouseServer(process, int(process.stdout.readline()))
        finally:
            process.kill()
