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

The rule is here twice, because a page has the versions of its traces at hand, and sums over many traces must stay in
the engine: ``counted``, and the query ``usage`` in ``queries.sql``. A test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from json import JSONDecoder
from typing import Any, Final, NamedTuple

import orjson

from common.json_numbers import json_number
from common.span import AMOUNTS, NO_METRICS, Metrics, Usage, is_more_than_parts

TraceSums = Mapping[bytes, Metrics]
"""What all spans of a trace used together, by trace id; traces that used nothing may be missing."""

_METRICS_NAME: Final = b'"metrics":{'
_METRICS_BYTES_MAX: Final = 2_048
"""A longer object is parsed with everything else."""

_DECODER: Final = JSONDecoder()


class Report(NamedTuple):
    """What one span reports as used."""

    span_id: bytes
    parent_id: bytes | None
    """``None`` or zeros if it has none."""

    metrics: Metrics
    is_own: bool = False
    """Whether the usage is the span's own by its meaning, so that it counts whatever other spans report."""


def counted(spans: Iterable[Report]) -> Metrics:
    """Add up what the spans of one trace used, in any order and in linear time. Ids must be distinct."""
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
    tokens = {span_id: metrics[0:3] for span_id, metrics in metrics_of.items() if any(metrics[0:3])}
    costs = {span_id: metrics[3:6] for span_id, metrics in metrics_of.items() if any(metrics[3:6])}
    errors = {span_id: metrics.errors for span_id, metrics in metrics_of.items() if metrics.errors}
    failed = _counting(errors, parent_of, ())
    return Metrics(
        *_sum(tokens, parent_of, own),
        *_sum(costs, parent_of, own),
        errors=_total(errors[span_id] for span_id in failed),
    )


def _sum(reports: Mapping[bytes, Usage], parent_of: Mapping[bytes, bytes | None], own: set[bytes]) -> Usage:
    """Add up what counts of the reports of one unit."""
    usages: Iterable[Usage] = reports.values()
    if not own.issuperset(reports) and not reports.keys().isdisjoint(parent_of.values()):
        usages = _counted_parts(reports, parent_of, own)
    [prompts, completions, totals] = zip(*usages, strict=True) if reports else ((), (), ())
    return _total(prompts), _total(completions), _total(totals)


def _total(amounts: Iterable[float]) -> float:
    """Add up amounts in the order of their size: the last digits of a sum depend on the order, and that of the engine
    changes from statement to statement.
    """
    return sum(sorted(amounts), 0.0)


def _counted_parts(
    reports: Mapping[bytes, Usage], parent_of: Mapping[bytes, bytes | None], own: Collection[bytes]
) -> Iterator[Usage]:
    """Yield what counts of each report, member by member."""
    known: dict[frozenset[bytes], Collection[bytes]] = {}  # most of the sets are equal

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
    """Return the reports with no other report below them (all of them if there are none such), and those that are the
    span's own.
    """
    repeats = set(_nearest_above(reports, parent_of))
    if len(repeats) == len(reports):
        return reports
    return set(reports).difference(repeats.difference(own))


def _nearest_above(reports: Collection[bytes], parent_of: Mapping[bytes, bytes | None]) -> Iterator[bytes]:
    """Yield, for each report that has one, the first other report above it."""
    known: dict[bytes, bytes | None] = {}  # span without a report → the first report above it
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


def write_sums(attributes: dict[str, Any], sums: Metrics) -> None:
    """Set ``ag.metrics.{tokens,costs,errors}.cumulative`` of a root to the sums over its trace (ADR 0005).

    Sums that are zero or not finite change nothing. A part of tokens or costs that no span reports is absent.
    """
    _write_into(attributes["ag"]["metrics"], sums)


def _write_into(metrics: dict[str, Any], sums: Metrics) -> None:
    for name, amounts in (("tokens", sums[0:3]), ("costs", sums[3:6])):
        if any(amounts) and all(map(math.isfinite, amounts)):
            metrics[name]["cumulative"] = {
                member: json_number(amount) for member, amount in zip(AMOUNTS, amounts, strict=True) if amount
            }
    if sums.errors and math.isfinite(sums.errors):
        metrics["errors"]["cumulative"] = json_number(sums.errors)


def with_sums(attributes: bytes, sums: Metrics) -> bytes:
    """Return the stored JSON of the attributes of a root with the sums over its trace, as ``write_sums`` writes them.

    Only ``ag.metrics``, which every span has, is parsed: a fifth of the time if the attributes are 3 KB. It is the
    object after its name, unless that name occurs again.
    """
    begin = attributes.find(_METRICS_NAME)
    if begin >= 0 and attributes.find(_METRICS_NAME, begin + 1) < 0:
        begin += len(_METRICS_NAME) - 1
        beginning = attributes[begin : begin + _METRICS_BYTES_MAX]
        with suppress(ValueError):
            metrics, length = _DECODER.raw_decode(beginning.decode("latin-1"))  # so that a character is a byte
            if beginning[:length].isascii():
                _write_into(metrics, sums)
                return attributes[:begin] + orjson.dumps(metrics) + attributes[begin + length :]
    parsed = orjson.loads(attributes)
    write_sums(parsed, sums)
    return orjson.dumps(parsed)
