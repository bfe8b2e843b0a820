"""A filter as a tree: what ``parse`` makes, and what ``matches`` and the compiler to SQL read.

NormalizedSpan form, so that both readers have little to say: ``is_not``, ``not_in``, ``has_not`` and ``not_exists`` are a ``not``
around their positive condition (contract §3.2: exact complements), ``is null`` is ``not exists``, ``has`` on a field of
elements is ``in``, and operands are already in the form in which a field is compared (``parse.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import orjson


class GroupOperator(StrEnum):
    """Ordinary Boolean functions of any number of members; a group without members is true, whatever it is."""

    AND = "and"
    OR = "or"
    NOT = "not"
    NAND = "nand"
    NOR = "nor"


class Operator(StrEnum):
    """What a condition of the normal form asks."""

    IS = "is"
    EQ = "eq"
    NEQ = "neq"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    BTWN = "btwn"
    STARTSWITH = "startswith"
    ENDSWITH = "endswith"
    CONTAINS = "contains"
    MATCHES = "matches"
    LIKE = "like"
    IN = "in"
    HAS = "has"
    EXISTS = "exists"


Operand: TypeAlias = str | int | float | bool | Mapping[str, Any] | Sequence[Any] | None


@dataclass(frozen=True, slots=True)
class Condition:
    """One question about one field.

    ``path`` are the segments of ``key`` on a field that holds JSON, else empty. ``operand`` is a list under ``btwn`` (two
    values) and ``in`` (on a field of elements: of objects, see ``elements.py``), a text under a text operator, ``None`` under
    ``exists``. With ``is_all``, ``in`` asks for every value of its list. ``is_case_sensitive`` and ``is_exact`` are read by
    text operators alone (``patterns.py``).
    """

    field: str
    operator: Operator
    operand: Operand = None
    path: tuple[str, ...] = ()
    is_all: bool = False
    is_case_sensitive: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Members under one Boolean function."""

    operator: GroupOperator
    members: tuple[Node, ...] = ()


Node: TypeAlias = Condition | Group

EVERYTHING = Group(GroupOperator.AND)
"""The filter without conditions."""


def canonical_text(node: Node) -> bytes:
    """One text for one tree, whatever the order of members in its JSON objects: what a cursor is bound to."""
    return orjson.dumps(node, option=orjson.OPT_SORT_KEYS)
