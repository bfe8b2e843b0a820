"""Conditions on ``ag.metrics.*.cumulative`` of roots, which responses show as sums over the trace (ADR 0005).

The sum of its trace decides for a root whose trace has one, the stored value for any other span. The verdicts on the sums are one
subquery over the versions of the whole project, so such a condition costs more than others. It is written twice with the same
text: the engine runs it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from common.span import AMOUNTS
from query_api.filter.ast import Condition, Operator
from query_api.filter.patterns import TEXT_OPERATORS
from query_api.filter.sql.columns import IS_ROOT, JsonColumn
from query_api.filter.sql.json_conditions import json_condition
from query_api.filter.sql.parameters import Parameters
from query_api.filter.sql.text_conditions import text_condition
from query_api.filter.sql.typed_text import SIGNS, shown_number
from query_api.filter.values import is_number

_SUMS: Final[Mapping[str, Mapping[str, str]]] = {
    "tokens": {amount: f"tokens_{amount}" for amount in AMOUNTS},
    "costs": {amount: f"costs_{amount}" for amount in AMOUNTS},
    "errors": {"": "errors"},
}
"""Metric → its amounts and where ``span_versions`` has them; errors are a bare number."""

_ABOVE: Final = {("ag",), ("ag", "metrics"), *(("ag", "metrics", metric) for metric in _SUMS)}
"""Objects that every span has, and that hold a sum somewhere beneath."""


def attributes_condition(condition: Condition, column: JsonColumn, parameters: Parameters) -> str:
    """A condition on ``attributes`` as an expression that is 0 or 1."""
    path = condition.path
    if path in _ABOVE and condition.operator is Operator.IS and isinstance(condition.operand, Mapping):
        members = [_member(path, key, value, column, parameters) for key, value in condition.operand.items()]
        return f"({' AND '.join(members)})" if members else "1"
    if path in _ABOVE and condition.operator is Operator.HAS:
        key = condition.operand
        return _has_member(path, key, column, parameters) if isinstance(key, str) else "0"
    stored = json_condition(condition, column, parameters)
    if path[:2] != ("ag", "metrics") or path[3:4] != ("cumulative",) or path[2] not in _SUMS:
        return stored
    amounts = _SUMS[path[2]]
    is_returned = f"({' OR '.join(f'{sum_} != 0' for sum_ in amounts.values())})" + "".join(
        f" AND isFinite({sum_})" for sum_ in amounts.values()
    )
    verdict = _verdict(condition, amounts, parameters)
    traces = f"(SELECT trace_id, {verdict} FROM ({usage_of(path[2])}) WHERE {is_returned})"
    passes, fails = (f"{IS_ROOT} AND (trace_id, {value}) IN {traces}" for value in (1, 0))
    return f"({passes} OR NOT ({fails}) AND {stored})"


def usage_of(metric: str) -> str:
    """Return the placeholder of a query of ``trace_id`` and the sums of a metric for each trace of the project.

    ``query_api/spans/project_spans.py`` fills it. Placeholders keep the compiled filter short.
    """
    return f"{{usage_of_{metric}}}"


def _member(path: tuple[str, ...], key: str, value: Any, column: JsonColumn, parameters: Parameters) -> str:
    if value is None:
        return f"NOT {_has_member(path, key, column, parameters)}"
    return attributes_condition(Condition("attributes", Operator.IS, value, (*path, key)), column, parameters)


def _has_member(path: tuple[str, ...], key: str, column: JsonColumn, parameters: Parameters) -> str:
    return attributes_condition(Condition("attributes", Operator.EXISTS, path=(*path, key)), column, parameters)


def _verdict(condition: Condition, amounts: Mapping[str, str], parameters: Parameters) -> str:
    """The condition on what the sums make of ``cumulative``, as an expression over their columns."""
    below = condition.path[4:]
    if not below and "" not in amounts:
        return _object_verdict(condition, amounts, parameters)
    amount = amounts.get(".".join(below)) if len(below) <= 1 else None
    if amount is None or below == ("",):
        return "0"
    return f"{_is_shown(amount)} AND {_number_verdict(condition, amount, parameters)}"


def _is_shown(amount: str) -> str:
    """Whether answers have the member: not where nobody reported it."""
    return f"({amount} != 0)"


def _object_verdict(condition: Condition, amounts: Mapping[str, str], parameters: Parameters) -> str:
    if condition.operator is Operator.EXISTS:
        return "1"
    if condition.operator is Operator.HAS:
        amount = amounts.get(condition.operand) if isinstance(condition.operand, str) else None
        return "0" if amount is None else _is_shown(amount)
    if condition.operator is not Operator.IS or not isinstance(condition.operand, Mapping):
        return "0"
    clauses = ["1"]
    for key, value in condition.operand.items():
        if key not in amounts:
            clauses.append("1" if value is None else "0")
        elif value is None:
            clauses.append(f"NOT {_is_shown(amounts[key])}")
        else:
            clauses.append(f"{_is_shown(amounts[key])} AND {_equals(amounts[key], value, parameters)}")
    return " AND ".join(clauses)


def _number_verdict(condition: Condition, amount: str, parameters: Parameters) -> str:
    operand: Any = condition.operand
    match condition.operator:
        case Operator.EXISTS:
            return "1"
        case Operator.IS:
            return _equals(amount, operand, parameters)
        case Operator.IN:
            return _is_in(amount, operand, parameters, is_all=condition.is_all)
        case Operator.BTWN:
            low = _ordered(amount, ">=", operand[0], parameters)
            return f"{low} AND {_ordered(amount, '<=', operand[1], parameters)}"
        case Operator.HAS:
            return "0"
        case name if name in TEXT_OPERATORS:
            return text_condition(_shown_sum(amount), condition, parameters)
        case order:
            return _ordered(amount, SIGNS[order], operand, parameters)


def _shown_sum(amount: str) -> str:
    """A sum as answers show it: digits where it is an integer of 64 bits (``rollup.py``)."""
    is_integer = f"{amount} = trunc({amount}) AND {amount} >= -pow(2., 63) AND {amount} < pow(2., 64)"
    return f"if({is_integer}, toString(toInt128({amount})), {shown_number(f'toString({amount})')})"


def _is_in(amount: str, operands: list[Any], parameters: Parameters, *, is_all: bool) -> str:
    numbers = [float(value) for value in operands if is_number(value) and float(value) == value]
    if not numbers or (is_all and (len(numbers) < len(operands) or len(set(numbers)) > 1)):
        return "0"
    return f"has({parameters.place('Array(Float64)', numbers)}, {amount})"


def _equals(amount: str, value: Any, parameters: Parameters) -> str:
    return _ordered(amount, "=", value, parameters)


def _ordered(amount: str, sign: str, value: Any, parameters: Parameters) -> str:
    if not is_number(value):
        return "0"
    return f"{amount} {sign} {parameters.place('Int128' if isinstance(value, int) else 'Float64', value)}"
