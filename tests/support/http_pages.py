"""Pages of the docs whose blocks are requests and, after each, its answer: read, and compared with what is answered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

ANYTHING = "…"
DOCS = Path(__file__).parents[2] / "docs"


class Message(NamedTuple):
    """A block of a page: a request or an answer."""

    first_line: str
    headers: dict[str, str]
    body: Any


def exchanges(page: str) -> list[tuple[Message, Message]]:
    """The requests of a page of ``docs``, each with the answer that is shown after it."""
    text = (DOCS / page).read_text()
    messages = [_message(block) for block in re.findall(r"^```http\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]
    return list(zip(messages[::2], messages[1::2], strict=True))


def check_shown(shown: Any, answered: Any, path: str) -> None:
    """Everything that is shown is there; more may be."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in answered, f"{path}: {name} of {answered}"
            check_shown(value, answered[name], f"{path}.{name}")
    elif isinstance(shown, list):
        assert len(shown) == len(answered), f"{path}: {answered}"
        for index, (one, other) in enumerate(zip(shown, answered, strict=True)):
            check_shown(one, other, f"{path}[{index}]")
    elif shown != ANYTHING:
        assert shown == answered, path


def _message(block: str) -> Message:
    head, _, body = block.partition("\n\n")
    first_line, *headers = head.strip().split("\n")
    return Message(first_line, dict(line.split(": ", 1) for line in headers), json.loads(body) if body else None)
