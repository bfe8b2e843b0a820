"""Conditions on shorthands: ``service``, ``model``, ``duration`` and others (``language.SHORTHANDS``).

A shorthand compiles to the conditions on the places of its value, so that it uses their columns and indexes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from query_api.filter.language import SHORTHANDS, Condition, ValuePlace
from query_api.filter.sql.expressions import DoubleValue, Parameters, condition_sql
from query_api.filter.sql.json import json_condition

DURATION_MS: Final = "((end_us - start_us) / 1000)"
"""The shorthand ``duration``: a double, never null."""


def shorthand_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on a shorthand as an expression that is 0 or 1."""
    places = SHORTHANDS[condition.field]
    if not places:
        return condition_sql(condition, DoubleValue(DURATION_MS, parameters))
    *preferred, last = places
    found = _at(last, condition, parameters)
    for place in reversed(preferred):
        leaf = f"leaves[{parameters.text('.'.join(place.path))}]"
        here = _at(place, condition, parameters)
        found = f"({leaf} != '' AND {here} OR {leaf} = '' AND {found})"
    return found


def _at(place: ValuePlace, condition: Condition, parameters: Parameters) -> str:
    """The same condition on the value at a place."""
    return json_condition(replace(condition, field=place.field, path=place.path), parameters)
