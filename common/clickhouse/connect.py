"""Choose the engine: a server over HTTP, or chDB inside this process."""

from __future__ import annotations

from pathlib import Path

from common.clickhouse.embedded import EmbeddedStore
from common.clickhouse.server import ServerStore
from common.clickhouse.store import ColumnStore
from common.settings import ClickHouseSettings


def open_store(settings: ClickHouseSettings, *, data_dir: Path) -> ColumnStore:
    """Return the engine that the settings name. It connects when first used, so this works while the engine is not
    available.

    An embedded engine keeps its files in ``clickhouse`` in ``data_dir``.
    """
    if settings.interface == "chdb":
        return EmbeddedStore(data_dir / "clickhouse", settings)
    return ServerStore(settings)
