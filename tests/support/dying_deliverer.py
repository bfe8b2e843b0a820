"""A deliverer that kills itself: ``python -m tests.support.dying_deliverer SETTINGS STEP``.

``SETTINGS`` is the JSON of the settings, ``STEP`` where the process gets SIGKILL when it is there for the second time;
empty: never. There is no broker, so the table of stored positions is read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from common.clickhouse.connect import open_store
from common.postgres.pool import open_database
from common.settings import Settings
from jobs.app import open_jobs
from jobs.subscriptions.reading import BatchReader
from jobs.subscriptions.store import LeasedSubscriptions
from query_api.delivery.targets.webhook import WebhookTarget

BEFORE_READ: Final = "before the read"
AFTER_READ: Final = "after the read"
AFTER_BORDERS: Final = "after the borders"
DURING_DELIVERY: Final = "during the delivery"
AFTER_DELIVERY: Final = "after the delivery"
AFTER_POSITION: Final = "after the position"
STEPS: Final = (BEFORE_READ, AFTER_READ, AFTER_BORDERS, DURING_DELIVERY, AFTER_DELIVERY, AFTER_POSITION)
DIES_AT: Final = 2


class Dying:
    """Counts how often each step was reached."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._reached: Counter[str] = Counter()

    def at(self, step: str) -> None:
        self._reached[step] += 1
        if step and step == self._step and self._reached[step] == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: type, name: str, *, before: str = "", after: str = "", during: str = "") -> None:
        """Wrap a method; ``during`` is shortly after it began."""
        method: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def wrapped(*arguments: Any, **options: Any) -> Any:
            self.at(before)
            if during:
                asyncio.get_running_loop().call_later(0.003, self.at, during)
            result = await method(*arguments, **options)
            if not isinstance(result, tuple) or result[0]:  # a batch without spans is not one
                self.at(after)
            return result

        setattr(owner, name, wrapped)


async def run(settings: Settings, step: str) -> None:
    dying = Dying(step)
    dying.around(BatchReader, "next_batch", before=BEFORE_READ, after=AFTER_READ)
    dying.around(LeasedSubscriptions, "begin", after=AFTER_BORDERS)
    dying.around(WebhookTarget, "deliver", after=AFTER_DELIVERY, during=DURING_DELIVERY)
    dying.around(LeasedSubscriptions, "end", after=AFTER_POSITION)
    store = open_store(settings.clickhouse, data_dir=Path())
    async with (
        open_database(settings.postgres) as database,
        open_jobs(settings, store=store, database=database),
    ):
        await asyncio.Event().wait()


def main() -> None:
    dsn, text, step = sys.argv[1:]
    settings = Settings.model_validate_json(text)
    postgres = settings.postgres.model_copy(update={"dsn": SecretStr(dsn)})
    asyncio.run(run(settings.model_copy(update={"postgres": postgres}), step))


if __name__ == "__main__":
    main()
