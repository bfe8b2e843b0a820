"""A filter as a tree: ``parse`` builds it; ``matches`` and the SQL compiler interpret it.

The tree is in normal form, so that the interpreters stay small: ``is_not``, ``not_in``, ``has_not`` and ``not_exists``
are a ``not`` around the operator that they negate (contract §3.2: exact complements), ``is null`` is ``not exists``,
``has`` on a field of elements is ``in``, and operands are in the form in which the field is compared (``operands.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

import orjson

from query_api.filter.fields import Operator

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")

Operand: TypeAlias = str | int | float | bool | Mapping[str, Any] | Sequence[Any] | None


class GroupOperator(StrEnum):
    """Boolean functions of any number of members; a group without members is true under each of them."""

    AND = "and"
    OR = "or"
    NOT = "not"
    NAND = "nand"
    NOR = "nor"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on one field; ``operator`` is never a negation.

    ``path`` are the segments of ``key`` on a field that holds JSON, else empty. ``operand`` is a list for ``btwn`` (two
    values) and ``in`` (on a field of elements: a list of partial elements), a text for a text operator, ``None`` for
    ``exists``. With ``is_all``, ``in`` asks for every value of its list. Only text operators read
    ``is_case_sensitive`` and ``is_exact`` (``patterns.py``).
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
    """Members combined by one Boolean function."""

    operator: GroupOperator
    members: tuple[Node, ...] = ()


Node: TypeAlias = Condition | Group

EVERYTHING = Group(GroupOperator.AND)
"""The filter without conditions."""


class NotNormalError(TypeError):
    """A condition has a negated operator, or an operator that its field does not take: ``parse`` makes neither."""

    def __init__(self, condition: Condition) -> None:
        super().__init__(f"not in normal form: {condition.field} {condition.operator}")


def is_index(segment: str) -> bool:
    """Return whether a segment of a path can be an index: at most nine decimal digits, without a leading zero."""
    return _INDEX.fullmatch(segment) is not None


def canonical_text(node: Node) -> bytes:
    """Return one text per tree; the order of members in JSON objects has no effect. Cursors are bound to it."""
    return orjson.dumps(node, option=orjson.OPT_SORT_KEYS)
