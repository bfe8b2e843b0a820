"""Values of spans as expressions of a statement about many of them: what stands at a path, as answers show it.

A value is its typed text (``common/clickhouse/leaves.py``): ``''`` where nothing stands. Paths travel as typed parameters. The
cumulative metrics of a root are the sums over its whole trace wherever answers show those (ADR 0005, ``spans/rollup.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from common.span import AMOUNTS
from query_api.analytics.visible_spans import visible_spans
from query_api.filter.ast import Condition, Operand
from query_api.filter.fields import Operator
from query_api.filter.sql.columns import IS_ROOT
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.filter.sql.parameters import Parameters
from query_api.filter.sql.sums import attributes_condition


class _Sum(NamedTuple):
    """The columns of a metric's sums, and the one that a path leads to, if any."""

    columns: Sequence[str]
    asked: str | None


class Values:
    """Collects what a statement must read of each span, while values are asked for.

    What the methods return are names of columns of ``rows``. Each value is read once, however often it is asked for.
    ``time_us`` is the column of ``spans`` by which there are buckets.
    """

    def __init__(self, matching: Compiled, *, time_us: str) -> None:
        self._time_us = time_us
        self._is_unfiltered = matching.sql == EVERY_ROW.sql
        self.parameters = Parameters()
        self.parameters.values.update(matching.parameters)
        self._stored: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._derived: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._needs_sums = False
        self._needs_counted_totals = False

    def rows(self, conditions: Sequence[str]) -> str:
        """The statement that gives ``time_us`` and every value that was asked for, a row a span."""
        stored = {"time_us": self._time_us, **{name: expression for expression, name in self._stored.items()}}
        spans = visible_spans(
            stored,
            conditions,
            are_many=self._is_unfiltered,
            with_sums=self._needs_sums,
            with_counted_totals=self._needs_counted_totals,
        )
        shown = "".join(f", {expression} AS {name}" for expression, name in self._shown.items())
        derived = "".join(f", {expression} AS {name}" for expression, name in self._derived.items())
        return f"SELECT time_us{derived}\nFROM (SELECT time_us{shown}\nFROM ({spans}))"

    def typed(self, path: str) -> str:
        """The typed text of the scalar at a dotted path."""
        return _name(self._derived, self._typed(path), "typed")

    def number(self, path: str) -> str:
        """The number at a path; null where something else stands, and where it is past the largest double."""
        typed = self._typed(path)
        number = f"toFloat64OrNull(if(startsWith({typed}, 'n'), substring({typed}, 2), ''))"
        return _name(self._derived, f"if(isFinite({number}), {number}, NULL)", "number")

    def used(self, unit: str) -> str:
        """What counts of the total of ``tokens`` or ``costs`` of a span; null where nothing does: it reports none, spans
        below it report them again, or they count in another trace, where the column holds 0 whatever stands in ``leaves``.
        """
        self._needs_counted_totals = True
        stored = _name(self._stored, f"{unit}_total", "stored")
        total = _name(self._shown, f"if(is_counted_in_part, counted_{unit}, {stored})", "shown")
        return _name(self._derived, f"if({total} = 0 OR NOT isFinite({total}), NULL, {total})", "used")

    def texts(self, path: str) -> str:
        """The text at a path, in an array; an empty one where something else stands."""
        typed = self._typed(path)
        return _name(self._derived, f"if(startsWith({typed}, 's'), [substring({typed}, 2)], [])", "texts")

    def texts_of_array(self, path: str) -> str:
        """The texts that are elements of the array at a path."""
        prefix = path + "."
        is_array = self._condition(path, Operator.IS, [])
        is_element = (
            f"startsWith(path, {self.parameters.text(prefix)})"
            f" AND position(substring(path, {len(prefix.encode()) + 1}), '.') = 0 AND startsWith(typed, 's')"
        )
        found = f"arrayFilter((typed, path) -> {is_element}, mapValues(leaves), mapKeys(leaves))"
        return self.of_row(f"if({is_array}, arrayMap(typed -> substring(typed, 2), {found}), [])")

    def is_object(self, path: str) -> str:
        """Whether an object stands at a path: 0 or 1."""
        return self.of_row(self._condition(path, Operator.IS, {}))

    def exists(self, path: str) -> str:
        """Whether anything stands at a path: 0 or 1."""
        return self.of_row(self._condition(path, Operator.EXISTS, None))

    def of_row(self, expression: str) -> str:
        """An expression over a row of ``spans``."""
        shown = _name(self._shown, _name(self._stored, expression, "stored"), "shown")
        return _name(self._derived, shown, "value")

    def _typed(self, path: str) -> str:
        """The typed text, as a column that other values are made of."""
        stored = _name(self._stored, "''" if "\0" in path else f"leaves[{self._path(path)}]", "stored")
        summed = _sum_at(tuple(path.split(".")))
        if summed is None:
            return _name(self._shown, stored, "shown")
        self._needs_sums = True
        is_root = _name(self._stored, IS_ROOT, "stored")
        is_shown = " OR ".join(f"{column} != 0" for column in summed.columns)
        are_numbers = " AND ".join(f"isFinite({column})" for column in summed.columns)
        asked = summed.asked
        of_trace = "''" if asked is None else f"if({asked} = 0, '', concat('n', toString({asked})))"
        return _name(self._shown, f"if({is_root} AND ({is_shown}) AND {are_numbers}, {of_trace}, {stored})", "shown")

    def _path(self, path: str) -> str:
        """The place of a path; the same for the same path, so that its value is read once."""
        if path not in self._paths:
            self._paths[path] = self.parameters.text(path)
        return self._paths[path]

    def _condition(self, path: str, operator: Operator, operand: Operand) -> str:
        condition = Condition("attributes", operator, operand, tuple(path.split(".")))
        return attributes_condition(condition, self.parameters)


def _name(known: dict[str, str], expression: str, kind: str) -> str:
    """The name of an expression, the same whenever it is asked for."""
    return known.setdefault(expression, f"{kind}{len(known)}")


def _sum_at(segments: tuple[str, ...]) -> _Sum | None:
    """The sum that answers may show at a path of a root's attributes, in place of what is stored."""
    if segments[:2] != ("ag", "metrics") or segments[3:4] != ("cumulative",):
        return None
    metric, below = segments[2], segments[4:]
    if metric == "errors":
        return _Sum(["errors"], None if below else "errors")
    if metric not in ("tokens", "costs"):
        return None
    asked = f"{metric}_{below[0]}" if len(below) == 1 and below[0] in AMOUNTS else None
    return _Sum([f"{metric}_{amount}" for amount in AMOUNTS], asked)
