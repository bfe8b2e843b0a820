"""Handlers of the analytics routes: the request with its defaults, one statement, the response (reference §10.1,
§10.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from common.errors import InvalidInput
from common.times import format_us
from query_api.analytics.buckets import Buckets, buckets_of
from query_api.analytics.models import (
    DEFAULT_SPECS,
    AnalyticsParameters,
    CountsQuery,
    MetricsParameters,
    MetricsQuery,
    MetricType,
)
from query_api.analytics.statements import counts_of, metrics_of
from query_api.analytics.values import Values
from query_api.explain.explain import explained
from query_api.filter.language import OPERATORS, Node, OperandKind, Operator
from query_api.filter.parse import ConditionModel, FilteringModel, parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.filter.sql.expressions import IS_ROOT
from query_api.request.references import moment_us
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.window import SAMPLED, bound_us, percent_of
from query_api.spans.windowing import BasicWindowing, Focus, Format, WindowBy

BINS_MAX_TOTAL: Final = 262_144
"""Bins of all histograms of a response, if the request sets their number: about 30 MB of JSON."""

TIMES_US: Final[Mapping[WindowBy, str]] = {WindowBy.START_TIME: "start_us", WindowBy.CREATED_AT: "stored_us"}
"""Columns of ``spans``. The reference follows ``created_at``, which there is the first arrival of a span and never
changes. Here it is the time at which the visible version was stored (contract §3.3): a span that is sent again would
leave its bucket. So ``start_time`` is the default, as for every other window."""

_WITHOUT_VALUE: Final = frozenset(
    operator for operator in Operator if OPERATORS[operator].operand is OperandKind.NOTHING
)


@dataclass(frozen=True, slots=True)
class _Analysis:
    """A request: query string, body and defaults merged, and what its statement needs."""

    request: AnalyticsParameters
    spans: ProjectSpans
    focus: Focus
    by: WindowBy
    buckets: Buckets
    node: Node
    values: Values


async def query_metrics(request: Request) -> Response:
    """Return statistics of values of spans for each bucket of time.

    ``POST /spans/analytics/query``, ``POST /tracing/analytics/query``.
    """
    parameters: MetricsParameters = request.query
    body: MetricsQuery = request.body
    specs = body.specs or parameters.specs or list(DEFAULT_SPECS)
    analysis = await _analysis(request, parameters, body)
    buckets = analysis.buckets
    bins_count = buckets.count * sum(spec.bins or 0 for spec in specs if spec.type is MetricType.CONTINUOUS)
    if bins_count > BINS_MAX_TOTAL:
        raise InvalidInput(
            f"specs: {bins_count} bins in all buckets; at most {BINS_MAX_TOTAL} are allowed."
            " Request fewer bins or a longer interval."
        )
    metrics = await metrics_of(analysis.spans, specs, analysis.values)
    members = {
        "count": len(metrics),
        "buckets": [{**_bucket(buckets, index), "metrics": found} for index, found in metrics.items()],
        "query": _applied(analysis),
        "specs": [spec.model_dump(mode="json", exclude_none=True) for spec in specs],
    }
    return await _response(members, analysis)


async def query_counts(request: Request) -> Response:
    """Return the number of traces or spans, and their durations, costs and tokens, for each bucket of time, empty ones
    included.

    ``GET`` and ``POST /tracing/spans/analytics``.
    """
    analysis = await _analysis(request, request.query, request.body or CountsQuery())
    buckets = analysis.buckets
    counts = await counts_of(analysis.spans, analysis.values, focus=analysis.focus, buckets_count=buckets.count)
    members = [
        {**_bucket(buckets, index), "total": total, "errors": errors} for index, (total, errors) in enumerate(counts)
    ]
    return await _response({"count": len(members), "buckets": members}, analysis)


async def _analysis(request: Request, parameters: AnalyticsParameters, body: CountsQuery | MetricsQuery) -> _Analysis:
    now_us = request.context.clock.now_ns() // 1000
    merged = _merged(parameters, body, now_us=now_us)
    buckets = buckets_of(
        oldest_us=moment_us(merged.oldest, now_us=now_us),
        newest_us=moment_us(merged.newest, now_us=now_us),
        interval_min=merged.interval,
        now_us=now_us,
    )
    is_flat = body.filter is not None or parameters.filter is not None
    node = await parse_filter(merged.filter, path="filter" if is_flat else "filtering")
    matching = await compile_node(node, now_us=now_us)
    focus, by = merged.focus or Focus.TRACE, merged.by or WindowBy.START_TIME
    if by not in TIMES_US:
        raise InvalidInput(f"windowing.by: buckets are of a time of spans; allowed: {', '.join(TIMES_US)}.")
    window = [f"{TIMES_US[by]} >= {{oldest_us:Int64}}", f"{TIMES_US[by]} < {{newest_us:Int64}}"]
    parameters_of_window: dict[str, Any] = {
        "oldest_us": buckets.oldest_us,
        "newest_us": buckets.newest_us,
        "interval_us": buckets.interval_us,
    }
    if (rate_percent := percent_of(merged.rate)) < 100:
        window.append(SAMPLED)
        parameters_of_window["rate_percent"] = rate_percent
    conditions = [IS_ROOT] if focus is Focus.TRACE else []
    values = Values(matching, window, conditions, time_us=TIMES_US[by])
    values.parameters.values |= parameters_of_window
    spans = project_spans(request, explain=merged.explain)
    return _Analysis(merged, spans, focus, by, buckets, node, values)


def _merged(parameters: AnalyticsParameters, body: CountsQuery | MetricsQuery, *, now_us: int) -> AnalyticsParameters:
    """Flat members of the body take precedence over the query string, and this over ``windowing`` and ``filtering``."""
    windowing = body.windowing or BasicWindowing()
    nested: dict[str, Any] = {
        "by": windowing.by,
        "newest": bound_us(windowing.newest, now_us=now_us),
        "oldest": bound_us(windowing.oldest, now_us=now_us),
        "interval": windowing.interval,
        "rate": windowing.rate,
        "filter": body.filtering,
    }
    for flat in (parameters, body):
        members = ((name, getattr(flat, name)) for name in AnalyticsParameters.model_fields)
        nested |= {name: value for name, value in members if value is not None}
    return AnalyticsParameters.model_construct(**nested)


def _bucket(buckets: Buckets, index: int) -> dict[str, Any]:
    return {"timestamp": format_us(buckets.start_us(index)), "interval": buckets.interval_min}


def _applied(analysis: _Analysis) -> dict[str, Any]:
    """The request as it was applied, with defaults filled in."""
    rate = analysis.request.rate
    windowing = {
        "by": analysis.by,
        "newest": format_us(analysis.buckets.newest_us),
        "oldest": format_us(analysis.buckets.oldest_us),
        "interval": analysis.buckets.interval_min,
    }
    filtering = analysis.request.filter or FilteringModel()
    return {
        "formatting": {"focus": analysis.focus, "format": analysis.request.format or Format.AGENTA},
        "windowing": windowing if rate is None else {**windowing, "rate": rate},
        "filtering": _as_sent(filtering) or {"conditions": []},
    }


def _as_sent(member: FilteringModel | ConditionModel) -> dict[str, Any]:
    """A filter as it was sent, without ignored values, which a response may be unable to represent."""
    if isinstance(member, ConditionModel):
        ignored = {"value"} if member.operator in _WITHOUT_VALUE else None
        return member.model_dump(mode="json", exclude_unset=True, exclude=ignored)
    dumped = member.model_dump(mode="json", exclude_unset=True, exclude={"conditions"})
    if "conditions" in member.model_fields_set:
        dumped["conditions"] = [_as_sent(condition) for condition in member.conditions]
    return dumped


async def _response(members: dict[str, Any], analysis: _Analysis) -> Response:
    if analysis.spans.is_recorded:
        members["explain"] = orjson.Fragment(await explained(analysis.spans, analysis.node))
    return Response(orjson.dumps(members))
