"""SQL files with names: a line ``-- name --`` begins a query that ends where the next one begins."""

from __future__ import annotations

import re
from pathlib import Path

_NAME_LINE = re.compile(r"^-- ([a-z_]+) --[ \t]*$", re.MULTILINE)


def load_named_sql(path: Path, /) -> dict[str, str]:
    """The queries of a file by name, comments of purpose included. Raises ``ValueError`` when a name stands twice."""
    _, *parts = _NAME_LINE.split(path.read_text())
    names, texts = parts[::2], parts[1::2]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path.name}: {', '.join(sorted(twice))} stands twice")
    return {name: text.strip() for name, text in zip(names, texts, strict=True)}
