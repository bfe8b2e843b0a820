"""``clearspan groups``: measures of groups of spans, as a table with bars or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Annotated, Any, Final, NamedTuple

from rich.text import Text

from clearspan.client.connection import ApiClient, WrongUsage, api_command
from clearspan.client.output import TableColumn, bar, bar_width, note, print_objects, print_table, safe, sparkline
from clearspan.client.requests import filtering_of, read_field, windowing_of
from clearspan.client.span_values import cost_text, duration_text, local_time
from clearspan.command import Json, Option
from clearspan.options import SpanOptions, WindowOptions, limit

INTERVALS: Final = ("1m", "5m", "15m", "30m", "1h", "3h", "6h", "12h", "1d")
DESCRIPTION: Final = """\
Group spans by up to three values and measure each group: how many spans, what they cost, how long they took. With
--interval, show how the groups developed.
"""
EXAMPLES: Final = """\
examples
  clearspan groups --by model
  clearspan groups --by service,span_type --measures count,errors,duration.p95 --last 1d
  clearspan groups --by user --measures cost.sum,tokens.sum,session.uniq --sort cost.sum --limit 10
  clearspan groups --interval 1h --last 7d span_type is chat
  clearspan groups --by model --measures cost.sum --interval 1d --json

A measure is count, errors, or a value and a statistic: sum avg min max p50 p90 p95 p99 uniq. The value is duration (in
milliseconds), tokens, cost, the path of an attribute, or for uniq any field. Groups are sorted by the first measure.
"""
BAR_WIDTH: Final = 20
SPARKS_MAX: Final = 60
SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}
ALONE: Final = frozenset({"count", "errors"})
"""Measures without a statistic."""

STATISTICS: Final = frozenset({"sum", "avg", "min", "max", "p50", "p90", "p95", "p99", "uniq"})

Result = Mapping[str, Any]
"""A group or a bucket of it: ``by``, ``values`` and ``at``."""


class MeasureName(NamedTuple):
    """A measure as people write it: ``count``, ``cost.sum``, ``attributes.score.avg``."""

    of: str
    statistic: str | None

    @property
    def text(self) -> str:
        """The title of its column."""
        return self.of if self.statistic is None else f"{self.of}.{self.statistic}"

    @property
    def _name(self) -> str:
        """Its name in an answer: the key, unless two measures would then have one name."""
        return self.of if self.of in ALONE else read_field(self.of).get("key", self.of)

    def value_in(self, result: Result) -> float | None:
        """Return its value in a group; ``None`` if no span adds to it."""
        values = result["values"]
        found = values.get(self._name, values.get(self.of))
        value = found.get(self.statistic) if isinstance(found, Mapping) and self.statistic else found
        return value if isinstance(value, int | float) else None

    def cell(self, value: float | None) -> str:
        """Return a value as people read it."""
        if value is None:
            return ""
        if self.statistic != "uniq" and self.of == "cost":
            return cost_text(value)
        if self.statistic != "uniq" and self.of == "duration":
            return duration_text(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


class GroupTable(NamedTuple):
    """What is shown: the values by which spans are grouped, the measures, and the one of the bars."""

    by: Sequence[str]
    measures: Sequence[MeasureName]
    sort: MeasureName


class GroupOptions(NamedTuple):
    """How spans are grouped and measured; lists are separated by commas."""

    by: Annotated[str | None, Option("A,B", "up to three fields or paths, such as model,attributes.customer")] = None
    measures: Annotated[str, Option("A,B", "what to compute (default: %(default)s)")] = (
        "count,errors,duration.p50,duration.p95,tokens.sum,cost.sum"
    )
    sort: Annotated[str | None, Option("MEASURE", "which groups come first (default: the first measure)")] = None
    order: Annotated[
        str, Option(None, "order of --sort (default: descending)", choices=("ascending", "descending"))
    ] = "descending"
    interval: Annotated[
        str | None, Option(None, "divide the window into buckets of this length", choices=INTERVALS)
    ] = None
    limit: Annotated[int, Option("N", "at most N groups (default: 20)", type=limit)] = 20


@api_command(description=DESCRIPTION, epilog=EXAMPLES, is_table=True)
async def groups(
    api: ApiClient,
    *,
    spans: SpanOptions,
    window: WindowOptions,
    grouping: GroupOptions,
    as_json: Json = False,
) -> int:
    """Print groups of spans."""
    named = [read_measure(text) for text in _listed(grouping.measures)]
    table = GroupTable(
        _listed(grouping.by or ""), named, named[0] if grouping.sort is None else read_measure(grouping.sort)
    )
    body = {
        **await filtering_of(api, spans),
        "group_by": [read_field(name) for name in table.by],
        "measures": _measures(dict.fromkeys([*named, table.sort])),
        "order_by": {**_as_request(table.sort), "order": grouping.order},
        "limit": grouping.limit,
        "windowing": windowing_of(window),
    }
    if grouping.interval is not None:
        body["interval"] = grouping.interval
    answer = await api.post("/spans/groups/query", body)
    if as_json:
        print_objects(answer["groups"])
    elif not answer["groups"]:
        note("No span matches.")
    else:
        _print(table, answer, interval=grouping.interval)
    if answer.get("complete") is False:
        examined = answer.get("examined", {})
        note(f"The time of the query ended: only spans from {examined.get('oldest')} on are counted.")
    return 0


def read_measure(text: str) -> MeasureName:
    """Read a measure. Raises ``WrongUsage``."""
    of, _, statistic = text.rpartition(".")
    if text in ALONE:
        return MeasureName(text, None)
    if not of or statistic not in STATISTICS:
        raise WrongUsage(
            f"{text!r} is not a measure; allowed: count, errors, and a value with a statistic, such as cost.sum or"
            f" duration.p95 ({' '.join(sorted(STATISTICS))})."
        )
    read_field(of)
    return MeasureName(of, statistic)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _as_request(measure: MeasureName) -> dict[str, Any]:
    if measure.statistic is None:
        return {"of": measure.of}
    return {"of": _of(measure.of), "as": measure.statistic}


def _of(name: str) -> str | dict[str, str]:
    named = read_field(name)
    return named if "key" in named else named["field"]


def _measures(measures: Mapping[MeasureName, None]) -> list[dict[str, Any]]:
    """Return the measures of a request: one for each value, with all of its statistics."""
    statistics: dict[str, list[str]] = {}
    for measure in measures:
        statistics.setdefault(measure.of, []).extend([measure.statistic] if measure.statistic else [])
    return [
        {"of": of} if of in ALONE else {"of": _of(of), "as": statistics_of} for of, statistics_of in statistics.items()
    ]


def _print(table: GroupTable, answer: Mapping[str, Any], *, interval: str | None) -> None:
    results: Sequence[Result] = answer["groups"]
    if interval is not None and table.by:
        _print_sparklines(table, results, seconds=int(interval[:-1]) * SECONDS[interval[-1]])
    else:
        _print_rows(table, results, is_series=interval is not None)
    if others := answer.get("others"):
        values = [f"{measure.text} {measure.cell(measure.value_in(others))}" for measure in table.measures]
        note(f"and {others.get('groups_count', 0):,} more groups: {', '.join(values)}")


def _print_rows(table: GroupTable, results: Sequence[Result], *, is_series: bool) -> None:
    """Print one row for each group, or for each bucket of all spans."""
    width = bar_width(BAR_WIDTH)
    top = max((abs(table.sort.value_in(result) or 0) for result in results), default=0) or 1
    columns = [
        *([TableColumn("start_time", is_whole=True, style="dim")] if is_series else []),
        *(TableColumn(name) for name in table.by),
        *(TableColumn(measure.text, "right", is_whole=True) for measure in table.measures),
        TableColumn("", is_whole=True, is_optional=True),
    ]
    rows = [
        [
            *([_time(result["at"])] if is_series else []),
            *(_by(value) for value in result["by"].values()),
            *(Text(measure.cell(measure.value_in(result))) for measure in table.measures),
            Text(bar(abs(table.sort.value_in(result) or 0) / top, width), "cyan"),
        ]
        for result in results
    ]
    print_table(columns, rows)


def _print_sparklines(table: GroupTable, results: Sequence[Result], *, seconds: int) -> None:
    """Print one row for each group: how the measure of the order developed, in at most ``SPARKS_MAX`` steps."""
    starts = [datetime.fromisoformat(result["at"]).timestamp() for result in results]
    first = min(starts)
    step = seconds * ceil(((max(starts) - first) / seconds + 1) / SPARKS_MAX)
    steps_count = int((max(starts) - first) // step) + 1
    highest: dict[str, list[float | None]] = {}
    by: dict[str, Sequence[Any]] = {}
    for result, start in zip(results, starts, strict=True):
        name = repr(result["by"])
        by[name] = list(result["by"].values())
        values = highest.setdefault(name, [None] * steps_count)
        place = int((start - first) // step)
        values[place] = _larger(values[place], table.sort.value_in(result))
    top = max((value for values in highest.values() for value in values if value is not None), default=0) or 1
    columns = [
        *(TableColumn(name) for name in table.by),
        TableColumn(f"{table.sort.text} since {_time(min(result['at'] for result in results))}", is_whole=True),
        TableColumn("highest", "right", is_whole=True),
    ]
    rows = [
        [
            *map(_by, by[name]),
            Text(sparkline(values, top), "cyan"),
            Text(table.sort.cell(max((value for value in values if value is not None), default=None))),
        ]
        for name, values in highest.items()
    ]
    print_table(columns, rows)


def _larger(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _by(value: Any) -> Text:
    return Text("(none)", "dim") if value is None else safe(value)


def _time(text: str) -> str:
    return local_time(text)[:16]
