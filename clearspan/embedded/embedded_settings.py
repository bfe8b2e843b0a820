"""The settings of the embedded stack: those of the environment, and its own defaults for the rest."""

from __future__ import annotations

from typing import Final

from clearspan.embedded.ports import free_port
from common.settings import Settings

NO_STREAK: Final = 2**31
"""More undecodable records than a partition of the embedded broker ever holds."""


def embedded_settings(settings: Settings) -> Settings:
    """Return the settings with the defaults of the embedded stack where the environment has none."""
    given = settings.model_fields_set
    changes = {
        "data_dir": settings.data_dir.resolve(),
        "api_port": settings.api_port or free_port(),  # written to the data directory before the API listens
        "worker_port": settings.worker_port or free_port(),  # the same for all workers of this stack
        "auth": settings.auth if "auth" in given else "off",
        "log_format": settings.log_format if "log_format" in given else "text",
        "clickhouse": settings.clickhouse.model_copy(update={"interface": "chdb", "cluster": ""}),
    }
    if settings.embedded_broker == "on":
        # A partition that is held would fill the disk space of the broker, and nothing more could be produced.
        changes["ingest"] = settings.ingest.model_copy(update={"dead_letter_streak_max": NO_STREAK})
    return settings.model_copy(update=changes)
