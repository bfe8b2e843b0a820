"""What filters look at: the leaves of a span's nested attributes, each a dotted path and a typed text.

This is the definition of the column ``leaves`` of table ``spans`` (``ddl/0001_spans.sql``). It is pure, and both
processes obey it: the worker writes leaves, the compiler of filters asks for them by path.

- A scalar that is not null is a leaf. Its text is ``s`` and the text, ``n`` and the number, ``b1`` or ``b0``.
- An object or array without such a scalar anywhere beneath is a leaf too, so that ``exists`` can see it: ``o``, ``a``.
  The objects that normalisation puts into every span (``ALWAYS_OBJECT_PATHS``) are left out: they say nothing, and
  would cost four entries a span.
- A null is no leaf: absent and null are the same thing (contract §3.2). Absent is ``''`` in SQL, which no leaf is.
- Segments of a path are joined by dots; those of an array are its indexes in decimal. A dot inside a key of a nested
  object is stored as U+0000, which no key can hold (a span with one is refused): no two leaves share a path, and a
  dotted path cannot reach such a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

EMPTY_OBJECT = "o"
EMPTY_ARRAY = "a"

_DOT_IN_KEY = "\0"
_INDEXES = tuple(map(str, range(64)))  # most arrays end here; longer ones make their texts as they go

_TYPE_PATHS = {"trace": "ag.type.trace", "span": "ag.type.span"}

PLACES_MAX = 16_384
PLACE_CHARACTERS_MAX = 128
"""Of one path: with their number, some 10 MB of the most hostile ones."""


def typed_text(value: str | float) -> str:
    """The text of a scalar leaf: its type in one letter, then its value. Takes text, numbers and booleans."""
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, bool):
        return "b1" if value else "b0"
    return "n" + number_text(value)


class _Paths(dict[str, str]):
    """The paths of a container's members, each made when it is first asked for: instrumentations use the same ones
    again and again.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def __missing__(self, name: str) -> str:
        path = self.prefix + name.replace(".", _DOT_IN_KEY)
        if _is_remembered(path):
            self[name] = path
        return path


class _Below(dict[str, "_Place"]):
    """Those of its members that are containers, likewise."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def __missing__(self, name: str) -> _Place:
        place = _Place.at(self.prefix + name.replace(".", _DOT_IN_KEY))
        if _is_remembered(place.path):
            self[name] = place
        return place


class _Place:
    """A container in a span."""

    __slots__ = ("below", "path", "paths")

    def __init__(self, path: str, prefix: str) -> None:
        self.path = path
        self.paths = _Paths(prefix)
        self.below = _Below(prefix)

    @classmethod
    def at(cls, path: str) -> _Place:
        """The container at a path, which may be the empty one."""
        return cls(path, path + ".")


_outermost: dict[str | None, _Place] = {}
_places_left = PLACES_MAX


def _is_remembered(path: str) -> bool:
    """Whether there is room for one more; when there is none left, all begins anew."""
    global _places_left  # noqa: PLW0603 - one table a process, as its paths
    if len(path) > PLACE_CHARACTERS_MAX:
        return False
    if _places_left == 0:
        _outermost.clear()
        _places_left = PLACES_MAX
    _places_left -= 1
    return True


def _place_at(path: str | None) -> _Place:
    """The container that a walk begins with: the value of a dotted key, or, at none, all attributes."""
    place = _outermost.get(path)
    if place is None:
        place = _Place("", "") if path is None else _Place.at(path)
        if _is_remembered(place.path):
            _outermost[path] = place
    return place


def append_leaves(attributes: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """Append the leaves of one span's nested ``attributes``: a path to ``paths``, its text to ``texts``.

    In the order of the document; an empty container comes after what it holds. The depth is bounded by decoding, 24
    levels a value, and by nesting, 24 levels a key.
    """
    _append_members(attributes.items(), _place_at(None), paths.append, texts.append)


def append_ag_leaves(ag: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """The leaves of an ``ag`` in its canonical shape (``ingest/ag.py``): those of the walk in another order, which is
    spared what every span has.
    """
    place = _place_at("ag")
    rest = dict(ag)
    for which, kind in rest.pop("type").items():
        paths.append(_TYPE_PATHS[which])
        texts.append("s" + kind)
    metrics = place.below["metrics"]
    for name, metric in rest.pop("metrics").items():
        if metric:
            known = metrics.below[name]
            _append_members(metric.items(), known, paths.append, texts.append)
    _append_members(rest.items(), place, paths.append, texts.append)


def append_flat_leaves(flat: dict[str, Any], paths: list[str], texts: list[str]) -> bool:
    """The same from flat attributes whose dotted keys are the paths of their values (``NormalizedSpan.flat``): only
    what is structured is walked.

    False, and nothing is appended, where a value holds no scalar: what that makes of the containers around it needs
    the walk.
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
        walked = frozenset(structured)
        paths.extend([path for path in flat if path not in walked])
    else:
        return False
    texts.extend(scalar_texts)
    return True


def _append_structured(flat: dict[str, Any], structured: list[str], paths: list[str], texts: list[str]) -> bool:
    """Append what stands below these paths, or nothing."""
    below_paths: list[str] = []
    below_texts: list[str] = []
    for path in structured:
        value = flat[path]
        members = value.items() if type(value) is dict else _elements(value)
        if not _append_members(members, _place_at(path), below_paths.append, below_texts.append):
            return False
    paths.extend(below_paths)
    texts.extend(below_texts)
    return True


def _append_members(
    members: Iterable[tuple[str, Any]],
    place: _Place,
    add_path: Callable[[str], None],
    add_text: Callable[[str], None],
) -> bool:
    """Add the leaves of one container; true when one of them is a scalar. Once a span and container: flat on
    purpose.
    """
    paths, below = place.paths, place.below
    holds_scalar = False
    for name, value in members:
        kind = type(value)
        if kind is str:
            add_path(paths[name])
            add_text("s" + value)
            holds_scalar = True
        elif kind is int:
            add_path(paths[name])
            add_text(f"n{value}")
            holds_scalar = True
        elif kind is dict:
            inner = below[name]
            if value and _append_members(value.items(), inner, add_path, add_text):
                holds_scalar = True
            elif inner.path not in ALWAYS_OBJECT_PATHS:
                add_path(inner.path)
                add_text(EMPTY_OBJECT)
        elif kind is list:
            inner = below[name]
            if value and _append_members(_elements(value), inner, add_path, add_text):
                holds_scalar = True
            else:
                add_path(inner.path)
                add_text(EMPTY_ARRAY)
        elif value is not None:
            add_path(paths[name])
            add_text(typed_text(value))
            holds_scalar = True
    return holds_scalar


def _elements(array: list[Any]) -> Iterable[tuple[str, Any]]:
    return zip(_INDEXES if len(array) <= len(_INDEXES) else map(str, count()), array, strict=False)
