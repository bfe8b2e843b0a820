"""Load SQL files with named queries: a line ``-- name --`` begins a query that ends where the next one begins."""

from __future__ import annotations

import re
from pathlib import Path

_NAME_LINE = re.compile(r"^-- ([a-z_]+) --[ \t]*$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)


def load_named_sql(path: Path, /) -> dict[str, str]:
    """Return the queries of a file by name, without lines that are comments. Raises ``ValueError`` for a duplicate
    name.
    """
    _, *parts = _NAME_LINE.split(path.read_text())
    names, texts = parts[::2], parts[1::2]
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:
        raise ValueError(f"{path.name}: more than one query is named {', '.join(sorted(duplicates))}")
    return {name: _COMMENT_LINE.sub("", text).strip() for name, text in zip(names, texts, strict=True)}
