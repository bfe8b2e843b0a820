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

import orjson

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

_PLAIN_AG_MEMBERS = 3  # type, data, metrics

EMPTY_OBJECT = "o"
EMPTY_ARRAY = "a"

_DOT_IN_KEY = "\0"
_INT64_MIN, _UINT64_END = -(2.0**63), 2.0**64
_INDEXES = tuple(map(str, range(64)))  # most arrays end here; longer ones make their texts as they go


def number_text(value: float) -> str:
    """The one text of a number, as JSON shows it: two numbers have the same text exactly when they are equal.

    Integers, and doubles that are integers inside 64 bits, are decimal digits (``5.0`` is ``5``, ``-0.0`` is ``0``);
    other doubles are the shortest decimal that reads back as the same double (``0.1``, ``1e+22``, ``1e-7``).
    """
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and _INT64_MIN <= value < _UINT64_END:
        return str(int(value))
    return orjson.dumps(value).decode()


def typed_text(value: str | float) -> str:
    """The text of a scalar leaf: its type in one letter, then its value. Takes text, numbers and booleans."""
    if isinstance(value, str):
        return "s" + value
    if isinstance(value, bool):
        return "b1" if value else "b0"
    return "n" + number_text(value)


def append_leaves(attributes: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """Append the leaves of one span's nested ``attributes``: a path to ``paths``, its text to ``texts``.

    In the order of the document; an empty container comes after what it holds. The depth is bounded by decoding, 24
    levels a value, and by nesting, 24 levels a key.
    """
    _append_members(attributes.items(), "", paths.append, texts.append)


def append_flat_leaves(flat: dict[str, Any], paths: list[str], texts: list[str]) -> bool:
    """The same from flat attributes whose dotted keys are the paths of their values (``Normal.flat``), without a walk.

    False, and nothing is appended, where a value is not a scalar: what stands beneath it, or does not, needs the walk.
    """
    appended = []
    for value in flat.values():
        kind = type(value)
        if kind is str:
            appended.append("s" + value)
        elif kind is int:
            appended.append(f"n{value}")
        elif value is None or kind is dict or kind is list:
            return False
        else:
            appended.append(typed_text(value))
    paths.extend(flat)
    texts.extend(appended)
    return True


def append_plain_ag_leaves(ag: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """The leaves of the ``ag`` of a span which was sent none: mostly the kind of trace and a duration."""
    metrics = ag["metrics"]
    if len(ag) > _PLAIN_AG_MEMBERS or ag["data"] or metrics["errors"] or metrics["tokens"] or metrics["costs"]:
        append_leaves({"ag": ag}, paths, texts)
        return
    for name, kind in ag["type"].items():
        paths.append(f"ag.type.{name}")
        texts.append("s" + kind)
    duration = metrics["duration"].get("cumulative")
    if duration is not None:
        paths.append("ag.metrics.duration.cumulative")
        texts.append("n" + number_text(duration))


def _append_members(
    members: Iterable[tuple[str, Any]],
    prefix: str,
    add_path: Callable[[str], None],
    add_text: Callable[[str], None],
) -> bool:
    """Append the leaves of one container; true when one of them is a scalar. Once a span and container: flat on purpose."""
    holds_scalar = False
    for key, value in members:
        if value is None:
            continue
        path = prefix + (key if "." not in key else key.replace(".", _DOT_IN_KEY))
        kind = type(value)
        if kind is str:
            holds_scalar = True
            add_path(path)
            add_text("s" + value)
        elif kind is dict:
            if value and _append_members(value.items(), path + ".", add_path, add_text):
                holds_scalar = True
            elif path not in ALWAYS_OBJECT_PATHS:
                add_path(path)
                add_text(EMPTY_OBJECT)
        elif kind is list:
            if value and _append_members(_elements(value), path + ".", add_path, add_text):
                holds_scalar = True
            else:
                add_path(path)
                add_text(EMPTY_ARRAY)
        else:
            holds_scalar = True
            add_path(path)
            add_text(f"n{value}" if kind is int else typed_text(value))
    return holds_scalar


def _elements(array: list[Any]) -> Iterable[tuple[str, Any]]:
    return zip(_INDEXES if len(array) <= len(_INDEXES) else map(str, count()), array, strict=False)
