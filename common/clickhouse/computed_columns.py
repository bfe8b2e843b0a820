"""Columns of ``spans`` that statements name like any other and that the engine computes (``computed_columns.sql``)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from common.named_sql import load_named_sql

ATTRIBUTES_COLUMN: Final = "attributes_json"
"""The column from which attributes are read, however they are stored."""

_EXPRESSIONS: Final = load_named_sql(Path(__file__).with_suffix(".sql"))
_NAMES: Final = re.compile(rf"\b({'|'.join(_EXPRESSIONS)})\b")
_TOKENS: Final = re.compile(rf"'(?:[^'\\]|\\.)*'|[()]|\b(?:SELECT|{'|'.join(_EXPRESSIONS)})\b")


class _Mention(NamedTuple):
    """Where a statement names a column: ``at``, in the query that begins at ``query_at``."""

    name: str
    at: int
    query_at: int


def with_computed_columns(sql: str) -> str:
    """Return a statement with computed columns: a query that names one twice defines it once, in a ``WITH``.

    The engine plans the expression as often as the statement has it, 1 to 2 ms each time. A query that reads the result
    of another one must use another name for the column. Raises ``ValueError`` if a column is named outside of a query.
    """
    if not _NAMES.search(sql):
        return sql
    mentions = _mentions(sql)
    counts = Counter((mention.query_at, mention.name) for mention in mentions)
    edits = {
        mention.at: (len(mention.name), f"({_EXPRESSIONS[mention.name]} AS {mention.name})")
        for mention in mentions
        if counts[mention.query_at, mention.name] == 1
    }
    for query_at in {mention.query_at for mention in mentions}:
        names = [name for (at, name), count in counts.items() if at == query_at and count > 1]
        if names:
            edits[query_at] = (0, f"WITH {', '.join(f'{_EXPRESSIONS[name]} AS {name}' for name in names)} ")
    return _edited(sql, edits)


def _mentions(sql: str) -> list[_Mention]:
    """Return the mentions of computed columns outside of texts, each with the query around it."""
    queries: list[int | None] = [None]
    mentions = []
    for token in _TOKENS.finditer(sql):
        match token[0]:
            case "(":
                queries.append(None)
            case ")":
                queries.pop()
            case "SELECT":
                queries[-1] = token.start()
            case name:
                if name not in _EXPRESSIONS:  # a text
                    continue
                query_at = next((at for at in reversed(queries) if at is not None), None)
                if query_at is None:
                    raise ValueError(f"{name} is named outside of a query.")
                mentions.append(_Mention(name, token.start(), query_at))
    return mentions


def _edited(sql: str, edits: Mapping[int, tuple[int, str]]) -> str:
    """Return a text in which what is at each position, of the given length, is replaced."""
    parts, done = [], 0
    for at, (length, replacement) in sorted(edits.items()):
        parts += [sql[done:at], replacement]
        done = at + length
    return "".join([*parts, sql[done:]])
