"""Pages of the docs whose blocks are commands of a shell and, after some, what they print (JSON, or text): read, and run."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
BORDER = "=== end of block ==="


def commands(page: str) -> list[tuple[str, Any]]:
    """The commands of a page of ``docs``, each with what is shown right after it, or ``None``."""
    pairs: list[tuple[str, Any]] = []
    blocks = re.findall(r"^```(bash|json|text)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    for kind, text in blocks:
        if kind == "bash":
            pairs.append((text, None))
        else:
            pairs[-1] = (pairs[-1][0], json.loads(text) if kind == "json" else text.strip())
    return pairs


async def run(blocks: list[str], *, address: str) -> list[str]:
    """What each block prints, run by one shell one after the other; ``$CLEARSPAN`` is the API. A command that fails ends it all."""
    script = "\n".join(f"{block}\necho '{BORDER}'" for block in blocks)
    shell = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script,
        env={"CLEARSPAN": address.rstrip("/"), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await shell.communicate()
    assert shell.returncode == 0, errors.decode()
    return out.decode().split(BORDER)[:-1]
