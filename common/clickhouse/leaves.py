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

from collections.abc import Iterable
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

EMPTY_OBJECT = "o"
EMPTY_ARRAY = "a"

_DOT_IN_KEY = "\0"
_INT64_MIN, _UINT64_END = -(2.0**63), 2.0**64
_INDEXES = tuple(map(str, range(64)))  # most arrays end here; longer ones make their texts as they go


_DICTS = frozenset({dict})


class _Paths(dict[str, str]):
    """The paths of a container's members: made beforehand of those that it mostly has, made when they are asked for of others."""

    def __init__(self, container: str, *names: str) -> None:
        self.container = container
        self.prefix = container + "."
        super().__init__((name, self.prefix + name) for name in names)

    def __missing__(self, name: str) -> str:
        return self.prefix + name.replace(".", _DOT_IN_KEY)


_TYPE_PATHS = _Paths("ag.type", "trace", "span")
_METRIC_PATHS = {name: _Paths(f"ag.metrics.{name}", "cumulative", "incremental") for name in ("duration", "errors")}
_AMOUNT_PATHS = {
    name: {
        kind: _Paths(f"ag.metrics.{name}.{kind}", "prompt", "completion", "total", "cached", "cache_write", "reasoning")
        for kind in ("cumulative", "incremental")
    }
    for name in ("tokens", "costs")
}
_MESSAGE_PATHS = {
    side: tuple(
        _Paths(f"ag.data.{side}.messages.{position}", "role", "content", "finish_reason", "tool_call_id", "name")
        for position in _INDEXES
    )
    for side in ("inputs", "outputs")
}


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
    _append_members(attributes.items(), "", paths, texts)


def append_flat_leaves(flat: dict[str, Any], paths: list[str], texts: list[str]) -> bool:
    """The same from flat attributes whose dotted keys are the paths of their values (``Normal.flat``): only what is
    structured is walked.

    False, and nothing is appended, where a value holds no scalar: what that makes of the containers around it needs the walk.
    """
    scalar_texts = []
    structured = []
    for path, value in flat.items():
        kind = type(value)
        if kind is str:
            scalar_texts.append("s" + value)
        elif kind is int:
            scalar_texts.append(f"n{value}")
        elif kind is dict or kind is list:
            structured.append(path)
        elif value is None:
            return False
        else:
            scalar_texts.append(typed_text(value))
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
    below: tuple[list[str], list[str]] = ([], [])
    for path in structured:
        value = flat[path]
        members = value.items() if type(value) is dict else _elements(value)
        if not _append_members(members, path + ".", *below):
            return False
    paths.extend(below[0])
    texts.extend(below[1])
    return True


def append_ag_leaves(ag: dict[str, Any], paths: list[str], texts: list[str]) -> None:
    """The leaves of an ``ag`` in its canonical shape (``ingest/ag.py``): those of the walk, in seven eighths of its time.

    Kinds, numbers and messages, which are most of what it holds, have paths that need not be made anew.
    """
    for name, member in ag.items():
        if name == "type":
            for which, kind in member.items():
                paths.append(_TYPE_PATHS[which])
                texts.append("s" + kind)
        elif name == "metrics":
            _append_metrics(member, paths, texts)
        elif name == "data":
            for side, value in member.items():
                if side not in _MESSAGE_PATHS or not _append_chat(side, value, paths, texts):
                    _append_members(((side, value),), "ag.data.", paths, texts)
        else:
            _append_members(((name, member),), "ag.", paths, texts)


def _append_metrics(metrics: dict[str, dict[str, Any]], paths: list[str], texts: list[str]) -> None:
    for name, metric in metrics.items():
        if not metric:
            continue
        if name in _AMOUNT_PATHS:
            for which, amounts in metric.items():
                _append_named(amounts, _AMOUNT_PATHS[name][which], paths, texts)
        else:
            for which, number in metric.items():
                paths.append(_METRIC_PATHS[name][which])
                texts.append("n" + number_text(number))


def _append_chat(side: str, value: Any, paths: list[str], texts: list[str]) -> bool:
    """The leaves of inputs or outputs that are a few messages and nothing else; else nothing is appended, and false."""
    messages = value.get("messages") if type(value) is dict and len(value) == 1 else None
    if type(messages) is not list or len(messages) > len(_INDEXES) or not _DICTS.issuperset(map(type, messages)):
        return False
    holds_scalar = False
    for message, known in zip(messages, _MESSAGE_PATHS[side], strict=False):
        if _append_named(message, known, paths, texts):
            holds_scalar = True
    if not holds_scalar:
        paths.extend((f"ag.data.{side}.messages", f"ag.data.{side}"))
        texts.extend((EMPTY_ARRAY, EMPTY_OBJECT))
    return True


def _append_named(members: dict[str, Any], known: _Paths, paths: list[str], texts: list[str]) -> bool:
    """Append the leaves of an object whose members are mostly texts and numbers under ``known`` names.

    As the walk does, and true when one of them is a scalar.
    """
    holds_scalar = False
    for name, value in members.items():
        kind = type(value)
        if kind is str:
            holds_scalar = True
            paths.append(known[name])
            texts.append("s" + value)
        elif kind is int:
            holds_scalar = True
            paths.append(known[name])
            texts.append(f"n{value}")
        elif kind is float:
            holds_scalar = True
            paths.append(known[name])
            texts.append("n" + number_text(value))
        elif _append_members(((name, value),), known.prefix, paths, texts):
            holds_scalar = True
    if not holds_scalar and known.container not in ALWAYS_OBJECT_PATHS:
        paths.append(known.container)
        texts.append(EMPTY_OBJECT)
    return holds_scalar


def _append_members(members: Iterable[tuple[str, Any]], prefix: str, paths: list[str], texts: list[str]) -> bool:
    """Append the leaves of one container; true when one of them is a scalar. Once a span and container: flat on purpose."""
    holds_scalar = False
    for key, value in members:
        kind = type(value)
        path = prefix + key if "." not in key else prefix + key.replace(".", _DOT_IN_KEY)
        if kind is str:
            holds_scalar = True
            paths.append(path)
            texts.append("s" + value)
        elif kind is int:
            holds_scalar = True
            paths.append(path)
            texts.append(f"n{value}")
        elif kind is dict:
            if value and _append_members(value.items(), path + ".", paths, texts):
                holds_scalar = True
            elif path not in ALWAYS_OBJECT_PATHS:
                paths.append(path)
                texts.append(EMPTY_OBJECT)
        elif kind is list:
            if value and _append_members(_elements(value), path + ".", paths, texts):
                holds_scalar = True
            else:
                paths.append(path)
                texts.append(EMPTY_ARRAY)
        elif value is not None:
            holds_scalar = True
            paths.append(path)
            texts.append(typed_text(value))
    return holds_scalar


def _elements(array: list[Any]) -> Iterable[tuple[str, Any]]:
    return zip(_INDEXES if len(array) <= len(_INDEXES) else map(str, count()), array, strict=False)
