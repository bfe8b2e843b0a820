"""A deliverer that kills itself at a target or an alert: ``python -m tests.support.dying_targets DSN SETTINGS STEP``.

``SETTINGS`` is the JSON of the settings, ``STEP`` where the process gets SIGKILL; empty: never.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from common.clickhouse.connect import open_store
from common.postgres.pool import open_database
from common.settings import Settings
from jobs.alerts.store import LeasedAlerts
from jobs.app import open_jobs
from query_api.delivery.targets.kafka import KafkaTarget
from query_api.delivery.targets.otlp import OtlpTarget
from query_api.delivery.targets.parquet import ParquetTarget
from query_api.delivery.targets.webhook import WebhookTarget

_STEPS: Final[dict[str, tuple[type, str, bool]]] = {
    "after an evaluation is stored": (LeasedAlerts, "finish", True),
    "after a message is sent": (WebhookTarget, "send", True),
    "during a request to OTLP": (OtlpTarget, "deliver", False),
    "after a request to OTLP": (OtlpTarget, "deliver", True),
    "while a file is written": (ParquetTarget, "deliver", False),
    "after a file is written": (ParquetTarget, "deliver", True),
    "during a publish to Kafka": (KafkaTarget, "deliver", False),
    "after a publish to Kafka": (KafkaTarget, "deliver", True),
}
KAFKA_STEPS: Final = tuple(step for step, (owner, *_) in _STEPS.items() if owner is KafkaTarget)
STEPS: Final = tuple(step for step in _STEPS if step not in KAFKA_STEPS)
"""In this order each one is reached: what a step leaves undone is done again before the next one."""


def die_at(step: str) -> None:
    """Kill this process when it is at a step."""
    owner, name, is_after = _STEPS[step]
    method: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def dying(*arguments: Any, **options: Any) -> Any:
        if not is_after:
            asyncio.get_running_loop().call_later(0.004, os.kill, os.getpid(), signal.SIGKILL)
        await method(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, dying)


async def run(settings: Settings) -> None:
    """Deliver until killed."""
    store = open_store(settings.clickhouse, data_dir=Path())
    async with (
        open_database(settings.postgres) as database,
        open_jobs(settings, store=store, database=database),
    ):
        await asyncio.Event().wait()


def main() -> None:
    """Run a deliverer."""
    dsn, text, step = sys.argv[1:]
    if step:
        die_at(step)
    settings = Settings.model_validate_json(text)
    postgres = settings.postgres.model_copy(update={"dsn": SecretStr(dsn)})
    asyncio.run(run(settings.model_copy(update={"postgres": postgres})))


if __name__ == "__main__":
    main()
