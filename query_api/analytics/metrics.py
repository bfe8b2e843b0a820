"""The statement behind ``/spans/analytics/query``: every statistic of every bucket in one pass over the spans (reference §10.1).

The statement is made in layers, each a subquery over the one before, because the engine plans an expression anew wherever it
stands: values of spans, aggregates over the spans of a bucket, and runs: what is distinct in an array, and how often it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.codec.checks import json_double
from query_api.analytics.buckets import Buckets
from query_api.analytics.specs import ATTRIBUTES, BINS_MAX, HUGE, SHRUNK, MetricSpec, MetricType
from query_api.analytics.summaries import PERCENTILES, frequencies, histogram, numbers
from query_api.analytics.values import Values
from query_api.spans.project_spans import ProjectSpans

FREQUENCIES_MAX: Final = 10_000
"""So many values are told of one metric in one bucket: the most frequent. ``count`` counts all."""

Row = Mapping[str, Any]
Members = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is computed of one value, bucket by bucket.

    ``scalars`` are aggregates that the answer is made of, by name, ``lists`` those that only ``runs`` looks at. ``runs`` is an
    array over both: the answer gets its distinct elements with their counts, most frequent first, as ``runs``. In
    expressions the names of aggregates have ``prefix`` before them, in the row that ``members`` takes they have not.
    """

    prefix: str
    scalars: Mapping[str, str]
    members: Callable[[Row], Members]
    lists: Mapping[str, str] = field(default_factory=dict)
    runs: str | None = None

    def row(self, columns: Row) -> Row:
        """The columns of this statistic, by their names."""
        names = [*self.scalars, *(["runs"] if self.runs is not None else [])]
        return {name: columns[f"{self.prefix}{name}"] for name in names}


async def metrics_of(
    spans: ProjectSpans, specs: Sequence[MetricSpec], values: Values, conditions: Sequence[str], buckets: Buckets
) -> dict[int, dict[str, Any]]:
    """Index of a bucket → its metrics by path, where it has any; in order.

    ``conditions`` are those of the spans that count, over a row of ``spans``, with parameters in ``values``.
    """
    statistics = [statistic_of(spec, values, f"metric{index}_") for index, spec in enumerate(specs)]
    sql = _statement(statistics, values, conditions)
    parameters = {**values.parameters.values, "oldest_us": buckets.oldest_us, "interval_us": buckets.interval_us}
    rows = await spans.select(sql, parameters, step="statistics of buckets")
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


def bins_in_all(specs: Sequence[MetricSpec], buckets: Buckets) -> int:
    """How many bins an answer can have that were asked for; those by default are never more than the values."""
    return buckets.count * sum(spec.bins or 0 for spec in specs if spec.type is MetricType.CONTINUOUS)


def statistic_of(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """What computes the statistics that a spec asks for."""
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
        case MetricType.NONE | MetricType.ANY:
            return Statistic(prefix, {}, dict)


def _statement(statistics: Sequence[Statistic], values: Values, conditions: Sequence[str]) -> str:
    scalars = {f"{each.prefix}{name}": sql for each in statistics for name, sql in each.scalars.items()}
    lists = {f"{each.prefix}{name}": sql for each in statistics for name, sql in each.lists.items()}
    runs = {f"{each.prefix}runs": each.runs for each in statistics if each.runs is not None}
    kept = "".join(f", {name}" for name in scalars)
    ordered = "".join(f", arraySort({array}) AS {name}" for name, array in runs.items())
    ranked = "".join(f", {name}, arrayEnumerateUniq({name}) AS {name}_ranks" for name in runs)
    counted = "".join(f", {_counted_runs(name, f'{name}_ranks')} AS {name}" for name in runs)
    aggregates = "".join(f", {sql} AS {name}" for name, sql in {**scalars, **lists}.items())
    return (
        f"SELECT bucket{kept}{counted}\n"
        f"FROM (SELECT bucket{kept}{ranked}\n"
        f"FROM (SELECT bucket{kept}{ordered}\n"
        "FROM (SELECT intDiv(start_us - {oldest_us:Int64}, {interval_us:Int64}) AS bucket"
        f"{aggregates}\nFROM ({values.rows(conditions)})\nGROUP BY bucket)))\nORDER BY bucket\n"
    )


def _counted_runs(elements: str, ranks: str) -> str:
    """The distinct elements of a sorted array with their counts, most frequent first, then by element.

    The rank of an element among its equals begins anew where a run begins, and is the length of the run where it ends. No
    lambda holds an array: the engine would copy it for every element.
    """
    begins = f"arrayFilter((element, rank) -> rank = 1, {elements}, {ranks})"
    lengths = f"arrayFilter((rank, next) -> next = 1, {ranks}, arrayPopFront(arrayPushBack({ranks}, 1)))"
    by_count = f"arraySort(run -> (-toInt64(run.2), run.1), arrayZip({begins}, {lengths}))"
    return f"arraySlice({by_count}, 1, {FREQUENCIES_MAX})"


def _continuous(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """Numbers, and how they lie in bins."""
    number = values.number(spec.key)

    def members(row: Row) -> Members:
        counts = dict(_runs(row))
        hist = histogram(spec, counts, count=row["count"], low=row["low"], high=row["high"])
        return {**_numbers(row), "hist": hist}

    bins = _bins(spec, values, prefix)
    return Statistic(prefix, _basics(number), members, {"values": f"groupArray({number})"}, bins)


def _discrete(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """Numbers, and how often each occurs."""
    number = values.number(spec.key)

    def members(row: Row) -> Members:
        counts = [(json_double(value), times) for value, times in _runs(row)]
        return {**_numbers(row), **frequencies(counts, count=row["count"])}

    return Statistic(prefix, _basics(number), members, {"values": f"groupArray({number})"}, f"{prefix}values")


def _categorical(texts: str, prefix: str) -> Statistic:
    """Texts, and how often each occurs. ``texts`` is an array of those of one span."""

    def members(row: Row) -> Members:
        counts = [(value.decode(), times) for value, times in _runs(row)]
        return {"count": row["count"], **frequencies(counts, count=row["count"])}

    scalars = {"count": f"sum(length({texts}))"}
    return Statistic(prefix, scalars, members, {"values": f"groupArrayArray({texts})"}, f"{prefix}values")


def _binary(typed: str, prefix: str) -> Statistic:
    """Booleans; both are told of, also where one does not occur."""

    def members(row: Row) -> Members:
        count, true = row["count"], row["true"]
        return {"count": count, **frequencies([(True, true), (False, count - true)], count=count)}

    return Statistic(
        prefix, {"count": f"countIf({typed} IN ('b0', 'b1'))", "true": f"countIf({typed} = 'b1')"}, members
    )


def _counted(counted: str, prefix: str) -> Statistic:
    """How many there are."""
    return Statistic(prefix, {"count": f"countIf({counted})"}, dict)


def _basics(number: str) -> dict[str, str]:
    levels = ", ".join(map(str, PERCENTILES.values()))
    return {
        "count": f"count({number})",
        "sum": f"sum({number})",
        "low": f"min({number})",
        "high": f"max({number})",
        "percentiles": f"quantilesExactInclusive({levels})({number})",
    }


def _numbers(row: Row) -> Members:
    return numbers(
        count=row["count"], total=row["sum"], low=row["low"], high=row["high"], percentiles=row["percentiles"]
    )


def _runs(row: Row) -> list[tuple[Any, int]]:
    return [(run["1"], run["2"]) for run in row["runs"]]


def _bins(spec: MetricSpec, values: Values, prefix: str) -> str:
    """The bin, from 0, of each value between the ends. ``specs.Bins`` says the same of where a bin ends."""
    place = values.parameters.place
    low = f"ifNull({prefix}low, 0)" if spec.vmin is None else place("Float64", spec.vmin)
    high = f"ifNull({prefix}high, 0)" if spec.vmax is None else place("Float64", spec.vmax)
    asked = (
        f"least(toUInt32(ceil(sqrt({prefix}count))), {BINS_MAX})" if spec.bins is None else place("UInt32", spec.bins)
    )
    bins = f"if({low} = {high} OR {prefix}count = 1, 1, {asked})"
    steps, shift = (bins, 0) if spec.edge is not False else (f"({bins} - 1)", 0.5)
    scale = f"if(greatest(abs({low}), abs({high})) > {HUGE}, {SHRUNK}, 1.)"
    bin_ = f"(number * {scale} - {low} * {scale}) * {steps} / ({high} * {scale} - {low} * {scale}) + {shift}"
    inside = f"arrayFilter(number -> number >= {low} AND number <= {high}, {prefix}values)"
    return f"arrayMap(number -> if({bins} = 1, 0, least(toUInt32(floor({bin_})), toUInt32({bins} - 1))), {inside})"
