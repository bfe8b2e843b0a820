"""Tables as an older version of the program made them, for tests of what a migration does to what was stored before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import DDL, migrate
from common.clickhouse.sql_files import render, statements
from common.clickhouse.store import ColumnStore, Statement
from common.settings import ClickHouseSettings


async def tables_before(
    number: int,
    settings: ClickHouseSettings,
    *,
    data_dir: Path,
    folder: Path,
    as_it_was: Callable[[str], str] = lambda text: text,
) -> ColumnStore:
    """A store on the tables that the files before ``number`` make. ``folder`` is empty and gets these files, ``as_it_was`` says
    what was in each."""
    for path in sorted(DDL.glob("*.sql"))[: number - 1]:
        (folder / path.name).write_text(as_it_was(path.read_text()))
    await migrate(settings, data_dir=data_dir, folder=folder)
    return open_store(settings, data_dir=data_dir)


async def apply_again(store: ColumnStore, name: str) -> None:
    """Run a file that was applied already, as two processes do that start at once."""
    for sql in statements(render((DDL / name).read_text(), cluster="")):
        await store.execute(Statement(sql), deadline_s=10.0)
