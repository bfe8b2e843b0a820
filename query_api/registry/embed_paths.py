"""Paths of embedded references: dots, JSON Pointer (RFC 6901), JSON Path (RFC 9535) with names and indices. Pure."""

from __future__ import annotations

import re
from typing import Final

_JSON_PATH_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[\]*'\"\s]{1,1000})|\[(?P<index>-?\d{1,9})\]"
    r"|\[(?P<quote>['\"])(?P<quoted>[^'\"\[\]\\]{0,1000})(?P=quote)\]"
)


class InvalidPath(ValueError):
    """Why a text is no path, as the end of a sentence that begins with its name."""


def steps_of(path: str) -> tuple[str, ...]:
    """Return the steps of ``a.0.b``, ``/a/0/b`` or ``$.a[0]['b']``, from the outside in. Raises ``InvalidPath``."""
    if path.startswith("$"):
        return _json_path(path)
    if path.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    return tuple(path.split(".")) if path else ()


def _json_path(path: str) -> tuple[str, ...]:
    steps: list[str] = []
    at = 1
    while at < len(path):
        step = _JSON_PATH_STEP.match(path, at)
        if step is None:
            raise InvalidPath(f"may have only names and indices as JSON Path: {path[:200]}")
        steps.append(step["name"] or step["index"] or step["quoted"] or "")
        at = step.end()
    return tuple(steps)
