"""``docs/variants.md`` is true: its commands are run one after the other by a shell, and print what it shows."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from common.filter.models import FilteringModel
from common.filter.parse import parse
from common.postgres.pool import Database
from tests.support.api import context_of, serving
from tests.support.missing import missing

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


@pytest.mark.usefixtures("curl")
async def test_every_command_prints_what_the_page_shows(database: Database):
    pairs = _shown()
    assert len([shown for _, shown in pairs if shown is not None]) >= 10
    async with serving(context_of(database=database)) as client:
        printed = await _run("\n".join(f"{command}\necho '{BORDER}'" for command, _ in pairs), str(client._base_url))
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
