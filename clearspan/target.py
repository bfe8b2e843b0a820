"""Which installation a command talks to: the embedded stack that runs here, else the one that the settings name."""

from __future__ import annotations

from pydantic import SecretStr

from clearspan.embedded.layout import Layout, Running
from common.settings import Settings, read_settings


def target_settings() -> Settings:
    """The settings, with the addresses of the embedded stack where one runs on the data directory."""
    settings = read_settings()
    running = Running.read(Layout(settings.data_dir.resolve()))
    if running is None:
        return settings
    return settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"bootstrap": running.kafka}),
            "postgres": settings.postgres.model_copy(update={"dsn": SecretStr(running.postgres)}),
        }
    )
