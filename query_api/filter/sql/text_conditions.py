"""Text operators as SQL, over an expression that is a text on every row: 0 or 1, never null.

The meaning is that of ``query_api/filter/patterns.py``. A literal with its case is searched for as it is; without, by RE2, which is
ten times as fast as folding the text, but for a long literal: a text that nearly matches costs RE2 the product of both lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from query_api.filter.ast import Condition, Operator
from query_api.filter.folding import FOLDING, fold
from query_api.filter.patterns import pattern_of, text_holds
from query_api.filter.sql.parameters import Parameters

_BOOLEANS: Final = {"b1": "true", "b0": "false"}
LITERAL_PATTERN_MAX: Final = 64
"""Code points of a literal that is searched for by RE2."""

_LITERALS: Final[Mapping[Operator, Callable[[str, str], str]]] = {
    Operator.CONTAINS: lambda text, place: f"(position({text}, {place}) > 0)",
    Operator.STARTSWITH: lambda text, place: f"startsWith({text}, {place})",
    Operator.ENDSWITH: lambda text, place: f"endsWith({text}, {place})",
}


def text_condition(text: str, condition: Condition, parameters: Parameters) -> str:
    """``text``, an expression, under a text operator."""
    finds, literal = _LITERALS.get(condition.operator), str(condition.operand)
    if finds is None or (not condition.is_case_sensitive and len(literal) <= LITERAL_PATTERN_MAX):
        return f"match({text}, {parameters.text(pattern_of(condition))})"
    if not condition.is_case_sensitive:
        text, literal = _folded(text, parameters), fold(literal)
    place = parameters.text(literal)
    return f"({text} = {place})" if condition.is_exact else finds(text, place)


def _folded(text: str, parameters: Parameters) -> str:
    capitals, small = (parameters.text("".join(map(chr, codes))) for codes in (FOLDING.keys(), FOLDING.values()))
    return f"translateUTF8(lower({text}), {capitals}, {small})"


def typed_text_condition(typed: str, condition: Condition, parameters: Parameters) -> str:
    """The scalar of a typed text under a text operator; false of what is absent, an object or an array."""
    found = text_condition(f"substring({typed}, 2)", condition, parameters)
    clauses = [f"((startsWith({typed}, 's') OR startsWith({typed}, 'n')) AND {found})"]
    clauses += [f"{typed} = '{letter}'" for letter, word in _BOOLEANS.items() if text_holds(condition, word)]
    return f"({' OR '.join(clauses)})"
