"""``docs/projects-and-keys.md`` is true: its commands are run one after the other by a shell, and print what it shows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from common.clock import SystemClock
from common.postgres.keys import Keys
from common.postgres.pool import Database
from common.settings import PostgresSettings, Settings
from tests.support.api import context_of, serving
from tests.support.missing import missing

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```(bash|json)\n(.*?)^```$", (ROOT / "docs/projects-and-keys.md").read_text(), re.S | re.M)
ADMIN_KEY = "the-key-of-the-admin"
BORDER = "=== end of block ==="


@pytest.fixture
def curl() -> None:
    """What the page's commands need."""
    if shutil.which("curl") is None:
        missing("the page's commands need curl")


@pytest.mark.usefixtures("curl")
async def test_every_command_prints_what_the_page_shows(
    database: Database, database_settings: PostgresSettings, tmp_path: Path
):
    commands = [text for kind, text in BLOCKS if kind == "bash"]
    shown = [json.loads(text) for kind, text in BLOCKS if kind == "json"]
    settings = Settings(auth="on", admin_key=SecretStr(ADMIN_KEY))
    context = context_of(settings=settings, keys=Keys(database, SystemClock()), database=database)
    async with serving(context) as client:
        script = "\n".join(f"{command}\necho '{BORDER}'" for command in commands)
        printed = await _run(script, database_settings, tmp_path, api=str(client._base_url).rstrip("/"))

    by_hand, current, accounts, _ = printed.split(BORDER)
    assert "in force" in by_hand
    for wanted, output in zip(shown, (current, accounts), strict=True):
        _check(wanted, json.loads(output))


async def _run(script: str, postgres: PostgresSettings, data_dir: Path, *, api: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "API": api,
        "CLEARSPAN_ADMIN_KEY": ADMIN_KEY,
        "CLEARSPAN_DATA_DIR": str(data_dir),
        "CLEARSPAN_POSTGRES__DSN": postgres.dsn.get_secret_value(),
    }
    command_line = f'clearspan() {{ "{sys.executable}" -m clearspan "$@"; }}\n'
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", command_line + script,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await shell.communicate()
    assert shell.returncode == 0, errors.decode()
    return out.decode()


def _check(shown: Any, printed: Any) -> None:
    """Everything that is shown is there; more may be."""
    if not isinstance(shown, dict):
        assert shown == printed
        return
    for name, value in shown.items():
        _check(value, printed[name])
