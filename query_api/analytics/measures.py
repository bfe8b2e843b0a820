"""Measures of groups: what a request computes of spans, checked and turned into SQL (contract §3.5).

A measure is computed in two steps: *partials* over the spans of a cell (a group, or one bucket of it), and its
statistics from the partials of one or many cells. So a statistic over many groups is one over their spans, exactly:
medians and counts of different values keep what they have seen in a state of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from common.codec.checks import json_double
from common.errors import InvalidInput
from common.span import StatusCode
from common.times import format_us
from common.usage import amount_sql, dollars_sql, rounded, units_sql
from query_api.analytics.groups_models import COUNT, ERRORS, Aggregate, FieldAndKey
from query_api.filter.language import FIELDS, Kind, ValuePlace, is_sum
from query_api.filter.parse import parse_place
from query_api.filter.sql.expressions import IS_ROOT, Parameters
from query_api.filter.sql.sums import VisibleSums
from query_api.filter.sql.values import group_value, value_of

PERCENTILES: Final[Mapping[Aggregate, float]] = {
    Aggregate.P50: 0.5,
    Aggregate.P90: 0.9,
    Aggregate.P95: 0.95,
    Aggregate.P99: 0.99,
}
USAGE: Final[Mapping[str, str]] = {"tokens": "tokens", "cost": "costs"}
"""Shorthands whose reports count once (ADR 0010), and their names in columns."""

_NUMBERS: Final = frozenset({"duration", *USAGE})
_ARE_ERRORS: Final = f"status_code = {StatusCode.STATUS_CODE_ERROR.value}"
_IN_TIMES: Final = (Aggregate.MIN, Aggregate.MAX, Aggregate.UNIQ)
_IN_OTHERS: Final = (Aggregate.UNIQ,)


class MeasureKind(Enum):
    """What the values of a measure are."""

    COUNT = auto()
    """The spans themselves."""

    ERRORS = auto()
    NUMBER = auto()
    TIME = auto()
    OTHER = auto()


_ALLOWED: Final[Mapping[MeasureKind, Sequence[Aggregate]]] = {
    MeasureKind.COUNT: (),
    MeasureKind.ERRORS: (),
    MeasureKind.NUMBER: tuple(Aggregate),
    MeasureKind.TIME: _IN_TIMES,
    MeasureKind.OTHER: _IN_OTHERS,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The values that a measure looks at. ``place`` is ``None`` for ``count`` and ``errors``."""

    kind: MeasureKind
    name: FieldAndKey
    place: ValuePlace | None = None

    @classmethod
    def count(cls) -> Measured:
        """Return the measure ``count``."""
        return cls(MeasureKind.COUNT, FieldAndKey(field=COUNT))

    def check(self, statistics: Sequence[Aggregate], at: str) -> None:
        """Raise ``InvalidInput`` unless these statistics can be computed. ``at`` is the path of the measure."""
        allowed = _ALLOWED[self.kind]
        shown = self.name.key or self.name.field
        if not allowed:
            if statistics:
                raise InvalidInput(f"{at}.as: '{shown}' is a number by itself and has no statistics; leave it out.")
            return
        names = ", ".join(allowed)
        if not statistics:
            raise InvalidInput(f"{at}.as: '{shown}' needs at least one statistic; allowed: {names}.")
        for statistic in statistics:
            if statistic not in allowed:
                raise InvalidInput(f"{at}.as: '{shown}' has no '{statistic}'; allowed: {names}.")


def measured(name: FieldAndKey, at: str) -> Measured:
    """Return the values that a name of a request stands for. Raises ``InvalidFilter``."""
    if name.key is None and name.field in (COUNT, ERRORS):
        return Measured(MeasureKind.COUNT if name.field == COUNT else MeasureKind.ERRORS, name)
    place = parse_place(name.field, name.key, path=at, allows_sums=True)
    kind = FIELDS[place.field].kind
    if kind in (Kind.JSON, Kind.SCORES) or place.field in _NUMBERS:
        return Measured(MeasureKind.NUMBER, name, place)
    return Measured(MeasureKind.TIME if kind is Kind.TIME else MeasureKind.OTHER, name, place)


def names_of(names: Sequence[FieldAndKey]) -> list[str]:
    """Return the member of a response for each name: its key or field, or both if others would have the same."""
    short = [name.key or name.field for name in names]
    long = [name.field if name.key is None else f"{name.field}.{name.key}" for name in names]
    chosen = [long[i] if short.count(text) > 1 else text for i, text in enumerate(short)]
    return chosen if len(set(chosen)) == len(chosen) else long


class MeasureColumns:
    """The columns of a span that measures read, the partials over the spans of a cell, and statistics from these.

    Every column and partial has one name, however many measures need it.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.stored: dict[str, str] = {}
        """Name → expression over a row of ``spans``."""

        self.visible: dict[str, str] = {}
        """Name → expression over ``stored`` and the counted totals of ``visible_spans``."""

        self.partials: dict[str, str] = {"spans_count": "count()"}
        """Name → aggregate over the visible spans of a cell."""

        self.counted_units: set[str] = set()
        """Units of usage whose reports count once: ``tokens``, ``costs``."""

        self.needs_sums = False
        """Whether ``visible`` reads the sums over the whole traces of the spans."""

    def group(self, place: ValuePlace) -> str:
        """Return the column of the typed text by which spans are grouped (``query_api/filter/sql/values.py``)."""
        return self._pass_on(group_value(place, self._parameters), "typed")

    def statistic(self, values: Measured, statistic: Aggregate | None) -> Callable[[Merge], str]:
        """Return a function from the merge of partials to the expression of a statistic, ``None`` for a count."""
        match values.kind, statistic:
            case MeasureKind.COUNT, _:
                return lambda merge: merge("sum", "spans_count")
            case MeasureKind.ERRORS, _:
                errors = self._partial(f"countIf({self._pass_on(_ARE_ERRORS, 'is_error')})")
                return lambda merge: merge("sum", errors)
            case _, Aggregate.UNIQ if self._place(values).field not in USAGE and not is_sum(self._place(values)):
                return self._different(self._place(values))
            case _:
                assert statistic is not None  # noqa: S101 - only a count has none
                place = self._place(values)
                return self._of_numbers(self._number(place), statistic, is_cost=place.is_cost)

    def _of_numbers(self, number: str, statistic: Aggregate, *, is_cost: bool) -> Callable[[Merge], str]:
        if statistic in PERCENTILES:
            index = list(PERCENTILES).index(statistic) + 1
            levels = ", ".join(map(str, PERCENTILES.values()))
            state = self._partial(f"quantilesExactInclusiveState({levels})({number})")
            return lambda merge: f"{merge(f'quantilesExactInclusiveMerge({levels})', state)}[{index}]"
        if statistic is Aggregate.SUM:
            return self._total(number, is_cost=is_cost)
        if statistic is Aggregate.AVG:
            total, count = self._total(number, is_cost=is_cost), self._partial(f"count({number})")
            return lambda merge: f"({total(merge)} / {merge('sum', count)})"
        if statistic is Aggregate.UNIQ:
            state = self._partial(f"uniqExactState({number})")
            return lambda merge: merge("uniqExactMerge", state)
        partial = self._partial(f"{statistic}({number})")
        return lambda merge: merge(str(statistic), partial)

    def _total(self, number: str, *, is_cost: bool) -> Callable[[Merge], str]:
        if not is_cost:
            total = self._partial(f"sum({number})")
            return lambda merge: merge("sum", total)
        in_units = self._partial(f"sum({units_sql(number)})")
        return lambda merge: dollars_sql(merge("sum", in_units))

    def _different(self, place: ValuePlace) -> Callable[[Merge], str]:
        """Count hashes of 64 bits: two of ten million values have the same one with odds of 1 : 400,000."""
        typed = self._pass_on(value_of(place, self._parameters).typed, "typed")
        state = self._partial(f"uniqExactIfState(sipHash64({typed}), {typed} != '')")
        return lambda merge: merge("uniqExactIfMerge", state)

    def _number(self, place: ValuePlace) -> str:
        if place.field in USAGE:
            return self._used(USAGE[place.field])
        number = value_of(place, self._parameters).number
        stored = amount_sql(number) if place.is_cost else number
        sums = VisibleSums.at(place.path) if is_sum(place) else None
        if sums is None:
            return self._pass_on(stored, "number")
        return self._cumulative(sums, stored)

    def _cumulative(self, sums: VisibleSums, stored: str) -> str:
        """What responses show at a path at or below ``cumulative``: of a root, a sum over its trace (ADR 0005)."""
        self.needs_sums = True
        column = sums.columns.get(sums.below)
        trace_sum = "NULL" if column is None else f"nullIf({column}, 0)"
        is_root, own = (_name(self.stored, expression, "stored") for expression in (IS_ROOT, stored))
        return _name(self.visible, f"if({is_root} AND {sums.are_visible()}, {trace_sum}, {own})", "number")

    def _used(self, unit: str) -> str:
        """The part of a span's total that counts; null if nothing of it does (``Values.used``)."""
        self.counted_units.add(unit)
        stored = _name(self.stored, f"{unit}_total", "stored")
        total = f"if(is_counted_in_part, counted_{unit}, {stored})"
        return _name(self.visible, f"if({total} = 0 OR NOT isFinite({total}), NULL, {total})", "number")

    def _pass_on(self, expression: str, kind: str) -> str:
        """A column of the visible spans that is an expression over a row of ``spans``."""
        return _name(self.visible, _name(self.stored, expression, "stored"), kind)

    def _partial(self, aggregate: str) -> str:
        return _name(self.partials, aggregate, "partial")

    @staticmethod
    def _place(values: Measured) -> ValuePlace:
        assert values.place is not None  # noqa: S101 - only counts have none
        return values.place


Merge = Callable[[str, str], str]
"""From an aggregate function and the name of a partial to the expression that merges it over cells."""


def _name(known: dict[str, str], expression: str, kind: str) -> str:
    """The name of an expression: a new one the first time, then the same."""
    for name, text in known.items():
        if text == expression:
            return name
    name = f"{kind}{len(known)}"
    known[name] = expression
    return name


def shown(values: Measured, statistic: Aggregate | None, found: Any) -> Any:
    """Return a statistic as responses show it; ``None`` if no span adds to it."""
    if found is None or found != found:  # noqa: PLR0124 - NaN
        return None
    if statistic is None or statistic is Aggregate.UNIQ:
        return found
    if values.kind is MeasureKind.TIME:
        return format_us(round(found))
    is_cost = values.place is not None and values.place.is_cost
    return json_double(rounded(found) if is_cost else found)
