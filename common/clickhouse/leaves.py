"""What filters look at: the leaves of a span's nested attributes, each a dotted path and a typed text.

This is the definition of the column ``leaves`` of table ``spans`` (``ddl/0001_spans.sql``). It is pure, and both
processes obey it: the worker writes leaves, the compiler of filters asks for them by path.

- A scalar that is not null is a leaf. Its text is ``s`` and the text, ``n`` and the number, ``b1`` or ``b0``.
- An object or array without such a scalar anywhere beneath is a leaf too, so that ``exists`` can see it: ``o``, ``a``.
  The objects that the normalisation puts into every span (``ALWAYS_OBJECT_PATHS``) are left out: nothing is learned
  from them, and they would cost five map entries a span.
- A null is no leaf: absent and null are the same thing (contract §3.2). Absent is ``''`` in SQL, which no leaf is.
- Segments of a path are joined by dots; an array's are its indexes, in decimal. A dot inside a key of a nested object
  is stored as U+0000, which no key can hold (spans with one are refused): a path from a filter cannot reach it, and no
  two leaves share a path.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_INT_MIN, _INT_END = -(2.0**63), 2.0**64  # what JSON integers of ours may be: int64 and uint64


def number_text(value: float) -> str:
    """The one text of a number, as JSON shows it: two numbers have the same text exactly when they are equal.

    Integers, and doubles that are integers inside 64 bits, are decimal digits (``5.0`` is ``5``, ``-0.0`` is ``0``);
    other doubles are the shortest decimal that reads back as the same double (``0.1``, ``1e22``, ``1e-7``).
    """
    if isinstance(value, int):
        return str(value)
    if value.is_integer() and _INT_MIN <= value < _INT_END:
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

    In the order of the document, an empty container after what it holds. Takes any depth: no recursion.
    """
    outer: list[tuple[Iterator[tuple[str, Any]], str, bool]] = []
    members: Iterator[tuple[str, Any]] = iter(attributes.items())
    prefix, path, closing, holds_scalar = "", "", "", False
    while True:
        for key, value in members:
            kind = type(value)
            if value is None:
                continue
            path = prefix + (key.replace(".", _DOT_IN_KEY) if "." in key else key)
            if kind is str:
                text = "s" + value
            elif kind is int:
                text = f"n{value}"
            elif kind is dict or kind is list:
                break
            else:
                text = typed_text(value)
            paths.append(path)
            texts.append(text)
            holds_scalar = True
        else:
            pass
        break
