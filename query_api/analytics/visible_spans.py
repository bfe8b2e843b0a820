"""Spans that are shown, as a table inside a larger statement: for numbers over many spans instead of pages of them.

A row of ``spans`` counts where it is the head of its key (``spans/latest_versions.py``), so that a version that was replaced or deleted, or that is
there twice because the engine has not merged yet, is not counted. The window and the filter are applied twice: to the
rows, and to find the traces whose heads are looked up.

Rows that a filter leaves are joined to their heads. All rows of a window are looked up in the set of the heads instead, by 64 bits of
hash, and ``FINAL`` leaves the latest of each log at its place: ten million spans in 3 s instead of 23 (ADR 0003). A version that is not
shown counts where it has the hash of one that is: with a million of the former and ten of the latter, in one answer of two million.

An insert reaches ``spans`` a moment before ``span_versions``, and the engine takes its view of the tables of a statement one by one. So a
head may be replaced already by a later row at its place, and the engine may have merged its own row away. Then that later row
counts: the set is of places, and the join takes the row of the head or the next one of its log there. The join names the heads first,
so that no head is later than the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from common.span import Metrics
from query_api.filter.sql.compile import EVERY_ROW
from query_api.spans.tables import SQL, Table, read_from
from query_api.spans.usage import counted_totals_sql, trace_sums_sql

_PLACE: Final = ("trace_id", "span_id", "partition_id", "start_us")
_VERSION: Final = ", ".join((*_PLACE, "record_offset"))
_HASH: Final = f"cityHash64({', '.join(_PLACE)})"
_SAME_PLACE: Final = " AND ".join(f"heads.{column} = matching.{column}" for column in _PLACE)
_SAYS_SOMETHING: Final = " OR ".join(f"{amount} != 0" for amount in Metrics._fields)

_SUMS: Final = trace_sums_sql(SQL["latest_versions"])
_COUNTED_TOTALS: Final = (
    "SELECT trace_id, span_id, 1 AS is_counted_in_part, counted_tokens, counted_costs"
    f" FROM ({counted_totals_sql(SQL['latest_versions'])})"
)
"""The spans whose tokens or costs do not count as a whole, because spans below report some of them (ADR 0010), and what counts."""


def visible_spans(
    columns: Mapping[str, str],
    conditions: Sequence[str],
    *,
    and_also: Sequence[str] = (),
    are_many: bool = False,
    with_sums: bool = False,
    with_counted_totals: bool = False,
) -> str:
    """A subquery with ``start_us`` and the columns, a row for each span that is shown and meets all conditions.

    ``columns``: name → expression over a row of ``spans``, as ``conditions`` are. ``and_also`` are
    conditions that are not worth looking at twice. ``are_many``: that these are no filter, but a window. ``with_sums`` adds the
    columns of ``Metrics``: what the shown spans of the row's whole trace used together, 0 where nothing. ``with_counted_totals``
    adds ``is_counted_in_part``: 1 where spans below it say again what it says; then ``counted_tokens`` and ``counted_costs`` are what
    counts of its totals.
    """
    members = "".join(f", {expression} AS {name}" for name, expression in columns.items())
    has_conditions = any(condition != EVERY_ROW.sql for condition in conditions)
    in_traces = (
        f"trace_id IN (SELECT trace_id {read_from(Table.SPANS, *conditions)})" if has_conditions else EVERY_ROW.sql
    )
    latest = SQL["latest_versions"].replace("{which}", in_traces)
    if are_many:
        in_latest = f"{_HASH} IN (SELECT {_HASH} FROM ({latest}))"
        rows = read_from(Table.SPANS, *conditions, *and_also, in_latest, final=True)
        shown = f"SELECT {_VERSION}{members}\n{rows}"
    else:
        rows = f"SELECT {_VERSION}{members} {read_from(Table.SPANS, *conditions, *and_also)}"
        later = f"{_SAME_PLACE} AND heads.record_offset <= matching.record_offset"
        of_row = ", ".join(f"matching.{name} AS {name}" for name in (*_PLACE, "record_offset", *columns))
        shown = f"SELECT {of_row}\nFROM ({latest}) AS heads\nASOF INNER JOIN ({rows}) AS matching ON {later}"
    joined = ""
    if with_sums:
        sums = _SUMS.replace("{which}", f"{in_traces} AND {_with_reports(1)}")
        joined += f"LEFT ANY JOIN ({sums}) AS sums ON sums.trace_id = shown.trace_id\n"
    if with_counted_totals:
        counted = _COUNTED_TOTALS.replace("{which}", f"{in_traces} AND {_with_reports(2)}")
        joined += (
            f"LEFT ANY JOIN ({counted}) AS counted"
            " ON counted.trace_id = shown.trace_id AND counted.span_id = shown.span_id\n"
        )
    return f"SELECT *\nFROM ({shown}) AS shown\n{joined}"


def _with_reports(least: int) -> str:
    """A condition on ``trace_id``: that so many spans of it, or versions of these, say that they used something."""
    traces = f"SELECT trace_id {read_from(Table.VERSIONS, _SAYS_SOMETHING)} GROUP BY trace_id"
    return f"trace_id IN ({traces} HAVING count() >= {least})"
