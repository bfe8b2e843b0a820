"""What the spans of a trace used, each model call once: which reports count, in Python and in SQL (ADR 0010).

Usage often stands on a span and on what it caused: an agent repeats the tokens of its model calls. What an instrumentation
reports counts exactly where no other span below it, at any depth, reports it: the prompt, the completion and the total of tokens and
of costs, each by itself. A part that a report lacks is taken from the next one above that has it, and is added to the total, unless
a total below is more than its parts. What is sent as ``ag.metrics.*.incremental``, with no instrumentation on the span, is the
span's own by its meaning and always counts. An error counts where no span below has one. So an aggregate counts where it is
alone, and the order in which spans arrive does not matter.

Links are those of the spans that are there. A span that is its own parent has none; one whose parent is not there stands
at the top. Reports in a circle stand below each other, so none of them counts, unless there is no other report in the trace:
then all do, because what was used must not vanish.

The rule is here twice, because a page has the heads of its traces at hand, and sums over many traces must not leave the
engine. A test compares the two. Which versions of spans are shown is the concern of ``latest_versions.py`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from common.span import AMOUNTS, NO_METRICS, TOTAL_TOLERANCE, Metrics, Usage, is_more_than_parts

UNITS: Final = ("tokens", "costs")
METRICS: Final = (*UNITS, "errors")


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
    errors = {span_id: each.errors for span_id, each in metrics_of.items() if each.errors}
    failed = _counting(errors, parent_of, ())
    return Metrics(
        *_sum(tokens, parent_of, own), *_sum(costs, parent_of, own), errors=sum(errors[span_id] for span_id in failed)
    )


def _sum(reports: Mapping[bytes, Usage], parent_of: Mapping[bytes, bytes | None], own: set[bytes]) -> Usage:
    """What counts of the reports of one unit, added up."""
    usages: Iterable[Usage] = reports.values()
    if not own.issuperset(reports) and not reports.keys().isdisjoint(parent_of.values()):
        usages = _counted_parts(reports, parent_of, own)
    prompt = completion = total = 0.0
    for usage in usages:
        prompt, completion, total = prompt + usage[0], completion + usage[1], total + usage[2]
    return prompt, completion, total


def _counted_parts(
    reports: Mapping[bytes, Usage], parent_of: Mapping[bytes, bytes | None], own: Collection[bytes]
) -> Iterator[Usage]:
    """What counts of each report, member by member."""
    known: dict[frozenset[bytes], Collection[bytes]] = {}  # the sets are mostly the same

    def counting(is_member: Callable[[Usage], object]) -> Collection[bytes]:
        members = frozenset(span_id for span_id, usage in reports.items() if is_member(usage))
        if members not in known:
            known[members] = _counting(members, parent_of, own)
        return known[members]

    prompts = counting(lambda usage: usage[0])
    completions = counting(lambda usage: usage[1])
    totals = counting(any)
    prompts_of_total = counting(lambda usage: usage[0] or is_more_than_parts(*usage))
    completions_of_total = counting(lambda usage: usage[1] or is_more_than_parts(*usage))
    for span_id, (prompt, completion, total) in reports.items():
        parts_of_total = (prompt if span_id in prompts_of_total else 0) + (
            completion if span_id in completions_of_total else 0
        )
        yield (
            prompt if span_id in prompts else 0,
            completion if span_id in completions else 0,
            total if span_id in totals else parts_of_total,
        )


def _counting(
    reports: Collection[bytes], parent_of: Mapping[bytes, bytes | None], own: Collection[bytes]
) -> Collection[bytes]:
    """The reports with no other one below them, all of them where there would be none; and those that are the span's own."""
    repeats = set(_nearest_above(reports, parent_of))
    if len(repeats) == len(reports):
        return reports
    return set(reports).difference(repeats.difference(own))


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


def sums_of_traces_sql(latest: str, metrics: Sequence[str] = METRICS) -> str:
    """A statement that gives ``trace_id`` and the columns of ``Metrics``: what the spans of each trace used together.

    ``latest`` gives ``trace_id``, ``span_id``, ``parent_id``, ``usage_is_own`` and the columns of ``Metrics``, a row for each span
    of these traces. ``metrics`` are those that are summed, by default all.
    """
    sums = ", ".join(f"arraySum(counted_{name}) AS {name}" for name in _columns(metrics))
    return f"SELECT trace_id, {sums}\nFROM ({_judged(latest, metrics)})"


def counted_totals_sql(latest: str) -> str:
    """A statement that gives ``trace_id``, ``span_id``, ``counted_tokens`` and ``counted_costs``: what counts of the totals of a span,
    a row for each span of which not all counts. ``latest`` as above.
    """
    totals = ("tokens_total", "costs_total")
    reports = ", ".join(["report_ids", *(f"counted_{name}" for name in totals), *(f"at_{name}" for name in totals)])
    return (
        "SELECT trace_id, reinterpretAsFixedString(report.1) AS span_id, report.2 AS counted_tokens, report.3 AS counted_costs\n"
        "FROM (SELECT trace_id, arrayJoin(arrayFilter(report -> report.2 != report.4 OR report.3 != report.5,"
        f" arrayZip({reports}))) AS report\nFROM ({_judged(latest, UNITS)}))"
    )


def _judged(latest: str, metrics: Sequence[str]) -> str:
    """A row for each trace: the amounts of its reports (``at_…``), and what counts of each (``counted_…``).

    Where no report has a span below it, which is the common trace, the lists of places are empty and cost nothing.

    Each layer is a subquery over the one before, because the engine plans an expression anew wherever it stands. A place is
    the index of a span in its trace, from 1; 0 is none. No lambda over spans holds an array: the engine would copy it for every
    element.
    """
    first, *others = _layers(metrics)
    statement = first.replace("{heads}", latest)
    for layer in others:
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


def _sets_of_unit(unit: str) -> list[str]:
    """Of each place, whether the span there reports: a prompt, a completion, anything, and a part of the total or a total that is
    more than its parts; as ``_counted_parts`` asks it."""
    amounts = ", ".join(f"placed_{unit}_{amount}" for amount in AMOUNTS)
    is_more = f"t > (p + c) * {TOTAL_TOLERANCE}"
    conditions = ("p != 0", "c != 0", "p != 0 OR c != 0 OR t != 0", f"p != 0 OR {is_more}", f"c != 0 OR {is_more}")
    return [f"arrayMap((p, c, t) -> {condition}, {amounts})" for condition in conditions]


def _counted_of_unit(unit: str, first: int) -> list[str]:
    """What counts of each report, by the verdicts on the sets of its unit, of which ``first`` is the index of the first."""
    prompt, completion, total = (f"at_{unit}_{amount}" for amount in AMOUNTS)
    counts = [f"verdicts_of_sets[{first + index}]" for index in range(5)]
    of_total = f"{prompt}, {completion}, {total}, {', '.join(counts[2:])}, report_is_own"
    return [
        f"arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), {prompt}, {counts[0]}, report_is_own)"
        f" AS counted_{unit}_prompt",
        f"arrayMap((amount, counts, is_own) -> if(counts OR is_own, amount, 0), {completion}, {counts[1]}, report_is_own)"
        f" AS counted_{unit}_completion",
        "arrayMap((p, c, t, counts_t, counts_p, counts_c, is_own) -> if(counts_t OR is_own, t, if(counts_p, p, 0) + if(counts_c, c, 0)),"
        f" {of_total}) AS counted_{unit}_total",
    ]


def _columns(metrics: Sequence[str]) -> list[str]:
    """The columns of ``Metrics`` that are about these metrics."""
    return [name for name in Metrics._fields if name.partition("_")[0] in metrics]


def _layers(metrics: Sequence[str]) -> Sequence[str]:
    columns = _columns(metrics)
    sets, counted_columns = list[str](), list[str]()
    for unit in UNITS:
        if unit in metrics:
            counted_columns += _counted_of_unit(unit, len(sets) + 1)
            sets += _sets_of_unit(unit)
    if "errors" in metrics:
        sets.append("arrayMap(errors -> errors != 0, placed_errors)")
        counted_errors = (
            f"arrayMap((amount, counts) -> if(counts, amount, 0), at_errors, verdicts_of_sets[{len(sets)}])"
        )
        counted_columns.append(f"{counted_errors} AS counted_errors")
    return (
        _REPORTS.format(
            amounts=", ".join(f"groupArrayIf({name}, is_report) AS at_{name}" for name in columns),
            is_report=" OR ".join(f"{name} != 0" for name in columns),
        ),
        *_PLACES,
        ", ".join(f"arrayResize(at_{name}, length(ids)) AS placed_{name}" for name in columns),
        f"[{', '.join(sets)}] AS sets",
        *_VERDICTS,
        ", ".join(counted_columns),
    )


# The reports of a trace, and its links: what neither reports nor has a parent leads nowhere.
_REPORTS: Final = """
SELECT
    trace_id,
    {amounts},
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
        {is_report} AS is_report,
        NOT is_report AND parent != 0 AS is_link
    FROM ({{heads}})
)
GROUP BY trace_id
"""

_PLACES: Final = (
    # Whether a report has a span below it at all. Where none has, each counts, and there are no places to look at.
    "arrayConcat(report_parents, link_parents) AS linked, notEmpty(arrayIntersect(report_ids, linked)) AS is_nested",
    "if(is_nested, arrayConcat(report_ids, link_ids), []) AS ids, if(is_nested, linked, []) AS parents",
    # The place above each place.
    f"{_looked_up('parents', 'ids', 'arrayEnumerate(ids)', places='arrayEnumerate(ids)')} AS above",
)

_VERDICTS: Final = (
    # The sets of reports that are judged, each once: they are mostly the same, and a report that is alone counts.
    "arrayFilter(members -> arrayCount(members) > 1, arrayDistinct(sets)) AS judged_sets",
    # The places stand there once for each set, one set behind the other.
    "arrayFlatten(judged_sets) AS reports,"
    " arrayFlatten(arrayMap(set -> arrayMap(place -> if(place = 0, 0, place + toUInt32((set - 1) * length(ids))), above),"
    " arrayEnumerate(judged_sets))) AS ups,"
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
    # Of each set, the verdicts on the reports: as found, unless none of the set would count; all count where it was not judged.
    "arrayMap(members -> arraySlice(verdicts, (indexOf(judged_sets, members) - 1) * length(ids) + 1,"
    " if(has(judged_sets, members), length(ids), 0)), sets) AS found_of_sets",
    "arrayMap((members, found) -> arrayResize(if(arrayExists((counts, is_member) -> counts AND is_member,"
    " arrayResize(found, length(members)), members), found, emptyArrayUInt8()), length(report_ids), 1), sets, found_of_sets)"
    " AS verdicts_of_sets",
)
