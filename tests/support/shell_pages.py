"""Pages of the docs with shell commands and their output (JSON or text): read them and run them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from clearspan.embedded.layout import Layout, Running, hold
from common.postgres.pool import Database
from common.settings import ClickHouseSettings, QuerySettings, Settings
from common.times import SystemClock
from query_api.request.progress import KnownEndOffsets
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving
from tests.support.http_pages import check_shown
from tests.support.missing import missing
from tests.support.stores import opened_store
from tests.support.storing import stored_soon

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMAND_LINE = f'clearspan() {{ "{sys.executable}" -m clearspan "$@"; }}\n'
BORDER = "=== end of block ==="


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the blocks of a page of ``docs``, each with its language: bash, json or text."""
    found = re.findall(r"^```(bash|sh|json|text)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return [("bash" if kind == "sh" else kind, text) for kind, text in found]


def commands(page: str) -> list[tuple[str, Any]]:
    """Return the commands of a page, each with the output that the page shows right after it, or ``None``."""
    pairs: list[tuple[str, Any]] = []
    for kind, text in blocks(page):
        if kind == "bash":
            pairs.append((text, None))
        elif pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], json.loads(text) if kind == "json" else text.strip())
    return pairs


async def check_commands(
    page: Sequence[tuple[str, Any]], *, environment: Mapping[str, str], prelude: str = ""
) -> list[str]:
    """Run ``prelude`` and the commands in one shell, and compare their output with the page.

    Returns the output of each command.
    """
    printed = await _run([command for command, _ in page], environment=environment, prelude=prelude)
    for (command, shown), output in zip(page, printed, strict=True):
        if shown is not None:
            check_shown(shown, output.strip() if isinstance(shown, str) else json.loads(output), command)
    return printed


@asynccontextmanager
async def api_of_a_page(database: Database, settings: ClickHouseSettings, *, data_dir: Path) -> AsyncIterator[str]:
    """Yield the address of an API; what it publishes is stored soon after."""
    broker, clock = MemoryBroker(), SystemClock()
    ends = KnownEndOffsets(broker.ends("spans"), clock)
    patient = Settings(auth="off", query=QuerySettings(wait_for_max_s=60))
    async with opened_store(settings, data_dir=data_dir) as store:
        context = context_of(database=database, broker=broker, store=store, clock=clock, ends=ends, settings=patient)
        async with stored_soon(context, broker), serving(context) as client:
            yield str(client._base_url).rstrip("/")


@contextmanager
def stack_of_a_page(address: str, data_dir: Path, *, postgres: str = "") -> Iterator[dict[str, str]]:
    """Let an API be the embedded stack that runs in a data directory, which `clearspan env` finds.

    Yields the environment of a shell that follows a page.
    """
    layout = Layout(data_dir)
    mask = os.umask(0o077)
    try:
        with hold(layout):
            Running(pid=os.getpid(), api=address, worker=address, kafka="127.0.0.1:1", postgres=postgres).write(layout)
            yield {"CLEARSPAN_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)}
    finally:
        os.umask(mask)


async def _run(each: Sequence[str], *, environment: Mapping[str, str], prelude: str) -> list[str]:
    """Return the output of each block. A failing command ends the shell."""
    if shutil.which("curl") is None:
        missing("the page's commands need curl")
    script = COMMAND_LINE + prelude + "\n".join(f"{block}\necho '{BORDER}'" for block in each)
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await shell.communicate()
    assert shell.returncode == 0, errors.decode()
    return out.decode().split(BORDER)[:-1]
