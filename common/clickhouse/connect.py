"""Which engine it is: a server over HTTP, or chDB inside this process."""

from __future__ import annotations

from pathlib import Path

from common.clickhouse.embedded import EmbeddedStore
from common.clickhouse.server import ServerStore
from common.clickhouse.store import ColumnStore
from common.settings import ClickHouseSettings


def open_store(settings: ClickHouseSettings, *, data_dir: Path) -> ColumnStore:
    """The engine that the settings name. Nothing is connected yet, so it can be opened while the engine is away.

    ``data_dir`` is where an embedded engine keeps its files (in ``clickhouse`` below it).
    """
    if settings.interface == "chdb":
        return EmbeddedStore(data_dir / "clickhouse", settings)
    return ServerStore(settings)
