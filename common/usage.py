"""What the spans of a trace used, each model call once: which reports count, in Python and in SQL (ADR 0010).

A span and the spans that it caused often report the same usage: an agent repeats the tokens of its model calls. What
an instrumentation reports counts exactly if no other span below it, at any depth, reports it. Prompt, completion and
total of tokens and of costs are judged separately. A part that a report lacks is taken from the next report above
that has it, and is added to the total, unless a total below is more than its parts. What is sent as
``ag.metrics.*.incremental``, on a span without an instrumentation, is the span's own and always counts. An error
counts if no span below has one. So an aggregate counts where it is alone, and the order in which spans arrive does
not matter.

A span whose parent is itself or is not in the trace is at the top. Reports in a circle are below each other, so none
of them counts, unless the trace has no other report: then all do, because usage must not vanish.

Costs are doubles in attributes, tables and responses. A sum of doubles depends on their order, and that of the engine
changes from statement to statement. So costs are added as integers: *units* of 10⁻¹² dollars, the last decimal of a
price. Such a sum is exact, and its double is the nearest one, which JSON shows with the decimals that the costs had. A
cost below 8,192 dollars with at most 12 decimals is exact in units; the double of a larger one has fewer decimals.

The rule is here twice, because a record and a page have the spans of their traces at hand, and sums over many traces
must stay in the engine: ``counted`` and ``counted_of_each``, and the steps in ``usage.sql``. A test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from common.clickhouse.select import Select
from common.named_sql import load_named_sql
from common.span import COST_DECIMALS, COSTS, NO_METRICS, Metrics, Usage, is_more_than_parts

Id = TypeVar("Id", bound=Hashable)
"""Identifies a span among those that are judged together."""

STEPS: Final = load_named_sql(Path(__file__).with_suffix(".sql"))
"""Each reads the one before it; the first reads reports."""

_BEFORE: Final = "{before}"
_NO_USAGE: Final[Usage] = NO_METRICS[0:3]

UNITS: Final = 10**COST_DECIMALS
"""Units of a dollar."""

DOLLARS_END: Final = 1e15
"""Exclusive limit of an amount that is added. The units of a hundred billion such amounts fit into 128 bits."""

_SCALE: Final = f"1e{COST_DECIMALS}"
_EXACT_END: Final = 2**53


def units(dollars: float) -> int:
    """Return an amount below ``DOLLARS_END`` as a whole number of units."""
    return round(dollars * 1e12)


def dollars(whole_units: int) -> float:
    """Return the double that is nearest to a number of units."""
    return whole_units / UNITS


def exact_total(amounts: Iterable[float]) -> float:
    """Add up amounts below ``DOLLARS_END``, exactly and in any order."""
    return dollars(sum(map(units, amounts)))


def is_amount(number: float) -> bool:
    """Return whether a number can be added: it is finite, and below ``DOLLARS_END`` in either direction."""
    return -DOLLARS_END < number < DOLLARS_END


def rounded(number: float) -> float:
    """Return a number with the decimals of money; unchanged if it is no amount."""
    return dollars(units(number)) if is_amount(number) else number


def amount_sql(number: str) -> str:
    """Return a number as an expression; null if it is no amount.

    The engine converts the value below a null, too, so it must be one that ``units_sql`` can convert.
    """
    is_amount = f"abs({number}) < {DOLLARS_END:g}"
    return f"if({is_amount}, if({is_amount}, {number}, 0), NULL)"


def units_sql(number: str) -> str:
    """Return ``units`` as an expression: a whole number of 128 bits, to be added by ``sum``."""
    return f"toInt128(round({number} * {_SCALE}))"


def dollars_sql(whole_units: str) -> str:
    """Return ``dollars`` as an expression over an aggregate or column of units.

    A number of units that a double cannot hold becomes a text of decimals first, because dividing its double by
    another would round twice.
    """
    decimals = f"toFloat64(toString(reinterpret({whole_units}, 'Decimal(38, {COST_DECIMALS})')))"
    return f"if(abs({whole_units}) < {_EXACT_END}, toFloat64({whole_units}) / {_SCALE}, {decimals})"


def rounded_sql(number: str) -> str:
    """Return ``rounded`` of an amount as an expression."""
    return f"round({number} * {_SCALE}) / {_SCALE}"


def exact_total_sql(number: str) -> str:
    """Return the aggregate that adds up amounts, in dollars."""
    return dollars_sql(f"sum({units_sql(number)})")


class Report(NamedTuple):
    """What one span reports as used."""

    span_id: bytes
    parent_id: bytes | None
    """``None`` or zeros if it has none."""

    metrics: Metrics
    is_own: bool = False
    """Whether the usage is the span's own by its meaning, so that it counts whatever other spans report."""

    cost_is_computed: bool = False
    """Whether the costs are list prices, so that costs that were sent win over them."""


def counted(spans: Iterable[Report]) -> Metrics:
    """Add up what the spans of one trace used, in any order and in linear time. Ids must be distinct."""
    metrics_of: dict[bytes, Metrics] = {}
    parent_of: dict[bytes, bytes | None] = {}
    own: set[bytes] = set()
    computed: set[bytes] = set()
    for span_id, parent_id, metrics, is_own, cost_is_computed in spans:
        if metrics is not NO_METRICS:
            metrics_of[span_id] = metrics
            if is_own:
                own.add(span_id)
            if cost_is_computed:
                computed.add(span_id)
        if parent_id != span_id:
            parent_of[span_id] = parent_id
    tokens, costs, errors = _reports_of(metrics_of)
    failed = _counting(errors, parent_of, ())
    return Metrics(
        *_sum(_counted_usages(tokens, parent_of, own), _sorted_sum),
        *_sum(_counted_costs(costs, parent_of, own, computed), exact_total),
        errors=_sorted_sum(errors[span_id] for span_id in failed),
    )


def counted_of_each(
    metrics_of: Mapping[Id, Metrics], parent_of: Mapping[Id, Id | None], own: Collection[Id], computed: Collection[Id]
) -> dict[Id, Metrics]:
    """Return what counts of each report, in linear time.

    ``parent_of`` holds every span. ``own`` are those whose usage is their own by its meaning, ``computed`` those whose
    costs are list prices.
    """
    tokens, costs, errors = _reports_of(metrics_of)
    counted_tokens = dict(zip(tokens, _counted_usages(tokens, parent_of, own), strict=True))
    counted_costs = dict(zip(costs, _counted_costs(costs, parent_of, own, computed), strict=True))
    failed = _counting(errors, parent_of, ())
    return {
        span: Metrics._make(
            (
                *counted_tokens.get(span, _NO_USAGE),
                *counted_costs.get(span, _NO_USAGE),
                metrics.errors if span in failed else 0.0,
            )
        )
        for span, metrics in metrics_of.items()
    }


def _reports_of(metrics_of: Mapping[Id, Metrics]) -> tuple[dict[Id, Usage], dict[Id, Usage], dict[Id, float]]:
    """Return the reports of tokens, of costs and of errors."""
    tokens: dict[Id, Usage] = {}
    costs: dict[Id, Usage] = {}
    errors: dict[Id, float] = {}
    for span, metrics in metrics_of.items():  # one loop, without calls: each span of each record passes here
        prompt, completion, total, costs_prompt, costs_completion, costs_total, errors_count = metrics
        if prompt or completion or total:
            tokens[span] = (prompt, completion, total)
        if costs_prompt or costs_completion or costs_total:
            costs[span] = (costs_prompt, costs_completion, costs_total)
        if errors_count:
            errors[span] = errors_count
    return tokens, costs, errors


def _counted_usages(
    reports: Mapping[Id, Usage], parent_of: Mapping[Id, Id | None], own: Collection[Id]
) -> Iterable[Usage]:
    """Return what counts of each of the reports of one unit, in their order."""
    are_all_own = bool(own) and all(span in own for span in reports)
    if are_all_own or reports.keys().isdisjoint(parent_of.values()):
        return reports.values()
    return _counted_parts(reports, parent_of, own)


def _counted_costs(
    reports: Mapping[Id, Usage], parent_of: Mapping[Id, Id | None], own: Collection[Id], computed: Collection[Id]
) -> Iterable[Usage]:
    """Return what counts of each of the reports of costs, in their order: of those that were sent as if there were no
    others, and of list prices what neither a report below them has nor a cost above them covers.
    """
    sent = {span: usage for span, usage in reports.items() if span not in computed}
    if not sent or len(sent) == len(reports) or reports.keys().isdisjoint(parent_of.values()):
        return _counted_usages(reports, parent_of, own)
    listed = {span: usage for span, usage in reports.items() if span in computed}
    counted = dict(zip(sent, _counted_usages(sent, parent_of, own), strict=True))
    counted |= zip(listed, _counted_parts(listed, parent_of, own, complete=sent.keys()), strict=True)
    counting = set(_counting(sent, parent_of, ()))
    for span, nearest in _nearest_above(listed, parent_of, among=sent.keys() - own):
        if nearest in counting and span not in own:
            counted[span] = _NO_USAGE
    return [counted[span] for span in reports]


def _sum(usages: Iterable[Usage], add: Callable[[Iterable[float]], float]) -> Usage:
    """Add up prompts, completions and totals."""
    prompts, completions, totals = zip(*usages, strict=True) if (usages := list(usages)) else ((), (), ())
    return add(prompts), add(completions), add(totals)


def _sorted_sum(amounts: Iterable[float]) -> float:
    """Add up amounts in the order of their size: the last digits of a sum depend on the order, and that of the engine
    changes from statement to statement.
    """
    return sum(sorted(amounts), 0.0)


def _counted_parts(
    reports: Mapping[Id, Usage],
    parent_of: Mapping[Id, Id | None],
    own: Collection[Id],
    *,
    complete: Collection[Id] = (),
) -> Iterator[Usage]:
    """Yield what counts of each report, member by member. ``complete`` are other reports, which have every member."""
    known: dict[frozenset[Id], Collection[Id]] = {}  # most of the sets are equal

    def counting(is_member: Callable[[Usage], object]) -> Collection[Id]:
        members = frozenset(span_id for span_id, usage in reports.items() if is_member(usage)).union(complete)
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


def _counting(reports: Collection[Id], parent_of: Mapping[Id, Id | None], own: Collection[Id]) -> Collection[Id]:
    """Return the reports with no other report below them (all of them if there are none such), and those that are the
    span's own.
    """
    repeats = {nearest for report, nearest in _nearest_above(reports, parent_of, among=reports) if nearest != report}
    if len(repeats) == len(reports):
        return reports
    return set(reports).difference(repeats.difference(own))


def _nearest_above(
    reports: Iterable[Id], parent_of: Mapping[Id, Id | None], *, among: Collection[Id]
) -> Iterator[tuple[Id, Id]]:
    """Yield each report that has one with the first span above it that is ``among`` others: itself, in a circle."""
    known: dict[Id, Id | None] = {}  # span without a report → the first report above it
    for report in reports:
        path = list[Id]()
        span_id = parent_of.get(report)
        while span_id is not None and span_id in parent_of and span_id not in among and span_id not in known:
            known[span_id] = None  # a circle without a report leads nowhere
            path.append(span_id)
            span_id = parent_of.get(span_id)
        nearest = span_id if span_id is None or span_id in among else known.get(span_id)
        known.update(dict.fromkeys(path, nearest))
        if nearest is not None:
            yield report, nearest


def trace_sums(reports: Select, *, chain: str = "sums") -> Select:
    """Return a query of ``trace_id`` and the columns of ``Metrics``: what the spans of each trace used together.

    Its steps have names that begin with ``chain``, which must differ in a statement where one chain reads another.

    ``reports`` is a query of ``trace_id``, ``span_id``, ``parent_id``, ``usage_is_own``, ``cost_is_computed`` and the
    columns of ``Metrics``, with one row for each span of these traces.
    """
    added = _from_counted(reports, ["trace_id", *map(_added, Metrics._fields)], chain)
    amounts = [f"{dollars_sql(name)} AS {name}" if name in COSTS else name for name in Metrics._fields]
    return Select(reports.project_id, added, ["trace_id", *amounts])


def _added(amount: str) -> str:
    """Return the sum of what counts of the reports of a trace, costs in units."""
    counted = f"counted_{amount}"
    if amount in COSTS:
        counted = f"arrayMap(cost -> {units_sql('cost')}, {counted})"
    return f"arraySum({counted}) AS {amount}"


def counted_totals(reports: Select) -> Select:
    """Return a query of ``trace_id``, ``span_id``, ``counted_tokens`` and ``counted_costs``: what counts of the totals
    of a span.

    Only spans whose totals do not count as a whole have a row. ``reports`` as for ``trace_sums``.
    """
    each = (
        "arrayJoin(arrayFilter(report -> report.2 != report.4 OR report.3 != report.5, arrayZip(report_ids,"
        " counted_tokens_total, counted_costs_total, at_tokens_total, at_costs_total))) AS report"
    )
    columns = ["trace_id", "reinterpretAsFixedString(report.1) AS span_id"]
    counts = ["report.2 AS counted_tokens", f"{rounded_sql('report.3')} AS counted_costs"]
    return Select(reports.project_id, _from_counted(reports, ["trace_id", each], "totals"), [*columns, *counts])


def _from_counted(reports: Select, columns: list[str], chain: str) -> Select:
    before = f"{chain}_reported"
    queries: dict[str, Select | str] = {before: reports}
    for name, sql in STEPS.items():
        step = f"{chain}_{name}"
        queries[step] = sql.replace(_BEFORE, before)
        before = step
    return Select(reports.project_id, before, columns, queries=queries)


def reports_alone(versions: Select, metrics: Collection[str]) -> Select:
    """Return what spans report of these metrics (``tokens``, ``costs``, ``errors``), for ``trace_sums``.

    ``versions`` is a query of latest versions. Constants for other metrics make the engine read less.
    """
    amounts = [name if name.startswith(tuple(metrics)) else f"0. AS {name}" for name in Metrics._fields]
    is_computed = "cost_is_computed" if "costs" in metrics else "0 AS cost_is_computed"
    columns = ["trace_id", "span_id", "parent_id", "usage_is_own", is_computed, *amounts]
    return Select(versions.project_id, versions, columns)
