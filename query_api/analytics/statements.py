"""The statement of each analytics route, which computes all buckets and reads the spans once (reference §10.1, §10.2).

The statement of ``/spans/analytics/query`` has layers, each a subquery over the one before, because the engine plans an
expression again at each place that names it: values of spans, aggregates over the spans of a bucket, and steps from
those to what the response shows. ``statistics.py`` defines the statistics, docs/analytics.md explains them to users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from common.clickhouse.select import Select
from common.codec.checks import json_double
from common.usage import dollars_sql, exact_total_sql, units_sql
from query_api.analytics.models import ATTRIBUTES, MetricSpec, MetricType
from query_api.analytics.statistics import PERCENTILES, Bins, counting_steps, frequencies, histogram, numbers
from query_api.analytics.values import Values
from query_api.spans.project_spans import ProjectSpans
from query_api.spans.windowing import Focus

FREQUENCIES_MAX: Final = 10_000
"""Values that a response lists for one metric in one bucket: the most frequent. ``count`` and ``uniq`` count all."""

IS_ERROR: Final = (
    "(position(events, '\"exception\"') > 0"  # most spans have no events: their JSON is not parsed
    " AND arrayExists(event -> JSONExtractString(event, 'name') = 'exception', JSONExtractArrayRaw(events)))"
)
NOTHING: Final = {"count": 0, "duration": 0, "costs": 0, "tokens": 0}
"""The counts of a bucket without spans."""

_BUCKET: Final = "intDiv(time_us - {oldest_us:Int64}, {interval_us:Int64}) AS bucket"

Row = Mapping[str, Any]
Members = dict[str, Any]
Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Statistic:
    """The computation of the statistics of one value in each bucket.

    ``aggregates`` are expressions over the spans of a bucket, by name; each of ``steps`` is over these and the steps
    before. All names start with ``prefix``. ``members`` turns the columns ``selected``, without the prefix, into
    members of the response; ``count`` is always selected, unless there is nothing to compute.
    """

    prefix: str
    aggregates: Columns
    selected: Sequence[str]
    members: Callable[[Row], Members]
    steps: Sequence[Columns] = ()

    def row(self, columns: Row) -> Row:
        """Return the columns of this statistic by their names."""
        return {name: columns[f"{self.prefix}{name}"] for name in self.selected}


async def metrics_of(spans: ProjectSpans, specs: Sequence[MetricSpec], values: Values) -> dict[int, dict[str, Any]]:
    """Return the metrics by path of each bucket that has values, by the index of the bucket, in order.

    The parameters of the buckets are in ``values``.
    """
    statistics = [_statistic_of(spec, values, f"metric{index}_") for index, spec in enumerate(specs)]
    query = _in_layers(statistics, values.rows(spans.project_id))
    rows = await spans.select(query, step="statistics of buckets")
    found: dict[int, dict[str, Any]] = {}
    for columns in rows.to_pylist():
        metrics: dict[str, Any] = {}
        for statistic, spec in zip(statistics, specs, strict=True):
            row = statistic.row(columns)
            if row and row["count"]:
                path = ATTRIBUTES + spec.key
                metrics[path] = {"type": spec.type, **statistic.members(row), **metrics.get(path, {})}
        if metrics:
            found[columns["bucket"]] = metrics
    return found


def _statistic_of(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    match spec.type:
        case MetricType.CONTINUOUS:
            return _continuous(spec, values, prefix)
        case MetricType.DISCRETE:
            return _discrete(spec, values, prefix)
        case MetricType.SINGLE:
            return _categorical(values.texts(spec.key), prefix)
        case MetricType.MULTIPLE:
            return _categorical(values.texts_of_array(spec.key), prefix)
        case MetricType.BINARY:
            return _binary(values.typed(spec.key), prefix)
        case MetricType.STRING:
            return _counted(f"startsWith({values.typed(spec.key)}, 's')", prefix)
        case MetricType.JSON:
            return _counted(values.is_object(spec.key), prefix)
        case MetricType.ANY:
            return _counted(values.exists(spec.key), prefix)
        case MetricType.NONE:
            return Statistic(prefix, {}, (), dict)


def _in_layers(statistics: Sequence[Statistic], rows: Select) -> Select:
    aggregates = [f"{sql} AS {name}" for statistic in statistics for name, sql in statistic.aggregates.items()]
    layer = Select(rows.project_id, rows, [_BUCKET, *aggregates], group_by=["bucket"])
    for steps in zip_longest(*(statistic.steps for statistic in statistics), fillvalue={}):
        columns = [f"{sql} AS {name}" for step in steps for name, sql in step.items()]
        layer = Select(rows.project_id, layer, ["*", *columns])
    selected = [f"{statistic.prefix}{name}" for statistic in statistics for name in statistic.selected]
    return Select(rows.project_id, layer, ["bucket", *selected], order_by=["bucket"])


def _continuous(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """Numbers and their histogram."""

    def members(row: Row) -> Members:
        bins = Bins(row["first"], row["last"], len(row["bins"]))
        return {**numbers(row, are_costs=spec.are_costs), "hist": histogram(bins, row["bins"])}

    aggregates = _aggregates(spec, values, prefix)
    steps = counting_steps(spec, prefix, values.parameters)
    return Statistic(
        prefix, aggregates, (*_NUMBER_COLUMNS, "first", "last", "bins"), members, [_percentiles(prefix), *steps]
    )


def _discrete(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """Numbers, and how often each occurs."""

    def members(row: Row) -> Members:
        return {**numbers(row, are_costs=spec.are_costs), **_frequencies(row, json_double)}

    aggregates, steps = _aggregates(spec, values, prefix), [_percentiles(prefix), *_frequency_steps(prefix)]
    return Statistic(prefix, aggregates, (*_NUMBER_COLUMNS, "freq", "uniq"), members, steps)


def _categorical(texts: str, prefix: str) -> Statistic:
    """Texts, and how often each occurs. ``texts`` is an array with the texts of one span."""

    def members(row: Row) -> Members:
        return {"count": row["count"], **_frequencies(row, bytes.decode)}

    aggregates = {f"{prefix}count": f"sum(length({texts}))", f"{prefix}values": f"groupArrayArray({texts})"}
    return Statistic(prefix, aggregates, ("count", "freq", "uniq"), members, _frequency_steps(prefix))


def _binary(typed: str, prefix: str) -> Statistic:
    """Booleans, and how often each occurs."""

    def members(row: Row) -> Members:
        count, true = row["count"], row["true"]
        found = [(value, times) for value, times in ((False, count - true), (True, true)) if times]
        most_first = sorted(found, key=lambda pair: -pair[1])
        return {"count": count, **frequencies(most_first, count=count, distinct_count=len(found))}

    aggregates = {f"{prefix}count": f"countIf({typed} IN ('b0', 'b1'))", f"{prefix}true": f"countIf({typed} = 'b1')"}
    return Statistic(prefix, aggregates, ("count", "true"), members)


def _counted(counted: str, prefix: str) -> Statistic:
    """The number of values."""
    return Statistic(prefix, {f"{prefix}count": f"countIf({counted})"}, ("count",), dict)


_NUMBER_COLUMNS: Final = ("count", "sum", "min", "max", "percentiles")


def _aggregates(spec: MetricSpec, values: Values, prefix: str) -> Columns:
    """The numbers of a bucket, ``values``, and the aggregates that both kinds of number have."""
    number = values.number(spec.key)
    functions = {"count": "count", "min": "min", "max": "max", "values": "groupArray"}
    aggregates = {f"{prefix}{name}": f"{function}({number})" for name, function in functions.items()}
    return {**aggregates, f"{prefix}sum": exact_total_sql(number) if spec.are_costs else f"sum({number})"}


def _percentiles(prefix: str) -> Columns:
    levels = ", ".join(f"{percent / 100:g}" for percent in PERCENTILES)
    return {f"{prefix}percentiles": f"arrayReduce('quantilesExactInclusive({levels})', {prefix}values)"}


def _frequency_steps(prefix: str) -> list[Columns]:
    """From ``values`` to ``freq``, the distinct values with their counts, most frequent first, then by value; and
    ``uniq``.

    Sorting puts equal values next to each other: the rank of a value among its equals is 1 at the first, and their
    number at the last. Sorting a million texts takes 0.1 s if few are different and half a second if most are; a map
    that counts takes half as long for the former and three times as long for the latter. No lambda captures an array:
    the engine would copy it for every element.
    """
    p = prefix
    begins = f"arrayFilter((value, rank) -> rank = 1, {p}sorted, {p}ranks)"
    lengths = f"arrayFilter((rank, next) -> next = 1, {p}ranks, arrayPopFront(arrayPushBack({p}ranks, 1)))"
    by_count = f"arraySort(pair -> (-toInt64(pair.2), pair.1), arrayZip({begins}, {lengths}))"
    return [
        {f"{p}sorted": f"arraySort({p}values)"},
        {f"{p}ranks": f"arrayEnumerateUniq({p}sorted)"},
        {f"{p}freq": f"arraySlice({by_count}, 1, {FREQUENCIES_MAX})", f"{p}uniq": f"countEqual({p}ranks, 1)"},
    ]


def _frequencies(row: Row, convert: Callable[[Any], Any]) -> Members:
    counts = [(convert(pair["1"]), pair["2"]) for pair in row["freq"]]
    return frequencies(counts, count=row["count"], distinct_count=row["uniq"])


async def counts_of(
    spans: ProjectSpans, values: Values, *, focus: Focus, buckets_count: int
) -> list[tuple[Members, Members]]:
    """Return, for each bucket, the sums of all its spans and of those with an exception.

    A trace counts with what all its spans used. A span counts with what it used itself, without what spans below it
    report again (ADR 0010). So both add up to the same sums.
    """
    numbers = {"duration": values.number("ag.metrics.duration.cumulative")}
    for unit in ("costs", "tokens"):
        in_all = focus is Focus.TRACE
        numbers[unit] = values.number(f"ag.metrics.{unit}.cumulative.total") if in_all else values.used(unit)
    is_error = values.of_row(IS_ERROR)
    total = [f"{_sum(name, number)} AS total_{name}" for name, number in numbers.items()]
    errors = [f"{_sum(name, number, only_if=is_error)} AS errors_{name}" for name, number in numbers.items()]
    counts = [_BUCKET, "count() AS total_count", f"countIf({is_error}) AS errors_count"]
    query = Select(spans.project_id, values.rows(spans.project_id), [*counts, *total, *errors], group_by=["bucket"])
    rows = (await spans.select(query, step="counts of buckets")).to_pylist()
    found = {row["bucket"]: (_part(row, "total"), _part(row, "errors")) for row in rows}
    return [found.get(index, (NOTHING, NOTHING)) for index in range(buckets_count)]


def _sum(name: str, number: str, *, only_if: str = "") -> str:
    are_costs = name == "costs"
    added = units_sql(number) if are_costs else number
    total = f"sumIf({added}, {only_if})" if only_if else f"sum({added})"
    return dollars_sql(total) if are_costs else total


def _part(row: Row, part: str) -> Members:
    count = row[f"{part}_count"]
    if not count:
        return NOTHING
    sums = {name: row[f"{part}_{name}"] for name in ("duration", "costs", "tokens")}
    return {"count": count, **{name: json_double(value) for name, value in sums.items() if value is not None}}
