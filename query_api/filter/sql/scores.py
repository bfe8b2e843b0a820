"""Scores of spans in SQL: maps from a name to the typed text of the newest score of that name.

``common/clickhouse/score_maps.py`` defines the maps. A name is one key of the map, whatever characters it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.clickhouse.leaves import typed_text
from common.clickhouse.score_maps import SCORE_LABELS, SCORE_VALUES
from query_api.filter.language import SCORES, Condition, ValuePlace
from query_api.filter.sql.expressions import Bounds, Parameters, Subject, condition_sql, ordered, typed_text_condition
from query_api.filter.text_search import TextSearch

_HAS_ANY: Final = f"notEmpty({SCORE_VALUES})"


def scores_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on scores as an expression that is 0 or 1; without a name, whether there is any score."""
    if not condition.path:
        return _HAS_ANY
    place = ValuePlace(SCORES, condition.path)
    return condition_sql(condition, _ScoreValue(typed_score(place, parameters), parameters))


def typed_score(place: ValuePlace, parameters: Parameters) -> str:
    """Return the typed text of the value of a score, or of its label if it has no value; ``''`` if there is none."""
    return _looked_up(SCORE_VALUES, place, parameters)


def typed_label(place: ValuePlace, parameters: Parameters) -> str:
    """Return the typed text of the label of a score, or of its value if it has no label; ``''`` if there is none."""
    return _looked_up(SCORE_LABELS, place, parameters)


def _looked_up(column: str, place: ValuePlace, parameters: Parameters) -> str:
    [name] = place.path
    return f"{column}[{parameters.text(name)}]"


@dataclass(frozen=True, slots=True)
class _ScoreValue(Subject):
    """A scalar; ``typed`` is its typed text."""

    typed: str
    parameters: Parameters

    def exists(self) -> str:
        return f"({self.typed} != '')"

    def equals(self, operand: Any) -> str:
        if isinstance(operand, Mapping | list):
            return "0"
        return f"({self.typed} = {self.parameters.text(typed_text(operand))})"

    def is_in(self, operands: list[Any], *, is_all: bool) -> str:
        wanted = list(dict.fromkeys(map(typed_text, operands)))
        if not wanted or (is_all and len(wanted) > 1):
            return "0"  # no scalar equals two values at once
        return f"has({self.parameters.texts(wanted)}, {self.typed})"

    def compares(self, bounds: Bounds) -> str:
        return ordered(self.typed, bounds, self.parameters)

    def reads(self, search: TextSearch) -> str:
        return typed_text_condition(self.typed, search, self.parameters)
