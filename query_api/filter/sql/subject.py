"""The operators in SQL: ``condition_sql`` asks the subject of a condition what its operator means there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, assert_never

from query_api.filter.ast import Condition, NotNormalError
from query_api.filter.fields import Operator
from query_api.filter.patterns import TextSearch

Bounds: TypeAlias = Sequence[tuple[str, Any]]
"""Comparison signs of the engine, each with a value; all must hold."""


class Subject:
    """What a condition looks at in a row of ``spans``: a column, or a value inside of one.

    Each method returns an expression that is 0 or 1 on every row, never null, so that ``NOT`` is exact. A subject
    overrides the methods of operators that can be true of it.
    """

    def exists(self) -> str:
        """Whether there is a value."""
        return "0"

    def equals(self, operand: Any) -> str:  # noqa: ARG002
        """Whether the value equals ``operand`` (``matches.same``)."""
        return "0"

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:  # noqa: ARG002
        """Whether the value is one of ``operands``, or is an array that holds one (``is_all``: each) of them."""
        return "0"

    def has(self, operand: Any) -> str:  # noqa: ARG002
        """Whether the value is an object with a key, or an array with an element."""
        return "0"

    def compares(self, bounds: Bounds) -> str:  # noqa: ARG002
        """Whether the value compares with every bound."""
        return "0"

    def reads(self, search: TextSearch) -> str:  # noqa: ARG002
        """Whether the text of the value is what a text operator looks for."""
        return "0"


def condition_sql(condition: Condition, subject: Subject) -> str:  # noqa: C901, PLR0912 - one case an operator
    """Return a condition on a subject as an expression that is 0 or 1."""
    operand: Any = condition.operand
    match condition.operator:
        case Operator.EXISTS:
            return subject.exists()
        case Operator.IS:
            return subject.equals(operand)
        case Operator.IN:
            return subject.is_in(operand, is_all=condition.is_all)
        case Operator.HAS:
            return subject.has(operand)
        case Operator.EQ:
            return subject.compares([("=", operand)])
        case Operator.NEQ:
            return subject.compares([("!=", operand)])
        case Operator.GT:
            return subject.compares([(">", operand)])
        case Operator.GTE:
            return subject.compares([(">=", operand)])
        case Operator.LT:
            return subject.compares([("<", operand)])
        case Operator.LTE:
            return subject.compares([("<=", operand)])
        case Operator.BTWN:
            return subject.compares([(">=", operand[0]), ("<=", operand[1])])
        case (
            Operator.CONTAINS | Operator.STARTSWITH | Operator.ENDSWITH | Operator.LIKE | Operator.MATCHES
        ) as operator:
            return subject.reads(TextSearch.of(operator, condition))
        case Operator.IS_NOT | Operator.NOT_IN | Operator.HAS_NOT | Operator.NOT_EXISTS:
            raise NotNormalError(condition)
        case _:
            assert_never(condition.operator)
