"""The visible spans as a table inside a larger statement: for aggregates over many spans instead of pages of them.

A row of ``spans`` counts if it is the latest version of its key (``latest_versions.py``): a version that was replaced
or deleted, or that is stored twice, does not count. The window and the filter are applied twice: to the rows, and to
find the traces whose latest versions are looked up.

Rows that a filter leaves are joined to their latest versions. Of all rows of a window, only those of doubtful traces
are looked up (``doubtful_traces.py``).

An insert reaches ``spans`` a moment before ``span_versions``, and the engine takes its snapshots of the tables of a
statement one by one. The join names the latest versions first, so that none of them is later than the rows. It takes
the row of the latest version, once, or the next one of its partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from common.clickhouse.select import NO_VALUES, Join, Select, Table
from common.usage import counted_totals, reports_alone, trace_sums
from query_api.filter.sql.compile import EVERY_ROW
from query_api.filter.sql.expressions import IS_ROOT
from query_api.filter.sql.sums import USAGE_PREFIX
from query_api.spans.doubtful_traces import PLACE, is_visible
from query_api.spans.versions import AMOUNTS_SQL, latest_versions

_VERSION: Final = (*PLACE, "version")
_SAME_PLACE: Final = " AND ".join(f"latest.{column} = matching.{column}" for column in PLACE)
_HAS_USAGE: Final = "usage != ''"

_OF_NODE: Final = "cityHash64(trace_id, {})"


def visible_spans(
    project_id: UUID,
    columns: Mapping[str, str],
    conditions: Sequence[str],
    parameters: Mapping[str, Any] = NO_VALUES,
    *,
    and_also: Sequence[str] = (),
    window: Sequence[str] | None = None,
    with_sums: bool = False,
    with_counted_totals: Collection[str] = (),
) -> Select:
    """Return a query of ``start_us`` and ``columns``, one row for each visible span that meets all conditions.

    ``columns`` maps names to expressions over a row of ``spans``; ``conditions`` are such expressions, too.
    ``parameters`` are those of all expressions. ``and_also`` are conditions to apply once instead of twice.
    ``window``, if many rows meet the conditions: what these say about ``start_us`` and ``trace_id`` alone; then not
    each row is looked up. ``with_sums`` adds the columns of ``Metrics``: the sums over the visible spans of the row's
    whole trace, or 0. ``with_counted_totals`` names units of usage, ``tokens`` or
    ``costs``. It adds ``is_counted_in_part``, 1 if spans below report some of them again, and then
    ``counted_tokens`` and ``counted_costs``, the parts of its totals that count.
    """
    in_traces = _in_traces(project_id, conditions)
    latest = latest_versions(project_id, in_traces, parameters)
    computed = [*_VERSION, *(f"{expression} AS {name}" for name, expression in columns.items())]
    if window is not None:
        where = [*conditions, *and_also, is_visible(project_id, window, _in_traces(project_id, window))]
        visible = Select(project_id, Table.SPANS, computed, where=where, parameters=parameters)
    else:
        rows = Select(project_id, Table.SPANS, computed, where=[*conditions, *and_also], parameters=parameters)
        of_row = [f"matching.{name} AS {name}" for name in (*_VERSION, *columns)]
        later = f"{_SAME_PLACE} AND latest.version <= matching.version"
        join = Join("ASOF INNER", rows, "matching", later)
        visible = Select(project_id, latest, of_row, alias="latest", joins=[join])
    joins = []
    if with_sums:
        reporting = Select(project_id, Table.VERSIONS, ["trace_id"], where=[_HAS_USAGE])
        sums = trace_sums(latest_versions(project_id, [*in_traces, f"trace_id IN ({reporting})"], parameters))
        joins.append(Join("LEFT ANY", sums, "sums", "sums.trace_id = visible.trace_id"))
    if with_counted_totals:
        of_nested = in_traces if window is None else []
        joins.append(_counted(project_id, with_counted_totals, in_traces, of_nested, parameters))
    # The engine does not send named queries to shards: neither those of sums, nor those that a condition on them reads.
    is_by_trace = not joins and not any(USAGE_PREFIX in condition for condition in conditions)
    return Select(project_id, visible, ["*"], alias="visible", joins=joins, is_by_trace=is_by_trace)


def visible_in_window(
    project_id: UUID, columns: Mapping[str, str], window: Sequence[str], *, with_counted_totals: Collection[str] = ()
) -> Select:
    """Return the same query as ``visible_spans`` for all spans of a window: conditions on ``start_us`` and ``trace_id``
    alone."""
    in_traces = _in_traces(project_id, window)
    computed = [*_VERSION, *(f"{expression} AS {name}" for name, expression in columns.items())]
    where = [*window, is_visible(project_id, window, in_traces)]
    visible = Select(project_id, Table.SPANS, computed, where=where)
    joins = [_counted(project_id, with_counted_totals, in_traces, [], NO_VALUES)] if with_counted_totals else []
    return Select(project_id, visible, ["*"], alias="visible", joins=joins, is_by_trace=True)


def _in_traces(project_id: UUID, conditions: Sequence[str]) -> list[str]:
    """Return the condition on ``trace_id`` that the rows of the traces meet in which a row meets all conditions."""
    if all(condition == EVERY_ROW.sql for condition in conditions):
        return []
    return [f"trace_id IN ({Select(project_id, Table.SPANS, ['trace_id'], where=conditions)})"]


def _counted(
    project_id: UUID,
    units: Collection[str],
    in_traces: Sequence[str],
    of_nested: Sequence[str],
    parameters: Mapping[str, Any],
) -> Join:
    """Return the join of ``visible`` to what counts of its totals; ``of_nested`` are the conditions of ``_nested``."""
    nested = _nested(project_id, units, of_nested)
    versions = latest_versions(project_id, [*in_traces, f"trace_id IN ({nested})"], parameters)
    totals = counted_totals(reports_alone(versions, units))
    names = ["trace_id", "span_id", "1 AS is_counted_in_part", "counted_tokens", "counted_costs"]
    same_span = "counted.trace_id = visible.trace_id AND counted.span_id = visible.span_id"
    return Join("LEFT ANY", Select(project_id, totals, names), "counted", same_span)


def _nested(project_id: UUID, units: Collection[str], conditions: Sequence[str]) -> Select:
    """Return a query of the traces in which a span that reports these units is the parent of another, in any of their
    versions.

    Only there a report can count in part. Ids are compared by hash, which may add traces.
    """
    is_child = [*conditions, f"NOT ({IS_ROOT})", "parent_id != span_id"]
    parents = Select(project_id, Table.VERSIONS, [_OF_NODE.format("parent_id")], where=is_child)
    amounts = [expression for name, expression in AMOUNTS_SQL.items() if name.startswith(tuple(units))]
    reports = " OR ".join(f"{amount} != 0" for amount in amounts)
    is_parent = f"{_OF_NODE.format('span_id')} IN ({parents})"
    return Select(project_id, Table.VERSIONS, ["trace_id"], where=[*conditions, reports, is_parent])
