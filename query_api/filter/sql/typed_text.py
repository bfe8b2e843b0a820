"""Comparisons of a *typed text* in SQL: a scalar's type in one letter, then its value (``common/clickhouse/leaves.py``).

Every expression here is 0 or 1 on every row, never null: ``''`` is the typed text of what is absent, and no comparison is
true of it. Says in SQL what ``query_api/filter/values.py`` says in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from common.json_numbers import INT64_MIN, UINT64_MAX
from query_api.filter.ast import Operator
from query_api.filter.sql.parameters import Parameters
from query_api.filter.values import INTEGER_CHARS_MAX, JSON_NUMBER

SIGNS: Final[Mapping[Operator, str]] = {
    Operator.EQ: "=",
    Operator.NEQ: "!=",
    Operator.GT: ">",
    Operator.GTE: ">=",
    Operator.LT: "<",
    Operator.LTE: "<=",
}


def ordered(typed: str, order: Operator, operand: Any, parameters: Parameters) -> str:
    """``typed`` compared by a numeric operator; ``btwn`` is not below the first of ``operand`` and not above the second."""
    bounds: list[tuple[str, Any]] = (
        [(">=", operand[0]), ("<=", operand[1])] if order is Operator.BTWN else [(SIGNS[order], operand)]
    )
    if isinstance(bounds[0][1], str):
        compared = " AND ".join(f"{typed} {sign} {parameters.text('s' + bound)}" for sign, bound in bounds)
        return f"(startsWith({typed}, 's') AND {compared})"
    places = [
        (sign, parameters.place("Int128" if isinstance(bound, int) else "Float64", bound)) for sign, bound in bounds
    ]
    return _number_ordered(typed, places)


def _number_ordered(typed: str, bounds: Sequence[tuple[str, str]]) -> str:
    """The engine compares integers with doubles exactly; texts are made the one or the other as JSON reads them."""
    text = f"substring({typed}, 2)"
    is_number = f"match({typed}, '^(?:n|s{JSON_NUMBER}$)')"
    integer = f"toInt128OrZero({text})"
    is_integer = (
        f"length({typed}) <= {INTEGER_CHARS_MAX + 1} AND match({typed}, '^.-?[0-9]+$')"
        f" AND {integer} BETWEEN {INT64_MIN} AND {UINT64_MAX}"
    )
    of_integer, of_double = (
        " AND ".join(f"{number} {sign} {place}" for sign, place in bounds)
        for number in (integer, f"toFloat64OrZero({text})")
    )
    return f"multiIf(NOT {is_number}, 0, {is_integer}, {of_integer}, {of_double})"


def of_json(raw: str) -> str:
    """The typed text of a scalar given as JSON text; ``''`` for what is null, no scalar, or no JSON.

    A double is written as the engine writes it: compare it with what went through the engine too.
    """
    return (
        f"multiIf(startsWith({raw}, '\"'), concat('s', JSONExtractString({raw})), "
        f"{raw} = 'true', 'b1', {raw} = 'false', 'b0', "
        f"match({raw}, '^[-0-9]'), concat('n', {raw}), '')"
    )


def shown(typed: str) -> str:
    """A typed text of ``of_json`` as answers show it: the engine writes some doubles otherwise than JSON in answers."""
    return f"if(startsWith({typed}, 'n'), concat('n', {shown_number(f'substring({typed}, 2)')}), {typed})"


def shown_number(text: str) -> str:
    """A number that the engine has written, in the one text of it that answers show (``leaves.number_text``).

    They differ where the engine has digits and answers an exponent, from 2^64 to 1e21 and from 1e-6 to 1e-5; and answers write
    a sign with every exponent.
    """
    for pattern, replacement in _SCIENTIFIC:
        text = f"replaceRegexpOne({text}, '{pattern}', '{replacement}')"
    is_short = "NOT match(number, '^-?[0-9]{19}')"
    in_64_bits = f"toInt128OrZero(number) BETWEEN {INT64_MIN} AND {UINT64_MAX}"
    mantissa = r"replaceRegexpOne(replaceRegexpOne(number, '0+$', ''), '^(-?[0-9])([0-9])', '\\1.\\2')"
    exponent = "toString(length(replaceOne(number, '-', '')) - 1)"
    return let("number", text, f"if({is_short} OR {in_64_bits}, number, concat({mantissa}, 'e+', {exponent}))")


_SCIENTIFIC: Final = (
    ("e([0-9])", r"e+\\1"),
    ("^(-?)0[.]00000([0-9])", r"\\1\\2.e-6 "),
    ("[.]e-6 ([0-9]+)$", r".\\1e-6"),
    ("[.]e-6 $", "e-6"),
)
"""Patterns of a number as the engine writes it, and what answers have in their place, one after the other."""


def let(name: str, value: str, body: str) -> str:
    """``body`` with ``value`` under a name: written once, however often it is used. The engine has no other way for it."""
    return f"arrayMap({name} -> {body}, [{value}])[1]"
