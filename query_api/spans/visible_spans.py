"""The visible spans as a table inside a larger statement: for aggregates over many spans instead of pages of them.

A row of ``spans`` counts if it is the latest version of its key (``latest_versions.py``): a version that was replaced
or deleted, or that is stored twice because the engine has not merged yet, does not count. The window and the filter are
applied twice: to the rows, and to find the traces whose latest versions are looked up.

Rows that a filter leaves are joined to their latest versions. All rows of a window are instead looked up in the set of
the latest versions, by 64 bits of hash, and ``FINAL`` leaves the latest of each partition: ten million spans take 3 s
instead of 23 (ADR 0003). An invisible version counts if it has the hash of a visible one: with a million of the former
and ten million of the latter, in one response of two million.

An insert reaches ``spans`` a moment before ``span_versions``, and the engine takes its snapshots of the tables of a
statement one by one. So a later row may already have replaced a latest version, and the engine may have merged the row
of that version away. Then the later row counts: the set is of places, and the join takes the row of the latest version
or the next one of its partition. The join names the latest versions first, so that none of them is later than the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from common.span import Metrics
from query_api.filter.sql.compile import EVERY_ROW
from query_api.filter.sql.expressions import IS_ROOT
from query_api.spans.project_spans import (
    SQL,
    Table,
    counted_totals_sql,
    read_from,
    reports_alone,
    trace_sums_sql,
)

_PLACE: Final = ("trace_id", "span_id", "partition_id", "start_us")
_VERSION: Final = ", ".join((*_PLACE, "record_offset"))
_HASH: Final = f"cityHash64({', '.join(_PLACE)})"
_SAME_PLACE: Final = " AND ".join(f"latest.{column} = matching.{column}" for column in _PLACE)
_HAS_USAGE: Final = " OR ".join(f"{amount} != 0" for amount in Metrics._fields)

_SUMS: Final = trace_sums_sql(SQL["latest_versions"])
_OF_NODE: Final = "cityHash64(trace_id, {})"


def visible_spans(
    columns: Mapping[str, str],
    conditions: Sequence[str],
    *,
    and_also: Sequence[str] = (),
    are_many: bool = False,
    with_sums: bool = False,
    with_counted_totals: Collection[str] = (),
) -> str:
    """Return a subquery with ``start_us`` and ``columns``, one row for each visible span that meets all conditions.

    ``columns`` maps names to expressions over a row of ``spans``; ``conditions`` are such expressions, too.
    ``and_also`` are conditions to apply once instead of twice. ``are_many``: the conditions are only a window.
    ``with_sums`` adds the columns of ``Metrics``: the sums over the visible spans of the row's whole trace, or 0.
    ``with_counted_totals`` names units of usage, ``tokens`` or ``costs``. It adds ``is_counted_in_part``, 1 if spans
    below report some of them again, and then ``counted_tokens`` and ``counted_costs``, the parts of its totals that
    count.
    """
    members = "".join(f", {expression} AS {name}" for name, expression in columns.items())
    has_conditions = any(condition != EVERY_ROW.sql for condition in conditions)
    in_traces = (
        f"trace_id IN (SELECT trace_id {read_from(Table.SPANS, *conditions)})" if has_conditions else EVERY_ROW.sql
    )
    latest = SQL["latest_versions"].replace("{condition}", in_traces)
    if are_many:
        in_latest = f"{_HASH} IN (SELECT {_HASH} FROM ({latest}))"
        rows = read_from(Table.SPANS, *conditions, *and_also, in_latest, final=True)
        visible = f"SELECT {_VERSION}{members}\n{rows}"
    else:
        rows = f"SELECT {_VERSION}{members} {read_from(Table.SPANS, *conditions, *and_also)}"
        later = f"{_SAME_PLACE} AND latest.record_offset <= matching.record_offset"
        of_row = ", ".join(f"matching.{name} AS {name}" for name in (*_PLACE, "record_offset", *columns))
        visible = f"SELECT {of_row}\nFROM ({latest}) AS latest\nASOF INNER JOIN ({rows}) AS matching ON {later}"
    joined = ""
    if with_sums:
        sums = _SUMS.replace("{condition}", f"{in_traces} AND {_with_reports()}")
        joined += f"LEFT ANY JOIN ({sums}) AS sums ON sums.trace_id = visible.trace_id\n"
    if with_counted_totals:
        few = [] if are_many else [in_traces]
        nested = SQL["latest_versions"].replace("{condition}", f"{in_traces} AND {_nested(with_counted_totals, few)}")
        counted = counted_totals_sql(reports_alone(nested, with_counted_totals))
        joined += (
            "LEFT ANY JOIN (SELECT trace_id, span_id, 1 AS is_counted_in_part, counted_tokens, counted_costs"
            f" FROM ({counted})) AS counted"
            " ON counted.trace_id = visible.trace_id AND counted.span_id = visible.span_id\n"
        )
    return f"SELECT *\nFROM ({visible}) AS visible\n{joined}"


def _with_reports() -> str:
    """A condition on ``trace_id``: a span of the trace, or a version of one, reports usage."""
    return f"trace_id IN (SELECT trace_id {read_from(Table.VERSIONS, _HAS_USAGE)})"


def _nested(units: Collection[str], conditions: Sequence[str]) -> str:
    """A condition on ``trace_id``: a span that reports these units is the parent of another, in any of their versions.

    Only there a report can count in part. Ids are compared by hash, which may add traces.
    """
    is_child = read_from(Table.VERSIONS, *conditions, f"NOT ({IS_ROOT})", "parent_id != span_id")
    parents = f"SELECT {_OF_NODE.format('parent_id')} {is_child}"
    reports = " OR ".join(f"{amount} != 0" for amount in Metrics._fields if amount.startswith(tuple(units)))
    is_parent = f"{_OF_NODE.format('span_id')} IN ({parents})"
    return f"trace_id IN (SELECT trace_id {read_from(Table.VERSIONS, *conditions, reports, is_parent)})"
