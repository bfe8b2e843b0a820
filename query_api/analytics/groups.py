"""``POST /spans/groups/query``: groups of spans by shared values, with counts, sums and percentiles (contract §3.5).

If the statement over the whole window exceeds its part of the budget, in time, rows or memory, it runs again over the
newest eighth of the rows, and so on. Then the response says which part of the window its numbers are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import orjson

from common.clickhouse.select import Select, Table
from common.errors import DeadlineExceeded, InvalidInput
from common.times import format_us, nearest_formattable_us
from query_api.analytics.group_statement import ALL_BUCKETS, CELLS_MAX, GroupsPlan, groups_select
from query_api.analytics.groups_models import (
    COUNT,
    LIMIT_DEFAULT,
    Aggregate,
    FieldAndKey,
    GroupOrder,
    GroupsQuery,
    GroupsWindowing,
    MeasureModel,
)
from query_api.analytics.measures import Measured, measured, names_of, shown
from query_api.explain.explain import explained
from query_api.filter.language import ValuePlace
from query_api.filter.parse import parse_place
from query_api.filter.sql.compile import Compiled, compile_node
from query_api.filter.sql.values import read_typed
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, StatementBudget, project_spans
from query_api.spans.window import SAMPLED, Resolve, bound_us, percent_of, query_of
from query_api.spans.windowing import Windowing

BUCKETS_MAX: Final = 2_000
"""Buckets of one group."""

SHARE: Final = 0.6
"""Of the time that is left: what one statement may take, so that a narrower one can follow."""

READS: Final = 2
"""How often a row that counts once toward the budget is read: the second time only its ids and times, to decide which
rows are visible."""

NARROWING: Final = 8
ROWS_MIN: Final = 1_000
"""The shortest part of a window that is examined, in rows."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SpanWindow:
    """The spans that count: those that start at ``oldest_us`` or later, before ``newest_us``, in the sampled traces."""

    oldest_us: int | None = None
    newest_us: int | None = None
    rate_percent: int = 100

    @classmethod
    def of(cls, windowing: Windowing | GroupsWindowing, *, now_us: int) -> SpanWindow:
        """Return the window of a request; relative bounds count from ``now_us``."""
        oldest_us, newest_us = (bound_us(bound, now_us=now_us) for bound in (windowing.oldest, windowing.newest))
        return cls(oldest_us, newest_us, percent_of(windowing.rate))

    def conditions(self) -> tuple[list[str], Row]:
        """Return conditions on rows of ``spans``, and the values in them."""
        conditions: list[str] = []
        values: Row = {}
        if self.oldest_us is not None:
            conditions.append("start_us >= {oldest_us:Int64}")
            values["oldest_us"] = self.oldest_us
        if self.newest_us is not None:
            conditions.append("start_us < {newest_us:Int64}")
            values["newest_us"] = self.newest_us
        if self.rate_percent < 100:
            conditions.append(SAMPLED)
            values["rate_percent"] = self.rate_percent
        return conditions, values


@dataclass(frozen=True, slots=True)
class _MemberNames:
    """The names of members in the response."""

    groups: Sequence[str]
    measures: Sequence[str]


async def query_groups(resolve: Resolve, request: Request) -> Response:
    """Return groups of the spans that match.

    Spans of a group share values; of each group something was computed.
    """
    filtering, windowing = await query_of(request, resolve)
    query: GroupsQuery = request.body
    _plan_of(query)  # reports what cannot be computed before the filter is compiled
    spans = project_spans(request)
    now_us = request.context.clock.now_ns() // 1_000
    matching = await compile_node(filtering, now_us=now_us)
    members = await compute_groups(spans, query, matching, SpanWindow.of(windowing, now_us=now_us))
    if spans.is_recorded:
        members["explain"] = orjson.Fragment(await explained(spans, filtering))
    return Response(orjson.dumps(members))


async def compute_groups(spans: ProjectSpans, query: GroupsQuery, matching: Compiled, window: SpanWindow) -> Row:
    """Return the members of a ``GroupsResponse`` about the spans of a window. The filter, the window and the
    references of ``query`` do not count.

    Raises ``InvalidInput``, and ``DeadlineExceeded`` if the budget does not suffice for any part of the window.
    """
    plan, names = _plan_of(query)
    rows, examined = await _run(spans, plan, matching, window)
    members = _members(plan, names, rows)
    members["complete"] = examined is None
    if examined is not None:
        members["examined"] = {
            "oldest": format_us(nearest_formattable_us(examined.oldest_us or 0)),
            "newest": format_us(nearest_formattable_us(examined.newest_us or 0)),
        }
    return members


def _plan_of(query: GroupsQuery) -> tuple[GroupsPlan, _MemberNames]:
    """Return the checked request. Raises ``InvalidInput`` with the path of what cannot be computed."""
    group_by = query.group_by or []
    places: list[ValuePlace] = []
    for index, name in enumerate(group_by):
        place = parse_place(name.field, name.key, path=f"group_by[{index}]")
        if place in places:
            raise InvalidInput(f"group_by[{index}]: the same value as group_by[{places.index(place)}].")
        places.append(place)
    by_name: dict[FieldAndKey, tuple[Measured, list[Any]]] = {}
    for index, measure in enumerate(query.measures or [MeasureModel(of=FieldAndKey(field=COUNT))]):
        at = f"measures[{index}]"
        values = measured(measure.of, f"{at}.of")
        values.check(measure.statistics or [], at)
        _, statistics = by_name.setdefault(measure.of, (values, []))
        wanted: list[Aggregate | None] = [*measure.statistics] if measure.statistics else [None]
        statistics += [each for each in dict.fromkeys(wanted) if each not in statistics]
    order_of, order_as, order = Measured.count(), None, GroupOrder.DESCENDING
    if query.order_by is not None:
        order_of, order_as = measured(query.order_by.of, "order_by.of"), query.order_by.statistic
        order_of.check([] if order_as is None else [order_as], "order_by")
        order = query.order_by.order
    limit = LIMIT_DEFAULT if query.limit is None else query.limit
    if query.totals and query.interval is None:
        raise InvalidInput("totals: needs `interval`; without it, `groups` has the values over the whole window.")
    plan = GroupsPlan(places, list(by_name.values()), order_of, order_as, order, limit, query.interval, query.totals)
    return plan, _MemberNames(names_of(group_by), names_of(list(by_name)))


async def _run(
    spans: ProjectSpans, plan: GroupsPlan, matching: Compiled, window: SpanWindow
) -> tuple[list[Row], SpanWindow | None]:
    """Return the rows of the statement, and the part of the window that they are about unless it is all of it.

    Raises ``DeadlineExceeded`` if the budget does not suffice for any part.
    """
    try:
        return await _rows(spans, plan, matching, window), None
    except DeadlineExceeded:
        size = ["count() AS rows_count", "max(start_us) AS last_us"]
        counted = await _read(spans, _in_window(spans, size, window), "size of the window")
    rows_count, last_us = counted[0]["rows_count"], counted[0]["last_us"]
    while (rows_count := rows_count // NARROWING) >= ROWS_MIN:
        starts = _in_window(spans, ["start_us"], window)
        start = replace(starts, order_by=["start_us DESC"], limit=f"1 OFFSET {rows_count}")
        found = await _read(spans, start, "part of the window")
        part = replace(window, oldest_us=found[0]["start_us"], newest_us=window.newest_us or last_us + 1)
        try:
            return await _rows(spans, plan, matching, part), part
        except DeadlineExceeded:
            if spans.remaining_s <= 0:
                raise
    raise DeadlineExceeded(f"The query did not end within its budget of {spans.budget_s:g} s.")


async def _rows(spans: ProjectSpans, plan: GroupsPlan, matching: Compiled, window: SpanWindow) -> list[Row]:
    query = groups_select(spans.project_id, plan, matching, *window.conditions())
    share = StatementBudget(max(spans.remaining_s * SHARE, 0), spans.budget_rows * READS)
    return await _read(spans, query, "groups", share)


def _in_window(spans: ProjectSpans, columns: Sequence[str], window: SpanWindow) -> Select:
    conditions, values = window.conditions()
    return Select(spans.project_id, Table.SPANS, columns, where=conditions, parameters=values)


async def _read(spans: ProjectSpans, query: Select, step: str, share: StatementBudget | None = None) -> list[Row]:
    rows: list[Row] = (await spans.select(query, step=step, share=share)).to_pylist()
    return rows


def _members(plan: GroupsPlan, names: _MemberNames, rows: Sequence[Row]) -> Row:
    if len(rows) > CELLS_MAX:
        raise InvalidInput(
            f"limit: the time series of all groups have more than {CELLS_MAX} buckets; at most {CELLS_MAX} are"
            " allowed. Use a lower limit, a longer interval or a shorter window."
        )
    groups: list[Row] = []
    totals: list[Row] = []
    others: Row | None = None
    buckets_counts: dict[int, int] = {}
    for row in rows:
        place, values = row["place"], _values(plan, names, row)
        at = {} if plan.interval is None else {"at": format_us(nearest_formattable_us(row["bucket_us"]))}
        buckets_counts[place] = buckets_counts.get(place, 0) + 1
        if buckets_counts[place] > BUCKETS_MAX + (plan.has_totals or place > plan.limit):
            raise InvalidInput(
                f"interval: a group has more than {BUCKETS_MAX} buckets of {plan.interval}; at most {BUCKETS_MAX} are"
                " allowed. Use a longer interval or a shorter window."
            )
        if place <= plan.limit and row["bucket_us"] == ALL_BUCKETS:
            totals.append({"by": _by(names, row), "values": values})
        elif place <= plan.limit:
            groups.append({"by": _by(names, row), "values": values, **at})
        elif plan.interval is None or row["bucket_us"] == ALL_BUCKETS:
            others = {"groups_count": row["last_rank"] - plan.limit, "values": values}
        elif others is not None:
            others.setdefault("series", []).append({"values": values, **at})
    members: Row = {"count": len(groups), "groups": groups}
    if plan.has_totals:
        members["totals"] = totals
    if others is not None:
        members["others"] = others
    return members


def _by(names: _MemberNames, row: Row) -> Row:
    return {name: read_typed(row[f"group{index}"].decode()) for index, name in enumerate(names.groups)}


def _values(plan: GroupsPlan, names: _MemberNames, row: Row) -> Row:
    columns = (row[f"value{index}"] for index in count())
    values: Row = {}
    for name, (of, statistics) in zip(names.measures, plan.measures, strict=True):
        computed = {each: shown(of, each, next(columns)) for each in statistics}
        if None in computed:
            values[name] = computed[None]
        else:
            values[name] = {str(each): value for each, value in computed.items() if value is not None}
    return values
