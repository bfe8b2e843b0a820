"""The commands in ``docs/settled-traces.md``, run in order by a shell, print what the page shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from common.clickhouse.connect import open_store
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from common.times import SystemClock
from jobs.app import open_jobs
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.delivery import delivery_settings
from tests.support.shell_pages import check_commands, commands, stack_of_a_page
from tests.support.storing import stored_soon

PRELUDE = f"""\
cd "$WORK"
mkdir bin
printf '#!/bin/sh\nexec "{sys.executable}" "$@"\n' > bin/python3
chmod +x bin/python3
PATH="$WORK/bin:$PATH"
"""


async def test_commands_print_what_the_page_shows(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings], tmp_path: Path
) -> None:
    page = commands("settled-traces.md")
    assert len([shown for _, shown in page if shown is not None]) == 3
    store, broker = open_store(chdb_settings(), data_dir=chdb_dir), MemoryBroker()
    settings = delivery_settings().model_copy(update={"settling_s": 2.0, "settling_max_s": 6.0})
    context = context_of(database=database, broker=broker, store=store, clock=SystemClock(), settings=settings)

    async with (
        stored_soon(context, broker),
        serving(context) as client,
        open_jobs(context.settings, store=store, database=database, stored=context.stored),
    ):
        with stack_of_a_page(str(client._base_url).rstrip("/"), tmp_path / "data") as environment:
            environment["WORK"] = str(tmp_path)
            await check_commands(page, environment=environment, prelude=PRELUDE)
    await store.close()
