"""``GET /status/instrumentations``: which instrumentations send, and how many of their model calls have what.

Two samples answer: the newest spans say who sends, the newest model calls what they have. A session or user counts if
any span of the trace names it, since many instrumentations name it only on the root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from common.clickhouse.select import Select, Table
from common.span import MODEL_CALLS, StatusCode
from common.times import RelativeTime
from query_api.coverage.hints import Value, hint_for
from query_api.filter.parse import parse_place
from query_api.filter.sql.compile import EVERY_ROW, Compiled
from query_api.filter.sql.expressions import Parameters
from query_api.filter.sql.values import value_of
from query_api.request.json_body import ApiModel, Strict, json_response
from query_api.request.limits import Limits
from query_api.request.references import Bound
from query_api.request.route import Request, Response
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.sample import SampleSize, SpanSample, newest_spans, visible_rows
from query_api.spans.versions import among_ids
from query_api.spans.window import Conditions, bound_us

INSTRUMENTATIONS_MAX: Final = 100
"""Instrumentations of a response: those with the most spans."""

WINDOW: Final = "-7d"
"""The start of the window if none is given."""

MISSING_BELOW: Final = 0.9
"""A value has a hint if a smaller share of the calls has it."""

_TRACE_US: Final = 3_600_000_000
"""How long before the oldest call of the sample the root of its trace may start."""

_IS_CALL: Final = f"span_type IN ({', '.join(map(repr, MODEL_CALLS))})"


class CallShare(ApiModel):
    """How many calls have a value, of those that can have it."""

    count: int = Field(description="Calls that have it.")
    of: int = Field(description="Calls that can have it.")


class CallValues(ApiModel):
    """What model calls have."""

    model: CallShare = Field(description="The name of the model.")
    tokens: CallShare = Field(description="Tokens; of calls that did not fail.")
    cost: CallShare = Field(description="A cost, sent or computed; of calls that did not fail.")
    inputs: CallShare = Field(description="Inputs; of calls that are no embeddings.")
    outputs: CallShare = Field(description="Outputs; of calls that did not fail and are no embeddings.")
    session: CallShare = Field(description="A session, on any span of the trace.")
    user: CallShare = Field(description="A user, on any span of the trace.")
    error_message: CallShare = Field(description="The message of the error; of calls that failed.")


class CoverageHint(ApiModel):
    """What to set in a library."""

    missing: Value = Field(description="The value that most calls lack; `model_calls`: no span is a model call.")
    hint: str = Field(description="What to do.")


class InstrumentationCoverage(ApiModel):
    """An instrumentation, by its scope, and what its model calls have."""

    scope_name: str = Field(description="The name of the scope; empty if its spans have none.")
    scope_version: str = Field(description="The version of the scope; empty if its spans have none.")
    spans_count: int = Field(description="Its spans among the newest spans; at least `calls_count`.")
    calls_count: int = Field(description="Its model calls among the newest model calls.")
    calls: CallValues | None = Field(None, description="What its model calls have; absent without any.")
    hints: list[CoverageHint] = Field(description="What to set so that missing values arrive.")


class CoverageResponse(ApiModel):
    """The instrumentations that send spans."""

    count: int = Field(description="The number of instrumentations in this response.")
    instrumentations: list[InstrumentationCoverage] = Field(
        description="The instrumentations, at most 100: those with the most model calls, then the most spans."
    )
    sampled_spans: SampleSize | None = Field(None, description="Present if only the newest spans were examined.")
    sampled_calls: SampleSize | None = Field(None, description="Present if only the newest model calls were examined.")


class CoverageParameters(Strict):
    """The spans that are examined."""

    oldest: Bound | None = Field(None, description="The start of the window, included; default `-7d`.")
    newest: Bound | None = Field(None, description="The end of the window, excluded.")


async def get_coverage(request: Request) -> Response:
    """Return which instrumentations send spans, how many of their model calls have what, and how to get the rest.

    At most 10,000 of the newest spans and 10,000 of the newest model calls are examined.
    """
    parameters: CoverageParameters = request.query
    spans = project_spans(request, explain=False)
    now_us = request.context.clock.now_ns() // 1_000
    return json_response(await read_coverage(spans, parameters, now_us=now_us, limits=request.context.limits))


async def read_coverage(
    spans: ProjectSpans, parameters: CoverageParameters, *, now_us: int, limits: Limits
) -> CoverageResponse:
    """Return the instrumentations of one project. Raises ``DeadlineExceeded``, and the errors of ``ColumnStore``."""
    window = _window(parameters, now_us=now_us)
    newest = await newest_spans(spans, window, EVERY_ROW, limits)
    calls = await newest_spans(spans, window, Compiled(_IS_CALL, {}), limits)
    spans_rows = await _rows(spans, newest, "instrumentations", {}, ["count() AS spans_count"])
    calls_rows = await _rows(spans, calls, "model calls", _columns_of_calls(spans), _COUNTS, _since(calls))
    counted = {_scope(row): row for row in calls_rows}
    spans_counts = {_scope(row): row["spans_count"] for row in spans_rows}
    found = [
        _instrumentation(scope, spans_counts.get(scope, 0), counted.get(scope)) for scope in {**counted, **spans_counts}
    ]
    found.sort(key=lambda each: (-each.calls_count, -each.spans_count, each.scope_name, each.scope_version))
    shown = found[:INSTRUMENTATIONS_MAX]
    return CoverageResponse(
        count=len(shown), instrumentations=shown, sampled_spans=newest.sampled(), sampled_calls=calls.sampled()
    )


def _window(parameters: CoverageParameters, *, now_us: int) -> Conditions:
    oldest = parameters.oldest if parameters.oldest is not None else RelativeTime.read(WINDOW)
    conditions, values = ["start_us >= {oldest_us:Int64}"], {"oldest_us": bound_us(oldest, now_us=now_us)}
    if parameters.newest is not None:
        conditions.append("start_us < {newest_us:Int64}")
        values["newest_us"] = bound_us(parameters.newest, now_us=now_us)
    return Conditions(conditions, values)


_HAS_FAILED: Final = (
    f"(status_code = {StatusCode.STATUS_CODE_ERROR.value}"
    " OR arrayExists(path -> startsWith(path, 'ag.exception'), paths))"
)


def _columns_of_calls(spans: ProjectSpans) -> Mapping[str, str]:
    """Return what is known of each model call of a sample, as expressions over a row of ``spans``."""
    return {
        "paths": "mapKeys(leaves)",
        "has_failed": _HAS_FAILED,
        "is_embedding": "span_type = 'embedding'",
        "has_model": "model_leaf != ''",
        "has_tokens": "tokens_leaf != ''",
        "has_cost": "cost_leaf != ''",
        "has_inputs": "arrayExists(path -> startsWith(path, 'ag.data.inputs'), paths)",
        "has_outputs": "arrayExists(path -> startsWith(path, 'ag.data.outputs'), paths)",
        "has_session": _in_trace(spans, "session_in_attributes"),
        "has_user": _in_trace(spans, "user_in_attributes"),
        "has_message": "(leaves['ag.exception.message'] != '' OR ifNull(status_message, '') != '')",
    }


def _in_trace(spans: ProjectSpans, column: str) -> str:
    """Whether any span of the trace, in any version, has a text in a column."""
    traces = Select(
        spans.project_id,
        Table.SPANS,
        ["trace_id"],
        where=[f"{column} != ''", f"trace_id IN {among_ids('sample_traces')}"],
        prewhere=["start_us >= {since_us:Int64}"],
    )
    return f"trace_id IN ({traces})"


def _since(calls: SpanSample) -> Mapping[str, int]:
    return {"since_us": calls.oldest_us - _TRACE_US}


_SHARES: Final[Mapping[Value, tuple[str, str]]] = {
    "model": ("has_model", "1"),
    "tokens": ("has_tokens", "NOT has_failed"),
    "cost": ("has_cost", "NOT has_failed"),
    "inputs": ("has_inputs", "NOT is_embedding"),
    "outputs": ("has_outputs", "NOT has_failed AND NOT is_embedding"),
    "session": ("has_session", "1"),
    "user": ("has_user", "1"),
    "error_message": ("has_message", "has_failed"),
}
"""Value → the calls that have it, and the calls that can."""

_COUNTS: Final = [
    "count() AS calls_count",
    *(f"countIf({has} AND {can}) AS {value}_count" for value, (has, can) in _SHARES.items()),
    *(f"countIf({can}) AS {value}_of" for value, (_, can) in _SHARES.items()),
]


async def _rows(
    spans: ProjectSpans,
    sample: SpanSample,
    step: str,
    columns: Mapping[str, str],
    counts: Sequence[str],
    values: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return counts over a sample for each scope, those with the most spans."""
    parameters = Parameters()
    parameters.values.update({**sample.parameters, **(values or {})})
    scope = {name: value_of(parse_place("scope", name, path="scope"), parameters).text for name in ("name", "version")}
    named = {f"scope_{name}": expression for name, expression in scope.items()}
    query = Select(
        spans.project_id,
        visible_rows(spans.project_id, {**named, **columns}, parameters.values),
        [*named, *counts],
        group_by=[*named],
        order_by=["count() DESC", *named],
        limit=INSTRUMENTATIONS_MAX,
    )
    rows: list[dict[str, Any]] = (await spans.select(query, step=step)).to_pylist()
    return rows


def _scope(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["scope_name"].decode(), row["scope_version"].decode()


def _instrumentation(
    scope: tuple[str, str], spans_count: int, counted: Mapping[str, Any] | None
) -> InstrumentationCoverage:
    name, version = scope
    calls = None
    missing: list[Value] = ["model_calls"]
    if counted is not None:
        shares = {value: CallShare(count=counted[f"{value}_count"], of=counted[f"{value}_of"]) for value in _SHARES}
        calls = CallValues(**shares)
        missing = _missing(shares)
    hints = [CoverageHint(missing=value, hint=hint) for value in missing if (hint := hint_for(name, value)) is not None]
    return InstrumentationCoverage(
        scope_name=name,
        scope_version=version,
        spans_count=max(spans_count, 0 if counted is None else counted["calls_count"]),
        calls_count=0 if counted is None else counted["calls_count"],
        calls=calls,
        hints=hints,
    )


def _missing(shares: Mapping[Value, CallShare]) -> list[Value]:
    """Return the values that many calls lack. A cost needs a model and tokens, so it is missing only if they are
    not."""
    missing = [value for value, share in shares.items() if share.count < share.of * MISSING_BELOW]
    if "model" in missing or "tokens" in missing:
        missing = [value for value in missing if value != "cost"]
    return missing
