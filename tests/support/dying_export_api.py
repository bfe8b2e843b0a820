"""An API that is killed before a statement of an export: ``python -m tests.support.dying_export_api DIES_AT``.

Its settings are environment variables. ``DIES_AT`` counts the statements of queries from 0; -1 is never. It prints its
port when it listens. Walks are cut into small rounds and chunks, so that bytes are sent between the statements.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from clearspan.environment import read_settings
from common.clickhouse.connect import open_store
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings
from query_api.http.app import open_api
from query_api.request.limits import Limits
from tests.support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
NEVER: Final = -1
ROUND_SPANS: Final = 9
CHUNK_BYTES: Final = 2_000


class DyingStore:
    """A store that kills its process before a statement of a query; others have no project."""

    def __init__(self, store: ColumnStore, dies_at: int) -> None:
        self._store = store
        self._dies_at = dies_at
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def select(self, statement: Statement, /, *, deadline_s: float) -> pa.Table:
        if "project_id" in statement.parameters:
            if self._count == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            self._count += 1
        return await self._store.select(statement, deadline_s=deadline_s)


@contextmanager
def dying_export_api(settings: ClickHouseSettings, port: int, *, dies_at: int) -> Iterator[subprocess.Popen[str]]:
    """An API that listens on ``port``, over an engine and no other system; killed at the end."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CLEARSPAN_")},
        "CLEARSPAN_AUTH": "off",
        "CLEARSPAN_API_PORT": str(port),
        "CLEARSPAN_OTLP_HTTP_PORT": "0",
        "CLEARSPAN_OTLP_GRPC_PORT": "0",
        "CLEARSPAN_CLICKHOUSE__INTERFACE": "http",
        "CLEARSPAN_CLICKHOUSE__PORT": str(settings.port),
        "CLEARSPAN_CLICKHOUSE__DATABASE": settings.database,
        "CLEARSPAN_QUERY__CURSOR_SECRET": "secret",
        "CLEARSPAN_KAFKA__BOOTSTRAP": f"127.0.0.1:{free_port()}",
        "CLEARSPAN_POSTGRES__DSN": f"postgresql://nobody@127.0.0.1:{free_port()}/nothing",
    }
    command = [sys.executable, "-m", "tests.support.dying_export_api", str(dies_at)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{port}\n"
            yield process
        finally:
            process.kill()


async def serve(dies_at: int) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # logs go to stderr
    settings = read_settings()
    store = open_store(settings.clickhouse, data_dir=settings.data_dir)
    small = Limits(round_spans=ROUND_SPANS, chunk_bytes=CHUNK_BYTES)
    async with open_api(settings, store=DyingStore(store, dies_at), limits=small) as port:
        out.write(f"{port}\n")
        out.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
