"""The statement behind ``/spans/analytics/query``: every statistic of every bucket in one pass over the spans (reference §10.1).

The statement is made in layers, each a subquery over the one before, because the engine plans an expression anew wherever it
stands: values of spans, aggregates over the spans of a bucket, and steps from those to what the answer shows. What the
statistics mean is in ``summaries.py`` and ``histogram.py``, and for users in docs/analytics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from common.codec.checks import json_double
from query_api.analytics.buckets import Buckets
from query_api.analytics.histogram import Bins, counting_steps, histogram
from query_api.analytics.specs import ATTRIBUTES, MetricSpec, MetricType
from query_api.analytics.summaries import PERCENTILES, frequencies, numbers
from query_api.analytics.values import Values
from query_api.spans.project_spans import ProjectSpans

FREQUENCIES_MAX: Final = 10_000
"""So many values are told of one metric in one bucket: the most frequent. ``count`` and ``uniq`` count all."""

Row = Mapping[str, Any]
Members = dict[str, Any]
Columns = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Statistic:
    """What is computed of one value, bucket by bucket.

    ``aggregates`` are over the spans of a bucket, by name; each of ``steps`` is over these and the steps before. All names
    have ``prefix`` before them. ``members`` makes the answer's members of the columns ``answered``, which it gets without
    the prefix; ``count`` is always among them, unless there is nothing to say.
    """

    prefix: str
    aggregates: Columns
    answered: Sequence[str]
    members: Callable[[Row], Members]
    steps: Sequence[Columns] = ()

    def row(self, columns: Row) -> Row:
        """The columns of this statistic, by their names."""
        return {name: columns[f"{self.prefix}{name}"] for name in self.answered}


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
            return _discrete(values.number(spec.key), prefix)
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


def _statement(statistics: Sequence[Statistic], values: Values, conditions: Sequence[str]) -> str:
    aggregates = "".join(f", {sql} AS {name}" for each in statistics for name, sql in each.aggregates.items())
    layer = (
        "SELECT intDiv(time_us - {oldest_us:Int64}, {interval_us:Int64}) AS bucket"
        f"{aggregates}\nFROM ({values.rows(conditions)})\nGROUP BY bucket"
    )
    for steps in zip_longest(*(each.steps for each in statistics), fillvalue={}):
        columns = "".join(f", {sql} AS {name}" for step in steps for name, sql in step.items())
        layer = f"SELECT *{columns}\nFROM ({layer})"
    answered = "".join(f", {each.prefix}{name}" for each in statistics for name in each.answered)
    return f"SELECT bucket{answered}\nFROM ({layer})\nORDER BY bucket\n"


def _continuous(spec: MetricSpec, values: Values, prefix: str) -> Statistic:
    """Numbers, and how they lie in bins."""

    def members(row: Row) -> Members:
        bins = Bins(row["first"], row["last"], len(row["bins"]))
        return {**_numbers(row), "hist": histogram(bins, row["bins"])}

    aggregates = _aggregates(values.number(spec.key), prefix)
    steps = counting_steps(spec, prefix, values.parameters)
    return Statistic(prefix, aggregates, (*_NUMBERS, "first", "last", "bins"), members, [_percentiles(prefix), *steps])


def _discrete(number: str, prefix: str) -> Statistic:
    """Numbers, and how often each occurs."""

    def members(row: Row) -> Members:
        return {**_numbers(row), **_frequencies(row, json_double)}

    aggregates, steps = _aggregates(number, prefix), [_percentiles(prefix), *_frequency_steps(prefix)]
    return Statistic(prefix, aggregates, (*_NUMBERS, "freq", "uniq"), members, steps)


def _categorical(texts: str, prefix: str) -> Statistic:
    """Texts, and how often each occurs. ``texts`` is an array of those of one span."""

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
    """How many there are."""
    return Statistic(prefix, {f"{prefix}count": f"countIf({counted})"}, ("count",), dict)


_NUMBERS: Final = ("count", "sum", "min", "max", "percentiles")


def _aggregates(number: str, prefix: str) -> Columns:
    """The numbers of a bucket, ``values``, and what is said of them whatever their kind."""
    functions = {"count": "count", "sum": "sum", "min": "min", "max": "max", "values": "groupArray"}
    return {f"{prefix}{name}": f"{function}({number})" for name, function in functions.items()}


def _percentiles(prefix: str) -> Columns:
    levels = ", ".join(f"{percent / 100:g}" for percent in PERCENTILES)
    return {f"{prefix}percentiles": f"arrayReduce('quantilesExactInclusive({levels})', {prefix}values)"}


def _numbers(row: Row) -> Members:
    return numbers(
        count=row["count"], total=row["sum"], low=row["min"], high=row["max"], percentiles=row["percentiles"]
    )


def _frequency_steps(prefix: str) -> list[Columns]:
    """From ``values`` to ``freq``, the distinct ones with their counts, most frequent first, then by value; and ``uniq``.

    Sorted, equal values stand together: the rank of one among its equals is 1 where they begin, and how many they are where
    they end. Sorting takes 0.1 s for a million texts of few kinds and half a second where most are different; a map that
    counts takes half as long for the former and three times as long for the latter. No lambda holds an array: the engine
    would copy it for every element.
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


def _frequencies(row: Row, shown: Callable[[Any], Any]) -> Members:
    counts = [(shown(pair["1"]), pair["2"]) for pair in row["freq"]]
    return frequencies(counts, count=row["count"], distinct_count=row["uniq"])
