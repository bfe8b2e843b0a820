"""Spans that are shown, as a table inside a larger statement: for numbers over many spans instead of pages of them.

A row of ``spans`` is joined to the head of its key (``spans/heads.py``), so that a version that was replaced or deleted, or that is
there twice because the engine has not merged yet, is not counted. The window and the filter are applied twice: to the
rows, and to find the traces whose heads are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from common.clickhouse.span_columns import NO_PARENT
from query_api.spans.compile import EVERY_ROW
from query_api.spans.heads import SHOWN_HEADS, SHOWN_REPORTS, SHOWN_SUMS
from query_api.spans.usage import repeats_sql

IS_ROOT: Final = f"parent_id = toFixedString(unhex('{NO_PARENT.hex()}'), 16)"
"""A condition on a row of ``spans``."""

_VERSION: Final = "trace_id, span_id, log, log_offset, start_us"

_REPEATS: Final = (
    "SELECT trace_id, span_id, NOT counts_tokens AS repeats_tokens, NOT counts_costs AS repeats_costs"
    f" FROM ({repeats_sql(SHOWN_REPORTS)})"
)
"""The spans whose tokens or costs do not count, because a span below them reports some (ADR 0010)."""


SORTED_SIDE_BY_SIDE: Final = {"join_algorithm": "full_sorting_merge"}
"""Settings of a statement over many shown spans. Both sides of its joins are sorted, which heads are as they are stored, and merged: a
quarter less work than hash tables over keys of 60 bytes, half the time on two processors, and what does not fit into memory goes
to disk. Where a filter leaves few rows it takes a tenth longer."""


def shown_spans(
    columns: Mapping[str, str],
    conditions: Sequence[str],
    *,
    and_also: Sequence[str] = (),
    with_sums: bool = False,
    with_repeats: bool = False,
) -> str:
    """A subquery with ``start_us`` and the columns, a row for each span that is shown and meets all conditions.

    ``columns``: name → expression over a row of ``spans``, as ``conditions`` are. ``and_also`` are
    conditions that are not worth looking at twice. ``with_sums`` adds the columns of ``Metrics``: what the shown spans of the
    row's whole trace used together, 0 where nothing. ``with_repeats`` adds ``repeats_tokens`` and ``repeats_costs``: 1 where
    spans below it say again what it says, so that its own do not count.
    """
    where = " AND ".join(["{of_project}", *conditions])
    rows_where = " AND ".join([where, *and_also])
    members = "".join(f", {expression} AS {name}" for name, expression in columns.items())
    has_conditions = any(condition != EVERY_ROW.sql for condition in conditions)
    in_traces = f"trace_id IN (SELECT trace_id FROM spans WHERE {where})" if has_conditions else EVERY_ROW.sql
    heads, sums, repeats = (each.replace("{which}", in_traces) for each in (SHOWN_HEADS, SHOWN_SUMS, _REPEATS))
    joined = f"LEFT ANY JOIN ({sums}) AS sums ON sums.trace_id = heads.trace_id\n" if with_sums else ""
    if with_repeats:
        joined += (
            f"LEFT ANY JOIN ({repeats}) AS repeats"
            " ON repeats.trace_id = heads.trace_id AND repeats.span_id = heads.span_id\n"
        )
    return (
        f"SELECT *\nFROM ({heads}) AS heads\n"
        f"ANY INNER JOIN (SELECT {_VERSION}{members} FROM spans WHERE {rows_where}) AS matching USING ({_VERSION})\n{joined}"
    )
