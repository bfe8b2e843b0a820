"""Conditions on ``ag.metrics.*.cumulative`` of roots, which responses show as sums over the trace (ADR 0005).

The sum of its trace decides for a root whose trace has one, the stored value for any other span. The verdicts on the
sums are one subquery over the versions of the whole project, so such a condition costs more than others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from common.span import AMOUNTS
from query_api.filter.language import Condition, Operator
from query_api.filter.sql.expressions import (
    IS_ROOT,
    DoubleValue,
    Parameters,
    Subject,
    condition_sql,
    let,
)
from query_api.filter.sql.json import json_condition

_SUMS: Final[Mapping[str, Mapping[tuple[str, ...], str]]] = {
    "tokens": {(amount,): f"tokens_{amount}" for amount in AMOUNTS},
    "costs": {(amount,): f"costs_{amount}" for amount in AMOUNTS},
    "errors": {(): "errors"},
}
"""Metric → the path of each sum below ``cumulative`` and its column in the query of sums; errors are a bare number."""

_ABOVE: Final = {("ag",), ("ag", "metrics"), *(("ag", "metrics", metric) for metric in _SUMS)}
"""Objects that every span has, and that hold a sum somewhere below."""


USAGE_PREFIX: Final = "usage_of_"
USAGE_OF: Final[Mapping[str, str]] = {metric: f"{USAGE_PREFIX}{metric}" for metric in _SUMS}
"""Metric → the name of the query of ``trace_id`` and its sums for each trace of the project. A statement whose filter
reads one of these defines it once (``query_api/spans/usage.py``)."""

USAGE_BYTES_MAX: Final = 15_500
"""Of such a query: what a condition that reads it counts as in the size of a statement."""


class VisibleSums(NamedTuple):
    """The sums that responses show at a path at or below ``cumulative`` of a root, and the rest of that path."""

    metric: str
    columns: Mapping[tuple[str, ...], str]
    below: tuple[str, ...]

    @classmethod
    def at(cls, path: tuple[str, ...]) -> VisibleSums | None:
        """Return the sums at a path in ``attributes``; ``None`` if it has none."""
        if path[:2] != ("ag", "metrics") or path[3:4] != ("cumulative",) or path[2] not in _SUMS:
            return None
        return cls(path[2], _SUMS[path[2]], path[4:])

    def are_visible(self) -> str:
        """Return whether responses show the sums of a trace and not the stored values: there are sums, all finite."""
        columns = self.columns.values()
        are_finite = [f"isFinite({column})" for column in columns]
        return " AND ".join([f"({' OR '.join(f'{column} != 0' for column in columns)})", *are_finite])


def ag_condition(condition: Condition, parameters: Parameters) -> str:
    """Return a condition on ``ag``, or a value in it, as an expression that is 0 or 1."""
    path = condition.path
    if path in _ABOVE and condition.operator is Operator.IS and isinstance(condition.operand, Mapping):
        members = [_member(path, key, value, parameters) for key, value in condition.operand.items()]
        return f"({' AND '.join(members)})" if members else "1"
    if path in _ABOVE and condition.operator is Operator.HAS:
        key = condition.operand
        return _has_member(path, key, parameters) if isinstance(key, str) else "0"
    stored, sums = json_condition(condition, parameters), VisibleSums.at(path)
    if sums is None:
        return stored
    verdict = _verdict(condition, sums, parameters)
    differs = f"SELECT trace_id, NOT ({verdict}) FROM {USAGE_OF[sums.metric]} WHERE {sums.are_visible()}"
    return let("stored", stored, f"stored != ({IS_ROOT} AND (trace_id, stored) IN ({differs}))")


def _member(path: tuple[str, ...], key: str, value: Any, parameters: Parameters) -> str:
    if value is None:
        return f"NOT {_has_member(path, key, parameters)}"
    return ag_condition(Condition("attributes", Operator.IS, value, (*path, key)), parameters)


def _has_member(path: tuple[str, ...], key: str, parameters: Parameters) -> str:
    return ag_condition(Condition("attributes", Operator.EXISTS, path=(*path, key)), parameters)


def _verdict(condition: Condition, sums: VisibleSums, parameters: Parameters) -> str:
    """The condition on what the sums make of ``cumulative``, as an expression over their columns."""
    column = sums.columns.get(sums.below)
    if column is not None:
        return f"{_is_visible(column)} AND {condition_sql(condition, DoubleValue(column, parameters))}"
    return "0" if sums.below else condition_sql(condition, _SumsObject(sums.columns, parameters))


def _is_visible(column: str) -> str:
    """Whether responses have the member: a sum of 0 was not reported."""
    return f"({column} != 0)"


@dataclass(frozen=True, slots=True)
class _SumsObject(Subject):
    """The object ``cumulative`` of tokens or costs."""

    columns: Mapping[tuple[str, ...], str]
    parameters: Parameters

    def exists(self) -> str:
        return "1"

    def equals(self, operand: Any) -> str:
        if not isinstance(operand, Mapping):
            return "0"
        clauses = ["1"]
        for key, value in operand.items():
            column = self.columns.get((key,))
            if column is None:
                clauses.append("1" if value is None else "0")
            elif value is None:
                clauses.append(f"NOT {_is_visible(column)}")
            else:
                clauses.append(f"{_is_visible(column)} AND {DoubleValue(column, self.parameters).equals(value)}")
        return " AND ".join(clauses)

    def has(self, operand: Any) -> str:
        column = self.columns.get((operand,)) if isinstance(operand, str) else None
        return "0" if column is None else _is_visible(column)
