"""``/tracing/spans/analytics``: the number of spans per bucket, and their durations, costs and tokens (reference
§10.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from common.codec.checks import json_double
from query_api.analytics.buckets import Buckets
from query_api.analytics.values import Values
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.windowing import Focus

NOTHING: Final = {"count": 0, "duration": 0, "costs": 0, "tokens": 0}
_SUMS: Final = ("duration", "costs", "tokens")

IS_ERROR: Final = (
    "(position(events, '\"exception\"') > 0"  # most spans have no events: their JSON is not parsed
    " AND arrayExists(event -> JSONExtractString(event, 'name') = 'exception', JSONExtractArrayRaw(events)))"
)


async def counts_of(
    spans: ProjectSpans, values: Values, conditions: Sequence[str], buckets: Buckets, *, focus: Focus
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return, for each bucket, the sums of all its spans and of those with an exception.

    A trace counts with what all its spans used. A span counts with what it used itself, without what spans below it
    report again (ADR 0010). So both add up to the same sums.
    """
    numbers = {"duration": values.number("ag.metrics.duration.cumulative")}
    for unit in ("costs", "tokens"):
        in_all = focus is Focus.TRACE
        numbers[unit] = values.number(f"ag.metrics.{unit}.cumulative.total") if in_all else values.used(unit)
    is_error = values.of_row(IS_ERROR)
    total = [f"sum({number}) AS total_{name}" for name, number in numbers.items()]
    errors = [f"sumIf({number}, {is_error}) AS errors_{name}" for name, number in numbers.items()]
    sql = (
        "SELECT intDiv(time_us - {oldest_us:Int64}, {interval_us:Int64}) AS bucket, count() AS total_count,"
        f" countIf({is_error}) AS errors_count, {', '.join([*total, *errors])}\n"
        f"FROM ({values.rows(conditions)})\nGROUP BY bucket\n"
    )
    parameters = {**values.parameters.values, "oldest_us": buckets.oldest_us, "interval_us": buckets.interval_us}
    rows = (await spans.select(sql, parameters, step="counts of buckets")).to_pylist()
    found = {row["bucket"]: (_part(row, "total"), _part(row, "errors")) for row in rows}
    return [found.get(index, (NOTHING, NOTHING)) for index in range(buckets.count)]


def _part(row: dict[str, Any], part: str) -> dict[str, Any]:
    count = row[f"{part}_count"]
    if not count:
        return NOTHING
    sums = {name: row[f"{part}_{name}"] for name in _SUMS}
    return {"count": count, **{name: json_double(value) for name, value in sums.items() if value is not None}}
