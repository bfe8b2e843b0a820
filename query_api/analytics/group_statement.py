"""The statement of ``POST /spans/groups/query``, which computes all groups and reads the spans once (contract §3.5).

It has layers, each a subquery over the one before:

1. the visible spans with the values that count;
2. *cells*: the partials of each group, or of each bucket of each group;
3. the value of each group, over all its cells, by which groups are ordered;
4. their ranks in this order;
5. statistics of each cell. All groups past the limit are one group here, so that the others are computed over their
   spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import Select
from query_api.analytics.groups_models import Aggregate, GroupOrder, Interval
from query_api.analytics.measures import MeasureColumns, Measured
from query_api.filter.language import ValuePlace
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.filter.sql.expressions import Parameters
from query_api.spans.visible_spans import visible_in_window, visible_spans

CELLS_MAX: Final = 100_000
"""Elements of ``groups`` in a response, and buckets of ``others``: about 15 MB of JSON."""

ALL_BUCKETS: Final = -1
"""The bucket of a group, or of the others, over the whole window."""


@dataclass(frozen=True, slots=True)
class GroupsPlan:
    """A checked request: the places of the values that groups share, what to compute, and which groups to return."""

    group_by: Sequence[ValuePlace]
    measures: Sequence[tuple[Measured, Sequence[Aggregate | None]]]
    """Statistics are ``[None]`` for a count."""

    order_of: Measured
    order_as: Aggregate | None
    order: GroupOrder
    limit: int
    interval: Interval | None = None
    has_totals: bool = False
    """Whether a time series has the values of its groups over the whole window, too."""

    @property
    def statistics(self) -> list[tuple[Measured, Aggregate | None]]:
        """Everything to compute, in the order of the columns ``value0``, ``value1`` …"""
        return [(values, statistic) for values, statistics in self.measures for statistic in statistics]


def groups_select(
    project_id: UUID, plan: GroupsPlan, matching: Compiled, conditions: Sequence[str], values: Mapping[str, Any]
) -> Select:
    """Return the query over the visible spans that meet ``matching`` and the ``conditions`` with their ``values``.

    It returns ``place`` (the rank of a group from 1; ``limit`` + 1 are the others), ``last_rank`` (of the groups in
    this row), ``bucket_us`` (the start of the bucket, ``ALL_BUCKETS`` for the whole window, 0 without an interval),
    ``group0`` … as typed text, and ``value0`` …, in the order of ``place`` and ``bucket_us``.
    """
    parameters = Parameters()
    parameters.values.update(matching.parameters)
    columns = MeasureColumns(parameters)
    groups = {f"group{index}": columns.group(place) for index, place in enumerate(plan.group_by)}
    order_by = columns.statistic(plan.order_of, plan.order_as)
    statistics = [columns.statistic(*each) for each in plan.statistics]
    units = sorted(columns.counted_units)
    is_unfiltered = matching.sql == EVERY_ROW.sql
    if is_unfiltered and not columns.needs_sums:
        visible = visible_in_window(project_id, columns.stored, conditions, with_counted_totals=units)
    else:
        visible = visible_spans(
            project_id,
            columns.stored,
            [*conditions, matching.sql],
            window=conditions if is_unfiltered else None,
            with_sums=columns.needs_sums,
            with_counted_totals=units,
        )
    cells = _cells(plan, columns, groups, visible)
    ranked = _ranked(plan, list(groups), order_by, cells)
    limit = {"groups_max": plan.limit, "cells_max": CELLS_MAX + 1}
    if plan.interval is not None:
        limit["interval_us"] = plan.interval.us
    placed = _placed(plan, columns, list(groups), statistics, ranked)
    return replace(placed, parameters={**parameters.values, **values, **limit})


def _cells(plan: GroupsPlan, columns: MeasureColumns, groups: Mapping[str, str], spans: Select) -> Select:
    """The partials of each group or, in a time series, of each bucket of each group."""
    of_span = ["start_us", *_named(columns.visible)]
    visible = Select(spans.project_id, spans, of_span, is_by_trace=spans.is_by_trace)
    bucket = "0" if plan.interval is None else "intDiv(start_us, {interval_us:Int64}) * {interval_us:Int64}"
    cells = [*_named(groups), f"toInt64({bucket}) AS bucket_us", *_named(columns.partials)]
    return Select(spans.project_id, visible, cells, group_by=[*groups, "bucket_us"])


def _named(columns: Mapping[str, str]) -> list[str]:
    return [f"{expression} AS {name}" for name, expression in columns.items()]


def _ranked(plan: GroupsPlan, groups: Sequence[str], order_by: Callable[..., str], cells: Select) -> Select:
    """The cells with the rank of their group. Groups without a value come last, equal ones in the order of their typed
    texts."""
    if not groups:
        return Select(cells.project_id, cells, ["*", "toUInt64(1) AS rank"])
    direction = "DESC" if plan.order is GroupOrder.DESCENDING else "ASC"
    of_group = f" OVER (PARTITION BY {', '.join(groups)})"
    value = order_by(_of_one_cell if plan.interval is None else lambda *merged: f"{_of_cells(*merged)}{of_group}")
    order = f"order_value {direction} NULLS LAST, {', '.join(groups)}"
    valued = Select(cells.project_id, cells, ["*", f"{value} AS order_value"])
    return Select(cells.project_id, valued, ["*", f"dense_rank() OVER (ORDER BY {order}) AS rank"])


def _placed(
    plan: GroupsPlan,
    columns: MeasureColumns,
    groups: Sequence[str],
    statistics: Sequence[Callable[..., str]],
    ranked: Select,
) -> Select:
    """The statistics of each cell of the groups up to the limit, and of the others."""
    is_other = "rank > {groups_max:UInt32}"
    with_total = f"[bucket_us, {ALL_BUCKETS}]"
    buckets = with_total if plan.has_totals else f"if({is_other}, {with_total}, [bucket_us])"
    bucket = "bucket_us" if plan.interval is None else f"arrayJoin({buckets})"
    taken = Select(ranked.project_id, ranked, ["rank", *groups, *columns.partials, f"{bucket} AS bucket_us"])
    places = ["least(rank, {groups_max:UInt32} + 1) AS place", "bucket_us", "max(rank) AS last_rank"]
    keys = [f"any({name}) AS {name}" for name in groups]
    values = [f"{statistic(_of_cells)} AS value{index}" for index, statistic in enumerate(statistics)]
    return Select(
        ranked.project_id,
        taken,
        [*places, *keys, *values],
        group_by=["place", "bucket_us"],
        order_by=["place", "bucket_us"],
        limit="{cells_max:UInt32}",
    )


def _of_cells(function: str, partial: str) -> str:
    return f"{function}({partial})"


def _of_one_cell(function: str, partial: str) -> str:
    """The merge of a single cell: its number, or what its state has come to."""
    return f"finalizeAggregation({partial})" if "Merge" in function else partial
