"""``docs/saved-queries.md`` is true: its commands are run one after the other by a shell, and print what it shows."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from common.clickhouse.connect import open_store
from common.clock import SystemClock
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.freshness.ends import KnownEnds
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.http_pages import check_shown
from tests.support.missing import missing
from tests.support.shell_pages import commands, run
from tests.support.storing import StoringByHand


@pytest.fixture
def curl() -> None:
    """What the page's commands need."""
    if shutil.which("curl") is None:
        missing("the page's commands need curl")


@pytest.fixture
async def address(
    shared_database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[str]:
    """Of an API whose broker is drained by and by."""
    store, broker, clock = open_store(chdb_settings(), data_dir=chdb_dir), MemoryBroker(), SystemClock()
    ends = KnownEnds(broker.ends("spans"), clock)
    context = context_of(database=shared_database, broker=broker, store=store, clock=clock, ends=ends)
    storing = asyncio.create_task(_store_by_and_by(StoringByHand(context, broker)))
    async with serving(context) as client:
        yield str(client._base_url)
    storing.cancel()
    with suppress(asyncio.CancelledError):
        await storing
    await store.close()


async def _store_by_and_by(storing: StoringByHand) -> None:
    while True:
        await asyncio.sleep(0.1)
        await storing.store_all()


@pytest.mark.usefixtures("curl")
async def test_every_command_prints_what_the_page_shows(address: str):
    pairs = commands("saved-queries.md")
    assert len([shown for _, shown in pairs if shown is not None]) >= 8

    printed = await run([command for command, _ in pairs], address=address)

    for (command, shown), output in zip(pairs, printed, strict=True):
        if shown is not None:
            check_shown(shown, output.strip() if isinstance(shown, str) else json.loads(output), command)
