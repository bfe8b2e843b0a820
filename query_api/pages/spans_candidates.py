"""Rows of ``spans`` that match, in the order of pages of spans (``bounded_search.py``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from common.clickhouse.span_columns import NO_PARENT
from query_api.filter.sql.compile import Compiled
from query_api.pages.bounded_search import BoundedSearch, Bounds, Portion, statement_in_order
from query_api.pages.position import edge, is_edge
from query_api.spans.columns import rows_as, values_of
from query_api.spans.project_spans import ProjectSpans, StatementBudget
from query_api.spans.version import Position, Version, versions_of
from query_api.spans.windowing import SAMPLED, Order


@dataclass(frozen=True, slots=True)
class Window:
    """Which spans can be on a page, and in which order.

    Bounds are microseconds; reference §6.2 decides which is part of the window. ``after`` is where the last page ended.
    ``rate_percent`` keeps so many of a hundred traces.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    rate_percent: int = 100
    after: Position | None = None


class Candidate(NamedTuple):
    """A row that matches. Whether it is shown is not known yet."""

    version: Version
    is_root: bool
    answer_bytes: int
    members: int
    """Which of ``OPTIONAL_MEMBERS`` it has."""


class Candidates(BoundedSearch[Candidate, Position]):
    """Goes along the rows of a window that match, all versions of a key together."""

    def __init__(self, spans: ProjectSpans, matching: Compiled, window: Window) -> None:
        is_walk = window.after is not None and is_edge(window.after)
        super().__init__(spans, matching, order=window.order, after=window.after, is_walk=is_walk)
        self._window = window

    def _statement(self, matching: Compiled, *, until_us: int | None = None) -> tuple[str, dict[str, Any]]:
        return candidates_statement(matching, replace(self._window, after=self.position), until_us=until_us)

    async def _select(
        self, size: int, share: StatementBudget, *, until_us: int | None = None
    ) -> Portion[Candidate, Position]:
        while True:
            sql, parameters = self._statement(self._matching, until_us=until_us)
            rows = await self._spans.select(sql, {**parameters, "candidates": size}, step="candidates", share=share)
            found = _candidates_of(rows)
            if len(found) < size:
                return Portion(found, None)
            last = found[-1].version.position
            while found and found[-1].version.position == last:  # of this key there may be more
                found.pop()
            if found:
                return Portion(found, found[-1].version.position)
            size *= 2  # one key with so many versions

    def _edge(self, start_us: int) -> Position:
        return edge(start_us, self._order)


_COLUMNS: Final = (*Version._fields, "parent_id", "answer_bytes", "members")


def _candidates_of(rows: pa.Table) -> list[Candidate]:
    are_roots = [parent_id == NO_PARENT for parent_id in values_of(rows, "parent_id")]
    others = (values_of(rows, name) for name in ("answer_bytes", "members"))
    return rows_as(Candidate, versions_of(rows), are_roots, *others)


def candidates_statement(
    matching: Compiled, window: Window, *, until_us: int | None = None
) -> tuple[str, dict[str, Any]]:
    """The statement of the first ``{candidates:UInt32}`` rows, none behind ``until_us``, and its other values."""
    bounds = _bounds(window)
    return statement_in_order(_COLUMNS, matching, bounds, by=Position._fields, order=window.order, until_us=until_us)


def _bounds(window: Window) -> Bounds:
    """The window as conditions. A position is inside its leading bound, and stands for it: a hand-made one lies on it."""
    is_descending = window.order is Order.DESCENDING
    bounds: list[str] = []
    parameters: dict[str, Any] = {}
    if window.after is not None:
        sign = "<" if is_descending else ">"
        bounds.append(f"start_us {sign}= {{after_start_us:Int64}}")  # alone it prunes by the primary key
        bounds.append(
            f"(start_us, span_id, trace_id) {sign} ({{after_start_us:Int64}},"
            " toFixedString(unhex({after_span_id:String}), 16), toFixedString(unhex({after_trace_id:String}), 16))"
        )
        parameters |= {
            "after_start_us": window.after.start_us,
            "after_span_id": window.after.span_id.hex(),
            "after_trace_id": window.after.trace_id.hex(),
        }
    if window.newest_us is not None and (window.after is None or not is_descending):
        bounds.append(f"start_us {'<' if is_descending else '<='} {{newest_us:Int64}}")
        parameters["newest_us"] = window.newest_us
    if window.oldest_us is not None and (window.after is None or is_descending):
        bounds.append(f"start_us {'>=' if is_descending else '>'} {{oldest_us:Int64}}")
        parameters["oldest_us"] = window.oldest_us
    if window.rate_percent < 100:
        bounds.append(SAMPLED)
        parameters["rate_percent"] = window.rate_percent
    return Bounds(bounds, parameters)
