"""Which installation a command talks to: the embedded stack that runs here, else the one that the settings name."""

from __future__ import annotations

from typing import Literal

from pydantic import SecretStr

from clearspan.embedded.layout import Layout, Running
from common.environment import read_settings
from common.errors import ServiceError, Unavailable
from common.settings import Settings


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


def explained(failure: ServiceError, system: Literal["kafka", "postgres"]) -> str:
    """Return what failed; if ``system`` is away and no setting names it, also that no embedded stack runs."""
    settings = read_settings()
    is_named = system in settings.model_fields_set
    if not isinstance(failure, Unavailable) or is_named or Running.read(Layout(settings.data_dir.resolve())):
        return failure.detail
    return (
        f"{failure.detail}\nNo embedded stack runs in {settings.data_dir}: `make up` starts one, and "
        f"CLEARSPAN_{system.upper()}__… names a server."
    )
