"""Paths: which value of a JSON document a dotted key finds. This is the one rule for filters, groups, facets, sorts and
exports, in the engine and in Python (``docs/query-language.md``, "Paths").

**The key that was sent is the path that finds it**: the names on the way to a value, joined by dots, are its path. A
name may hold dots itself, as nesting leaves them where a scalar is in the way (``common/nesting.py``: ``error`` and
``error.type``), and as nested objects are sent. Where a key could lead to several values:

1. The value that is reached segment by segment is found, if it is not null.
2. Else the first value is found that is not null, where the longest name with which the rest of the key begins is tried
   first in each object on the way.

A segment that is a number is an index in an array. What only the second part of the rule finds, the worker stores
by its key (``common/clickhouse/member_json.py``), so that the engine follows the same rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

LEVELS_MAX: Final = 96
"""Segments of a path that finds something. Attributes nest 24 levels by their keys and at most 64 by their values."""

INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
"""A segment of a path that can be an index."""

Names: TypeAlias = tuple[str, ...]
"""The names on the way to a value; indexes are in decimal."""


class Located(NamedTuple):
    """A value that is not null, and the names on the way to it."""

    names: Names
    value: Any


def is_index(segment: str) -> bool:
    """Return whether a segment of a path can be an index: at most nine decimal digits, without a leading zero."""
    return INDEX.fullmatch(segment) is not None


def value_at(document: Any, path: Sequence[str]) -> Any:
    """Return the value that the segments of a key find; ``None`` if there is none."""
    found = located(document, tuple(path))
    return None if found is None else found.value


def located(document: Any, path: Names) -> Located | None:
    """Return what the segments of a key find with the names that lead to it; ``None`` if there is none."""
    if len(path) > LEVELS_MAX:
        return None
    value = _by_segments(document, path)
    return _by_names(document, path) if value is None else Located(path, value)


def exists_at(document: Any, path: Sequence[str]) -> bool:
    """Return whether a key finds a value, or begins the path of one: so does ``error.details`` for
    ``error.details.code``.
    """
    return len(path) <= LEVELS_MAX and _exists(document, tuple(path))


def _by_segments(value: Any, path: Names) -> Any:
    for segment in path:
        if isinstance(value, dict):
            value = value.get(segment)
        elif isinstance(value, list) and is_index(segment):
            value = value[int(segment)] if int(segment) < len(value) else None
        else:
            return None
    return value


def _by_names(value: Any, path: Names, names: Names = ()) -> Located | None:
    if not path:
        return Located(names, value)
    for name, member, rest in _ways(value, path):
        found = _by_names(member, rest, (*names, name))
        if found is not None:
            return found
    return None


def _exists(value: Any, path: Names) -> bool:
    if not path:
        return True
    if isinstance(value, dict):
        beginning = ".".join(path) + "."
        if any(name.startswith(beginning) and member is not None for name, member in value.items()):
            return True
    return any(_exists(member, rest) for _, member, rest in _ways(value, path))


def _ways(value: Any, path: Names) -> Iterator[tuple[str, Any, Names]]:
    """Yield the names in a value with which a path begins, the longest first, with what they lead to, which is not
    null, and the rest of the path.
    """
    if isinstance(value, list):
        member = _by_segments(value, path[:1])
        if member is not None:
            yield path[0], member, path[1:]
    elif isinstance(value, dict):
        for end in range(len(path), 0, -1):
            name = ".".join(path[:end])
            member = value.get(name)
            if member is not None:
                yield name, member, path[end:]
