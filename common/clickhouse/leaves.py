"""What filters look at: the leaves of a span's nested attributes, each a dotted path and a typed text.

This defines the column ``leaves`` of the table ``spans`` (``ddl/0001_spans.sql``). It is pure, and both processes
rely on it: the worker writes leaves, the compiler of filters asks for them by path.

- A scalar that is not null is a leaf. Its text is ``s`` and the text, ``n`` and the number, ``b1`` or ``b0``.
- An object or array without such a scalar anywhere below is a leaf too, so that ``exists`` can see it: ``o``, ``a``.
  The objects that normalization puts into every span (``ALWAYS_OBJECT_PATHS``) are left out: they say nothing, and
  would cost four entries for each span.
- A null is not a leaf: absent and null are the same (contract §3.2). In SQL an absent leaf is ``''``, which is the text
  of no leaf.
- The segments of a path are joined by dots; those of an array are its indexes in decimal. A dot inside a key of a
  nested object is stored as U+0000, which no key can contain (such a span is rejected): no two leaves share a path,
  and a dotted path cannot reach such a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count
from typing import Any

from common.json_numbers import number_text

ALWAYS_OBJECT_PATHS = frozenset(
    {
        "ag",
        "ag.type",
        "ag.data",
        "ag.metrics",
        "ag.metrics.duration",
        "ag.metrics.errors",
        "ag.metrics.tokens",
        "ag.metrics.costs",
    }
)

MODEL_COLUMN = "model_leaf"
"""The column with the leaf of ``ag.meta.response.model``, or if there is none, that of ``ag.meta.request.model``."""

EMPTY_OBJECT = "o"
EMPTY_ARRAY = "a"

CONTAINERS_MAX = 2_048
MEMBERS_MAX = 32
PATH_CHARACTERS_MAX = 128
"""How many paths are cached, and their length: 20 MB at worst."""

_DOT_IN_KEY = "\0"
_INDEXES = tuple(map(str, range(64)))  # enough for most arrays


class _MemberPaths(dict[str, str]):
    """The paths of a container's members by their names. Spans have the same paths again and again, so they are cached:
    leaves of one span of a model call: 37 µs instead of 40.
    """

    def __init__(self, container: str | None) -> None:
        super().__init__()
        self._prefix = "" if container is None else f"{container}."

    def __missing__(self, name: str) -> str:
        path = self._prefix + name.replace(".", _DOT_IN_KEY)
        if len(self) < MEMBERS_MAX and len(path) <= PATH_CHARACTERS_MAX:
            self[name] = path
        return path


_member_paths = lru_cache(CONTAINERS_MAX)(_MemberPaths)


def typed_text(value: str | float) -> str:
    """Return the text of a scalar leaf: one letter for its type, then its value. Takes text, numbers and booleans."""
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, bool):
        return "b1" if value else "b0"
    return "n" + number_text(value)


def append_leaves(attributes: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """Append the leaves of one span's nested ``attributes``: paths to ``paths``, typed texts to ``texts``.

    In the order of the document; an empty container comes after its members. The depth is bounded: decoding allows 24
    levels for a value, nesting 24 levels for a key.
    """
    _append_members(attributes.items(), None, paths.append, texts.append)


def append_ag_leaves(ag: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """Append the leaves of an ``ag`` in its canonical shape (``ingest/ag.py``).

    The same leaves as those of ``append_leaves``, in another order, without visiting what every span has.
    """
    rest = dict(ag)
    type_paths = _member_paths("ag.type")
    for name, kind in rest.pop("type").items():
        paths.append(type_paths[name])
        texts.append("s" + kind)
    metric_paths = _member_paths("ag.metrics")
    for name, metric in rest.pop("metrics").items():
        if metric:
            _append_members(metric.items(), metric_paths[name], paths.append, texts.append)
    _append_members(rest.items(), "ag", paths.append, texts.append)


def append_flat_leaves(flat: dict[str, Any], paths: list[str], texts: list[str]) -> bool:
    """Append the leaves of flat attributes whose dotted keys are the paths of their values (``NormalizedSpan.flat``).

    Only structured values are descended into. Return ``False`` and append nothing if a value holds no scalar: only
    ``append_leaves`` can tell whether the containers around it are leaves.
    """
    scalar_texts: list[str] = []
    structured: list[str] = []
    add_text = scalar_texts.append
    for path, value in flat.items():
        kind = type(value)
        if kind is str:
            add_text("s" + value)
        elif kind is int:
            add_text(f"n{value}")
        elif kind is dict or kind is list:
            structured.append(path)
        elif value is None:
            return False
        else:
            add_text(typed_text(value))
    if not structured:
        paths.extend(flat)
    elif _append_structured(flat, structured, paths, texts):
        done = frozenset(structured)
        paths.extend([path for path in flat if path not in done])
    else:
        return False
    texts.extend(scalar_texts)
    return True


def _append_structured(flat: dict[str, Any], structured: list[str], paths: list[str], texts: list[str]) -> bool:
    """Append the leaves below these paths; return ``False`` and append nothing if a value holds no scalar."""
    below_paths: list[str] = []
    below_texts: list[str] = []
    for path in structured:
        value = flat[path]
        members = value.items() if type(value) is dict else _elements(value)
        if not _append_members(members, path, below_paths.append, below_texts.append):
            return False
    paths.extend(below_paths)
    texts.extend(below_texts)
    return True


def _append_members(
    members: Iterable[tuple[str, Any]],
    container: str | None,
    add_path: Callable[[str], None],
    add_text: Callable[[str], None],
) -> bool:
    """Add the leaves of the container at this path, ``None`` for the root; return whether one of them is a scalar.

    Called for each container of each span, so it is one flat function.
    """
    paths = _member_paths(container)
    holds_scalar = False
    for name, value in members:
        path = paths[name]
        kind = type(value)
        if kind is str:
            add_path(path)
            add_text("s" + value)
            holds_scalar = True
        elif kind is int:
            add_path(path)
            add_text(f"n{value}")
            holds_scalar = True
        elif kind is dict:
            if value and _append_members(value.items(), path, add_path, add_text):
                holds_scalar = True
            elif path not in ALWAYS_OBJECT_PATHS:
                add_path(path)
                add_text(EMPTY_OBJECT)
        elif kind is list:
            if value and _append_members(_elements(value), path, add_path, add_text):
                holds_scalar = True
            else:
                add_path(path)
                add_text(EMPTY_ARRAY)
        elif value is not None:
            add_path(path)
            add_text(typed_text(value))
            holds_scalar = True
    return holds_scalar


def _elements(array: list[Any]) -> Iterable[tuple[str, Any]]:
    return zip(_INDEXES if len(array) <= len(_INDEXES) else map(str, count()), array, strict=False)
