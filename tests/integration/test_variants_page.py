"""``docs/variants.md`` is true: its commands are run one after the other by a shell, and print what it shows."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.connect import open_store
from common.clock import SystemClock
from common.filter.models import FilteringModel
from common.filter.parse import parse
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.freshness.ends import KnownEnds
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.missing import missing
from tests.support.storing import StoringByHand

PAGE = Path(__file__).parents[2] / "docs/variants.md"
BLOCKS = re.findall(r"^```(bash|json)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
BORDER = "=== end of block ==="
ANYTHING = "…"


def _shown() -> list[tuple[str, Any]]:
    """Each command with what is shown right after it, or ``None``."""
    pairs: list[tuple[str, Any]] = []
    for kind, text in BLOCKS:
        if kind == "bash":
            pairs.append((text, None))
        elif "filtering" not in json.loads(text):
            pairs[-1] = (pairs[-1][0], json.loads(text))
    return pairs


@pytest.fixture
def curl() -> None:
    """What the page's commands need."""
    if shutil.which("curl") is None:
        missing("the page's commands need curl")


@pytest.fixture
async def address(
    database: Database, chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> AsyncIterator[str]:
    """Of an API whose broker is drained by and by."""
    store, broker, clock = open_store(chdb_settings(), data_dir=chdb_dir), MemoryBroker(), SystemClock()
    ends = KnownEnds(broker.ends("spans"), clock)
    context = context_of(database=database, broker=broker, store=store, clock=clock, ends=ends)
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
    pairs = _shown()
    assert len([shown for _, shown in pairs if shown is not None]) >= 10
    printed = await _run("\n".join(f"{command}\necho '{BORDER}'" for command, _ in pairs), address)
    outputs = printed.split(BORDER)
    for (command, shown), output in zip(pairs, outputs, strict=False):
        if shown is not None:
            _check(shown, json.loads(output), command)


def test_the_filter_of_the_page_is_legal():
    [text] = [text for kind, text in BLOCKS if kind == "json" and "filtering" in json.loads(text)]

    parse(FilteringModel.model_validate(json.loads(text)["filtering"]))


async def _run(script: str, address: str) -> str:
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script,
        env={"CLEARSPAN": address.rstrip("/"), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await shell.communicate()
    assert shell.returncode == 0, errors.decode()
    return out.decode()


def _check(shown: Any, printed: Any, where: str) -> None:
    """Everything that is shown is there; more may be."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in printed, f"{where}: {name} of {printed}"
            _check(value, printed[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert len(shown) == len(printed), f"{where}: {printed}"
        for index, (one, other) in enumerate(zip(shown, printed, strict=True)):
            _check(one, other, f"{where}[{index}]")
    elif shown != ANYTHING:
        assert shown == printed, where
