"""What a filter means, in plain Python: ``matches(node, span)`` over a span as answers show it (contract §3.2).

The compiler to SQL (``query_api/filter/sql/compile.py``) says the same to the engine; ``tests/contract/test_filter_agreement.py``
holds the two together. Total and two-valued: every condition is true or false on every span, nothing raises.

A span id is seen as answers show it, eight bytes: one that was sent with 128 bits and unequal halves (reference §2.1)
is found by the engine under its whole id alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, assert_never

from common.times import parse_time_ns
from query_api.filter.ast import Condition, Group, GroupOperator, Node, Operator
from query_api.filter.elements import element_matches
from query_api.filter.fields import FIELDS, Kind
from query_api.filter.patterns import TEXT_OPERATORS, text_holds, text_of
from query_api.filter.values import number_of, same, value_at
from query_api.filter.words import Content, content_matches, parse_content

_CONTENTS_MAX: Final = 1_024


def matches(node: Node, span: Mapping[str, Any]) -> bool:
    """Whether a span, an object of ``spans`` in an answer, is let through."""
    if isinstance(node, Condition):
        return _condition_matches(node, span)
    if not node.members:
        return True
    verdicts = (matches(member, span) for member in node.members)
    return combine(node, verdicts)


def _condition_matches(condition: Condition, span: Mapping[str, Any]) -> bool:
    kind = FIELDS[condition.field].kind
    if kind is Kind.CONTENT:
        return content_matches(_content(condition.operand), span)
    value = span.get(condition.field)
    if value is None:
        return False
    if kind is Kind.ELEMENTS:
        return _elements_match(condition, value)
    return holds(condition, _compared(condition, value))


def holds(condition: Condition, value: Any) -> bool:
    """Whether a condition is true of the value that its field and path lead to; ``None``: there is none."""
    if value is None:
        return False
    match condition.operator:
        case Operator.EXISTS:
            return True
        case Operator.IS:
            return same(value, condition.operand)
        case Operator.IN:
            return _is_in(value, _list(condition), is_all=condition.is_all)
        case Operator.HAS:
            return _has(value, condition.operand)
        case Operator.BTWN:
            low, high = _list(condition)
            return _compares(operator.ge, value, low) and _compares(operator.le, value, high)
        case name if name in TEXT_OPERATORS:
            text = text_of(value)
            return text is not None and text_holds(condition, text)
        case order:
            return _compares(_ORDERS[order], value, condition.operand)


def combine(group: Group, verdicts: Any) -> bool:
    """The verdict of a group with members on those of its members."""
    match group.operator:
        case GroupOperator.AND:
            return all(verdicts)
        case GroupOperator.OR:
            return any(verdicts)
        case GroupOperator.NOT | GroupOperator.NAND:
            return not all(verdicts)
        case GroupOperator.NOR:
            return not any(verdicts)
        case _:
            assert_never(group.operator)


_ORDERS: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQ: operator.eq,
    Operator.NEQ: operator.ne,
    Operator.GT: operator.gt,
    Operator.GTE: operator.ge,
    Operator.LT: operator.lt,
    Operator.LTE: operator.le,
}


def _compared(condition: Condition, value: Any) -> Any:
    """A field's value in the form in which the condition compares it."""
    match FIELDS[condition.field].kind:
        case Kind.JSON:
            return value_at(value, condition.path)
        case Kind.SPAN_ID:
            return value + value
        case Kind.TIME if condition.operator not in TEXT_OPERATORS:
            return parse_time_ns(value) // 1000
        case _:
            return value


def _elements_match(condition: Condition, elements: list[Any]) -> bool:
    """``in`` is true when some element matches one (``all``: each) of the partial ones; an empty array is absent."""
    if condition.operator is Operator.EXISTS:
        return bool(elements)
    partials = _list(condition)
    found = (any(element_matches(element, partial) for element in elements) for partial in partials)
    return bool(partials) and (all(found) if condition.is_all else any(found))


@lru_cache(_CONTENTS_MAX)
def _content(text: str) -> Content:
    return parse_content(text)


def _list(condition: Condition) -> list[Any]:
    operand = condition.operand
    if not isinstance(operand, list):
        raise TypeError(f"'{condition.operator}' takes a list")  # parse makes no other
    return operand


def _is_in(value: Any, wanted: list[Any], *, is_all: bool) -> bool:
    if not wanted:
        return False
    held = value if isinstance(value, list) else [value]
    found = (any(same(each, one) for each in held) for one in wanted)
    return all(found) if is_all else any(found)


def _has(value: Any, wanted: Any) -> bool:
    """An object has a key, an array has an element."""
    if isinstance(value, dict):
        return isinstance(wanted, str) and value.get(wanted) is not None
    return isinstance(value, list) and any(same(element, wanted) for element in value)


def _compares(order: Callable[[Any, Any], bool], value: Any, operand: Any) -> bool:
    """Texts by the order of their bytes in UTF-8, which is the order of their code points; numbers exactly."""
    if isinstance(operand, str):
        return isinstance(value, str) and order(value, operand)
    number = number_of(value)
    return number is not None and order(number, operand)
