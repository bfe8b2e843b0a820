"""What the spans of a revision took in a window of time: one statement over the spans that are shown.

A *run* is what a trace holds of the revision: it lasts from the first start of its spans to their last end. What its spans
used counts once, as in a trace (``spans/usage.py``), with the spans of the revision for all there are: a root that alone refers to
it counts with what it adds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.codec.checks import json_double
from common.span import AMOUNTS, MODEL_CALLS, Metrics, StatusCode
from common.times import format_us
from query_api.analytics.buckets import Buckets
from query_api.analytics.counts import IS_ERROR
from query_api.filter.models import FilteringModel
from query_api.filter.parse import parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.usage import trace_sums_sql
from query_api.spans.visible_spans import visible_spans

PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_USAGE: Final = tuple(f"{unit}_{amount}" for unit in ("tokens", "costs") for amount in AMOUNTS)
_OF_SPAN: Final[Mapping[str, str]] = {
    "end_us": "end_us",
    "is_call": f"span_type IN ({', '.join(map(repr, MODEL_CALLS))})",
    "is_error": f"(status_code = {StatusCode.STATUS_CODE_ERROR.value} OR {IS_ERROR})",
}
_OF_REPORT: Final = {name: name for name in ("parent_id", "usage_is_own", *Metrics._fields)}
_OF_RUN: Final = (
    "count() AS spans_count, countIf(is_call) AS calls_count, countIf(is_error) AS errors_count,"
    " (max(end_us) - min(start_us)) / 1000 AS lasted_ms"
)
_OF_ALL: Final = (
    "sum(spans_count) AS spans, count() AS traces, sum(calls_count) AS calls, sum(errors_count) AS errors,"
    f" quantilesExactInclusive({', '.join(map(str, PERCENTILES.values()))})(lasted_ms) AS percentiles"
)
_USED: Final = ", ".join(f"sum({name}) AS {name}" for name in _USAGE)


@dataclass(frozen=True, slots=True)
class Counted:
    """Which spans are counted: those that meet the filter and start in the window, its end not in it."""

    filtering: FilteringModel
    window: Buckets


async def counts_of(spans: ProjectSpans, counted: Counted) -> dict[str, Any]:
    """The member ``counts`` of an answer. Raises what ``ProjectSpans.select`` raises: numbers are whole, or there are none."""
    matching = await compile_node(await parse_filter(counted.filtering))
    conditions = ["start_us >= {oldest_us:Int64}", "start_us < {newest_us:Int64}", matching.sql]
    window = {"oldest_us": counted.window.oldest_us, "newest_us": counted.window.newest_us}
    runs = f"SELECT {_OF_RUN}\nFROM ({visible_spans(_OF_SPAN, conditions)})\nGROUP BY trace_id"
    used = trace_sums_sql(visible_spans(_OF_REPORT, conditions))
    sql = (
        f"SELECT *\nFROM (SELECT {_OF_ALL}\nFROM ({runs})) AS runs\nCROSS JOIN (SELECT {_USED}\nFROM ({used})) AS used"
    )
    rows = await spans.select(sql, {**matching.parameters, **window}, step="counts of a revision")
    return {**_asked(counted), **_members(rows.to_pylist()[0])}


def _asked(counted: Counted) -> dict[str, Any]:
    """As ``/spans/query`` takes it, so that what was counted can be looked at."""
    window = counted.window
    return {
        "windowing": {"newest": format_us(window.newest_us), "oldest": format_us(window.oldest_us)},
        "filtering": counted.filtering.model_dump(mode="json", exclude_unset=True),
    }


def _members(row: Mapping[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {name: row[name] for name in ("spans", "traces", "calls", "errors")}
    for unit in ("tokens", "costs"):
        used = {amount: row[f"{unit}_{amount}"] for amount in AMOUNTS}
        is_unused = not any(used.values())
        members[unit] = {amount: json_double(sum_) for amount, sum_ in used.items() if sum_ or is_unused}
    if row["traces"]:
        lasted_ms = zip(PERCENTILES, row["percentiles"], strict=True)
        members["duration_ms"] = {name: json_double(value) for name, value in lasted_ms}
    return members
