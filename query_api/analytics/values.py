"""Values of many spans as columns of one statement: the value at a path, as responses show it.

A value is read as typed text (``common/clickhouse/leaves.py``), ``''`` if there is none. Paths travel as typed
parameters. The cumulative metrics of a root are the sums over its whole trace if responses show those (ADR 0005).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from common.clickhouse.select import Select, Table
from common.usage import amount_sql
from query_api.filter.language import Condition, Operand, Operator, is_cost_path
from query_api.filter.sql.compile import EVERY_ROW, Compiled, compile_condition
from query_api.filter.sql.expressions import IS_ROOT, Parameters
from query_api.filter.sql.sums import VisibleSums
from query_api.spans.visible_spans import visible_spans


class Values:
    """Collects what a statement must read of each span.

    The methods return names of columns of ``rows``. Each value is read once, however often it is requested. ``time_us``
    is the column of ``spans`` that the buckets follow; a span counts if it meets ``window``, ``conditions`` and
    ``matching``. ``window`` are conditions on this column and on ``trace_id``.
    """

    def __init__(
        self, matching: Compiled, window: Sequence[str], conditions: Sequence[str] = (), *, time_us: str
    ) -> None:
        self._time_us = time_us
        self._window = window
        self._conditions = [*window, *conditions, matching.sql]
        self._is_unfiltered = matching.sql == EVERY_ROW.sql
        self.parameters = Parameters()
        self.parameters.values.update(matching.parameters)
        self._stored: dict[str, str] = {}
        self._visible: dict[str, str] = {}
        self._derived: dict[str, str] = {}
        self._needs_sums = False
        self._counted_units: set[str] = set()

    def rows(self, project_id: UUID) -> Select:
        """Return the query of ``time_us`` and every requested value, one row per span."""
        stored = {"time_us": self._time_us, **{name: expression for expression, name in self._stored.items()}}
        spans = visible_spans(
            project_id,
            stored,
            self._conditions,
            self.parameters.values,
            window=self._starts(project_id) if self._is_unfiltered else None,
            with_sums=self._needs_sums,
            with_counted_totals=sorted(self._counted_units),
        )
        visible = [f"{expression} AS {name}" for expression, name in self._visible.items()]
        derived = [f"{expression} AS {name}" for expression, name in self._derived.items()]
        is_by_trace = spans.is_by_trace
        of_span = Select(project_id, spans, ["time_us", *visible], is_by_trace=is_by_trace)
        return Select(project_id, of_span, ["time_us", *derived], is_by_trace=is_by_trace)

    def _starts(self, project_id: UUID) -> Sequence[str]:
        """Return conditions on ``start_us`` and ``trace_id`` that all rows meet."""
        if self._time_us == "start_us":
            return self._window
        first, last = (
            str(Select(project_id, Table.SPANS, [f"{bound}(start_us)"], where=self._conditions))
            for bound in ("min", "max")
        )
        return [f"start_us >= ({first})", f"start_us <= ({last})"]

    def typed(self, path: str) -> str:
        """Return the typed text of the scalar at a dotted path."""
        return _name(self._derived, self._typed(path), "typed")

    def number(self, path: str) -> str:
        """Return the number at a path; null for any other value, for a number past the largest double, and for a cost
        that is no amount of money.
        """
        typed = self._typed(path)
        number = f"toFloat64OrNull(if(startsWith({typed}, 'n'), substring({typed}, 2), ''))"
        finite = f"if(isFinite({number}), {number}, NULL)"
        return _name(self._derived, amount_sql(number) if is_cost_path(path.split(".")) else finite, "number")

    def used(self, unit: str) -> str:
        """Return the part of a span's total ``tokens`` or ``costs`` that counts.

        Null if nothing counts: the span reports none, spans below it report the same again, or the total counts in
        another trace, in which case the column holds 0, although ``leaves`` may hold a number.
        """
        self._counted_units.add(unit)
        stored = _name(self._stored, f"{unit}_total", "stored")
        total = _name(self._visible, f"if(is_counted_in_part, counted_{unit}, {stored})", "visible")
        return _name(self._derived, f"if({total} = 0 OR NOT isFinite({total}), NULL, {total})", "used")

    def texts(self, path: str) -> str:
        """Return an array with the text at a path; an empty array for any other value."""
        typed = self._typed(path)
        return _name(self._derived, f"if(startsWith({typed}, 's'), [substring({typed}, 2)], [])", "texts")

    def texts_of_array(self, path: str) -> str:
        """Return the texts that are elements of the array at a path."""
        prefix = path + "."
        is_array = self._condition(path, Operator.IS, [])
        is_element = (
            f"startsWith(path, {self.parameters.text(prefix)})"
            f" AND position(substring(path, {len(prefix.encode()) + 1}), '.') = 0 AND startsWith(typed, 's')"
        )
        found = f"arrayFilter((typed, path) -> {is_element}, mapValues(leaves), mapKeys(leaves))"
        return self.of_row(f"if({is_array}, arrayMap(typed -> substring(typed, 2), {found}), [])")

    def is_object(self, path: str) -> str:
        """Return whether the value at a path is an object: 0 or 1."""
        return self.of_row(self._condition(path, Operator.IS, {}))

    def exists(self, path: str) -> str:
        """Return whether there is a value at a path: 0 or 1."""
        return self.of_row(self._condition(path, Operator.EXISTS, None))

    def of_row(self, expression: str) -> str:
        """Return the value of an expression over a row of ``spans``."""
        visible = _name(self._visible, _name(self._stored, expression, "stored"), "visible")
        return _name(self._derived, visible, "value")

    def _typed(self, path: str) -> str:
        """The typed text at a path, as a column from which other columns are derived."""
        stored = _name(self._stored, "''" if "\0" in path else f"leaves[{self.parameters.text(path)}]", "stored")
        sums = VisibleSums.at(tuple(path.split(".")))
        if sums is None:
            return _name(self._visible, stored, "visible")
        self._needs_sums = True
        is_root = _name(self._stored, IS_ROOT, "stored")
        column = sums.columns.get(sums.below)
        trace_sum = "''" if column is None else f"if({column} = 0, '', concat('n', toString({column})))"
        return _name(self._visible, f"if({is_root} AND {sums.are_visible()}, {trace_sum}, {stored})", "visible")

    def _condition(self, path: str, operator: Operator, operand: Operand) -> str:
        condition = Condition("attributes", operator, operand, tuple(path.split(".")))
        return compile_condition(condition, self.parameters)


def _name(known: dict[str, str], expression: str, kind: str) -> str:
    """The name of an expression: a new one the first time, then the same."""
    return known.setdefault(expression, f"{kind}{len(known)}")
