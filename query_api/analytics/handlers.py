"""The analytics routes: what was asked, put to one statement, and the answer in its shape (reference §10.1, §10.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from common.errors import InvalidInput
from common.times import format_us
from query_api.analytics.buckets import Buckets, buckets_of
from query_api.analytics.counts import counts_of
from query_api.analytics.metrics import bins_in_all, metrics_of
from query_api.analytics.models import AnalyticsParameters, CountsQuery, MetricsParameters, MetricsQuery
from query_api.analytics.specs import DEFAULT_SPECS, MetricSpec
from query_api.analytics.values import Values
from query_api.explain.explain import explain_member
from query_api.filter.ast import Node
from query_api.filter.fields import Operator
from query_api.filter.models import ConditionModel, FilteringModel
from query_api.filter.parse import parse_filter
from query_api.filter.sql.columns import IS_ROOT
from query_api.filter.sql.compile import compile_node
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.windowing import SAMPLED, Focus, Format, WindowBy, Windowing, microseconds, percent_of

BINS_IN_ALL_MAX: Final = 262_144
"""Of all histograms of an answer, where their bins are asked for: about 30 MB of JSON."""

TIMES_US: Final[Mapping[WindowBy, str]] = {WindowBy.START_TIME: "start_us", WindowBy.CREATED_AT: "stored_us"}
"""Columns of ``spans``. The reference goes by ``created_at``, which there is the first arrival of a span and stays what it is. Here
it is when the version that is shown was stored (contract §3.3): going by it, a span that is sent again would leave the bucket it
was in. So ``start_time`` is the default, as it is for every other bound of a window."""

_WITHOUT_VALUE: Final = frozenset({Operator.EXISTS, Operator.NOT_EXISTS})


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question: query string, body and defaults made one."""

    focus: Focus
    format: Format
    by: WindowBy
    buckets: Buckets
    rate: float | None
    filtering: FilteringModel
    node: Node
    values: Values
    conditions: Sequence[str]
    explain: bool | None


async def query_metrics(request: Request) -> Response:
    """Statistics of values of spans, bucket by bucket of time.

    ``POST /spans/analytics/query``, ``POST /tracing/analytics/query``.
    """
    parameters: MetricsParameters = request.query
    body: MetricsQuery = request.body
    specs = body.specs or parameters.specs or list(DEFAULT_SPECS)
    asked = await _asked(request, parameters, body)
    if bins_in_all(specs, asked.buckets) > BINS_IN_ALL_MAX:
        raise InvalidInput(
            f"specs: {bins_in_all(specs, asked.buckets)} bins in all buckets; {BINS_IN_ALL_MAX} are legal."
            " Ask for fewer bins, or for a longer interval."
        )
    spans = project_spans(request, explain=asked.explain)
    metrics = await metrics_of(spans, specs, asked.values, asked.conditions, asked.buckets)
    buckets = [{**_bucket(asked.buckets, index), "metrics": each} for index, each in metrics.items()]
    members = {"count": len(buckets), "buckets": buckets, "query": _applied(asked), "specs": _shown_specs(specs)}
    return await _answer(members, spans, asked)


async def query_counts(request: Request) -> Response:
    """How many traces or spans there are, and what they took, bucket by bucket of time; empty buckets too.

    ``GET`` and ``POST /tracing/spans/analytics``.
    """
    asked = await _asked(request, request.query, request.body or CountsQuery())
    spans = project_spans(request, explain=asked.explain)
    counts = await counts_of(spans, asked.values, asked.conditions, asked.buckets, focus=asked.focus)
    buckets = [
        {**_bucket(asked.buckets, index), "total": total, "errors": errors}
        for index, (total, errors) in enumerate(counts)
    ]
    return await _answer({"count": len(buckets), "buckets": buckets}, spans, asked)


async def _asked(request: Request, parameters: AnalyticsParameters, body: CountsQuery | MetricsQuery) -> _Asked:
    """A question with its defaults, and what the statement about it needs."""
    given = _given(parameters, body)
    buckets = buckets_of(
        oldest_us=given["oldest"],
        newest_us=given["newest"],
        interval_min=given["interval"],
        now_us=request.context.clock.now_ns() // 1000,
    )
    is_flat = body.filter is not None or parameters.filter is not None
    node = await parse_filter(given["filter"], path="filter" if is_flat else "filtering")
    matching = await compile_node(node)
    focus = given["focus"] or Focus.TRACE
    by = given["by"] or WindowBy.START_TIME
    values = Values(matching, time_us=TIMES_US[by])
    window = _window(values, TIMES_US[by], buckets, rate=given["rate"])
    return _Asked(
        focus=focus,
        format=given["format"] or Format.AGENTA,
        by=by,
        buckets=buckets,
        rate=given["rate"],
        filtering=given["filter"] or FilteringModel(),
        node=node,
        values=values,
        conditions=[*window, *([IS_ROOT] if focus is Focus.TRACE else []), matching.sql],
        explain=given["explain"],
    )


def _given(parameters: AnalyticsParameters, body: CountsQuery | MetricsQuery) -> dict[str, Any]:
    """Flat members of the body win over those of the query string, and these over the body's ``windowing`` and ``filtering``."""
    windowing = body.windowing or Windowing()
    nested = {
        "by": windowing.by,
        "newest": microseconds(windowing.newest),
        "oldest": microseconds(windowing.oldest),
        "interval": windowing.interval,
        "rate": windowing.rate,
        "filter": body.filtering,
    }
    return {
        name: _first(getattr(body, name), getattr(parameters, name), nested.get(name))
        for name in AnalyticsParameters.model_fields
    }


def _window(values: Values, time_us: str, buckets: Buckets, *, rate: float | None) -> list[str]:
    conditions = [f"{time_us} >= {{oldest_us:Int64}}", f"{time_us} < {{newest_us:Int64}}"]
    values.parameters.values |= {"oldest_us": buckets.oldest_us, "newest_us": buckets.newest_us}
    if (rate_percent := percent_of(rate)) < 100:
        conditions.append(SAMPLED)
        values.parameters.values["rate_percent"] = rate_percent
    return conditions


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _bucket(buckets: Buckets, index: int) -> dict[str, Any]:
    return {"timestamp": format_us(buckets.start_us(index)), "interval": buckets.interval_min}


def _applied(asked: _Asked) -> dict[str, Any]:
    windowing = {
        "by": asked.by,
        "newest": format_us(asked.buckets.newest_us),
        "oldest": format_us(asked.buckets.oldest_us),
        "interval": asked.buckets.interval_min,
    }
    return {
        "formatting": {"focus": asked.focus, "format": asked.format},
        "windowing": windowing if asked.rate is None else {**windowing, "rate": asked.rate},
        "filtering": _understood(asked.filtering) or {"conditions": []},
    }


def _understood(member: FilteringModel | ConditionModel) -> dict[str, Any]:
    """A filter as it was sent, but for values that are ignored: these may be such that no answer can hold them."""
    if isinstance(member, ConditionModel):
        ignored = {"value"} if member.operator in _WITHOUT_VALUE else None
        return member.model_dump(mode="json", exclude_unset=True, exclude=ignored)
    shown = member.model_dump(mode="json", exclude_unset=True, exclude={"conditions"})
    if "conditions" in member.model_fields_set:
        shown["conditions"] = [_understood(each) for each in member.conditions]
    return shown


def _shown_specs(specs: Sequence[MetricSpec]) -> list[dict[str, Any]]:
    return [spec.model_dump(mode="json", exclude_none=True) for spec in specs]


async def _answer(members: dict[str, Any], spans: ProjectSpans, asked: _Asked) -> Response:
    return Response(b"%b%b}" % (orjson.dumps(members)[:-1], await explain_member(spans, asked.node)))
