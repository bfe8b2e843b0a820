"""What the spans of a trace used, each model call once: which reports count, in Python and in SQL (ADR 0010).

Usage often stands on a span and on what it caused: an agent repeats the tokens of its model calls. What an instrumentation
reports counts exactly where no other span below it, at any depth, reports tokens; costs likewise, by themselves. What is sent as
``ag.metrics.*.incremental``, with no instrumentation on the span, is the span's own by its meaning and always counts. Errors
are no usage: all of them count. So an aggregate counts where it is alone, and the order in which spans arrive is of no matter.

Links are those of the spans that are there. A span that is its own parent has none; one whose parent is not there stands
at the top. Reports in a circle stand below each other, so none of them counts, unless there is no other report in the trace:
then all do, because what was used must not vanish.

The rule is here twice, because a page has the heads of its traces at hand, and sums over many traces must not leave the
engine. A test compares the two. Which versions of spans are shown is the concern of ``heads.py`` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from common.span import NO_METRICS, Metrics

Usage: TypeAlias = tuple[float, float, float]
"""Prompt, completion and total of one unit: tokens, or costs."""

_TOKENS: Final = Metrics._fields[0:3]
_COSTS: Final = Metrics._fields[3:6]


class Report(NamedTuple):
    """What a span says that it used."""

    span_id: bytes
    parent_id: bytes | None
    """``None`` or zeros where it has none."""

    metrics: Metrics
    is_own: bool = False
    """Whether it is no part of what is above or below it, so that it counts whatever others say."""


def counted(spans: Iterable[Report]) -> Metrics:
    """What the spans of one trace used together; in linear time, in any order. No id may stand there twice."""
    metrics_of: dict[bytes, Metrics] = {}
    parent_of: dict[bytes, bytes | None] = {}
    own: set[bytes] = set()
    for span_id, parent_id, metrics, is_own in spans:
        if metrics is not NO_METRICS:
            metrics_of[span_id] = metrics
            if is_own:
                own.add(span_id)
        if parent_id != span_id:
            parent_of[span_id] = parent_id
    tokens = {span_id: each[0:3] for span_id, each in metrics_of.items() if any(each[0:3])}
    costs = {span_id: each[3:6] for span_id, each in metrics_of.items() if any(each[3:6])}
    errors = sum(each.errors for each in metrics_of.values())
    return Metrics(*_total(tokens, parent_of, own), *_total(costs, parent_of, own), errors=errors)


def _total(reports: Mapping[bytes, Usage], parent_of: Mapping[bytes, bytes | None], own: set[bytes]) -> Usage:
    """What counts of the reports of one unit, added up."""
    repeats: Collection[bytes] = ()
    if not own.issuperset(reports) and not reports.keys().isdisjoint(parent_of.values()):
        repeats = _repeats(reports, parent_of).difference(own)
    prompt = completion = total = 0.0
    for span_id, usage in reports.items():
        if span_id not in repeats:
            prompt, completion, total = prompt + usage[0], completion + usage[1], total + usage[2]
    return prompt, completion, total


def _repeats(reports: Collection[bytes], parent_of: Mapping[bytes, bytes | None]) -> set[bytes]:
    """The reports with another one below them; none where that would be all."""
    repeats = set(_nearest_above(reports, parent_of))
    return set() if len(repeats) == len(reports) else repeats


def _nearest_above(reports: Collection[bytes], parent_of: Mapping[bytes, bytes | None]) -> Iterator[bytes]:
    """The first other report on the way up from each of them, where there is one."""
    known: dict[bytes, bytes | None] = {}  # a span without a report → the first report above it
    for report in reports:
        path = list[bytes]()
        span_id = parent_of.get(report)
        while span_id is not None and span_id in parent_of and span_id not in reports and span_id not in known:
            known[span_id] = None  # a circle without a report leads nowhere
            path.append(span_id)
            span_id = parent_of.get(span_id)
        nearest = span_id if span_id is None or span_id in reports else known.get(span_id)
        known.update(dict.fromkeys(path, nearest))
        if nearest is not None and nearest != report:
            yield nearest


def sums_of_traces_sql(heads: str) -> str:
    """A statement that gives ``trace_id`` and the columns of ``Metrics``: what the spans of each trace used together.

    ``heads`` gives ``trace_id``, ``span_id``, ``parent_id``, ``usage_is_own`` and the columns of ``Metrics``, a row for each span
    of these traces.
    """
    sums = [_sum(name, "token_verdicts") for name in _TOKENS]
    sums += [_sum(name, "cost_verdicts") for name in _COSTS]
    return f"SELECT trace_id, {', '.join(sums)}, errors\nFROM ({_judged(heads)})"


def repeats_sql(heads: str) -> str:
    """A statement that gives ``trace_id``, ``span_id`` and whether the tokens (``counts_tokens``) and the costs (``counts_costs``) of
    this span count, 0 or 1: a row for each span of which one does not. ``heads`` as above.
    """
    return (
        "SELECT trace_id, reinterpretAsFixedString(report.1) AS span_id, report.2 AS counts_tokens, report.3 AS counts_costs\n"
        "FROM (SELECT trace_id, arrayJoin(arrayFilter(report -> NOT (report.2 AND report.3),"
        f" arrayZip(report_ids, token_verdicts, cost_verdicts))) AS report\nFROM ({_judged(heads)}))"
    )


def _sum(name: str, verdicts: str) -> str:
    return f"arraySum((amount, counts) -> if(counts, amount, 0), at_{name}, {verdicts}) AS {name}"


def _judged(heads: str) -> str:
    """A row for each trace: its errors, the amounts of its reports (``at_…``), and of each whether it counts (``…_verdicts``).

    Where no report has a span below it, which is the common trace, the lists of places are empty and cost nothing.

    Each layer is a subquery over the one before, because the engine plans an expression anew wherever it stands. A place is
    the index of a span in its trace, from 1; 0 is none. No lambda holds an array: the engine would copy it for every element.
    """
    statement = _LAYERS[0].replace("{heads}", heads)
    for layer in _LAYERS[1:]:
        statement = f"SELECT *, {layer}\nFROM ({statement})"
    return statement


def _looked_up(wanted: str, keys: str, values: str, *, places: str = "places") -> str:
    """For each of ``wanted``, one a place: the value of the key that is equal to it, or 0. Keys are distinct.

    Both are sorted into one line, where each key stands before those who want it.
    """
    line = (
        f"arraySort(arrayConcat(arrayMap((key, value) -> (key, toUInt32(0), value), {keys}, {values}),"
        f" arrayMap((key, place) -> (key, place, toUInt32(0)), {wanted}, {places})))"
    )
    found = (
        "arrayMap((entry, last) -> (entry.2, if(last.1 = entry.1, last.3, 0)),"
        f" {line}, arrayFill(entry -> entry.2 = 0, {line}))"
    )
    return f"arrayMap(pair -> pair.2, arraySort(arrayFilter(pair -> pair.1 != 0, {found})))"


def _reports(amounts: Sequence[str]) -> str:
    """Of each place, whether the span there reports one of the amounts."""
    lists = ", ".join(f"at_{name}" for name in amounts)
    return f"arrayResize(arrayMap((x, y, z) -> x != 0 OR y != 0 OR z != 0, {lists}), length(ids))"


def _verdicts(found: str, reports: str) -> str:
    """Of each report, whether it counts: as found, unless none would; the span's own always."""
    is_any = f"arrayExists((counts, is_report) -> counts AND is_report, {found}, {reports})"
    found = f"arrayResize(if({is_any}, {found}, emptyArrayUInt8()), length(report_ids), 1)"
    return f"arrayMap((counts, is_own) -> counts OR is_own, {found}, report_is_own)"


_LAYERS: Final = (
    # The reports of a trace, and its links: what neither reports nor has a parent leads nowhere.
    f"""
SELECT
    trace_id,
    sum(errors) AS errors,
    {", ".join(f"groupArrayIf({name}, is_report) AS at_{name}" for name in (*_TOKENS, *_COSTS))},
    groupArrayIf(id, is_report) AS report_ids,
    groupArrayIf(parent, is_report) AS report_parents,
    groupArrayIf(usage_is_own, is_report) AS report_is_own,
    groupArrayIf(id, is_link) AS link_ids,
    groupArrayIf(parent, is_link) AS link_parents
FROM
(
    SELECT
        *,
        reinterpretAsUInt128(span_id) AS id,
        if(parent_id = span_id, 0, reinterpretAsUInt128(parent_id)) AS parent,
        {" OR ".join(f"{name} != 0" for name in (*_TOKENS, *_COSTS))} AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM ({{heads}})
)
GROUP BY trace_id
""",
    # Whether a report has a span below it at all. Where none has, each counts, and there are no places to look at.
    "arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested",
    "if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents",
    # The place above each place; and which places report of which unit, which are mostly the same ones.
    f"{_looked_up('parents', 'ids', 'arrayEnumerate(ids)', places='arrayEnumerate(ids)')} AS above,"
    f" {_reports(_TOKENS)} AS token_reports, {_reports(_COSTS)} AS cost_reports, token_reports != cost_reports AS is_split",
    # Where they are not, the places stand there twice: for the tokens, and behind them for the costs.
    "if(is_split, arrayConcat(token_reports, cost_reports), token_reports) AS reports,"
    " if(is_split, arrayConcat(above, arrayMap(place -> if(place = 0, 0, place + toUInt32(length(ids))), above)), above) AS ups,"
    " arrayEnumerate(reports) AS places",
    # Upwards to the first report: a place that does not report hands on its own way, so each round doubles how far it leads.
    "arrayFold((at, round) -> "
    + _looked_up("at", "places", "arrayMap((is_end, place, next) -> if(is_end, place, next), reports, places, at)")
    + ", range(toUInt8(ceil(log2(length(places) + 1)))), ups) AS nearest",
    # A place counts unless a report other than its own leads to it. Those led to stand before the places that they are.
    "arraySort(arrayConcat(arrayMap(place -> (place, 1), places), arrayMap(place -> (place, 0), arrayDistinct(arrayFilter("
    "(place, is_end, from) -> is_end AND place != 0 AND place != from, nearest, reports, places))))) AS marks",
    "arrayMap(pair -> pair.2, arrayFilter(pair -> pair.1, arrayMap((mark, last) ->"
    " (mark.2 = 1, mark.1 != last.1), marks, arrayPopBack(arrayPushFront(marks, (0, 1)))))) AS verdicts",
    "arraySlice(verdicts, 1, length(ids)) AS of_tokens,"
    " if(is_split, arraySlice(verdicts, length(ids) + 1), of_tokens) AS of_costs",
    f"{_verdicts('of_tokens', 'token_reports')} AS token_verdicts, {_verdicts('of_costs', 'cost_reports')} AS cost_verdicts",
)
