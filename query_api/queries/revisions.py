"""The routes of applications and of evaluators, one of which counts the spans of a revision.

The spans of a revision are those that refer to it. They are counted in a window of their start time with one
statement. A *run* is what a trace holds of the revision: it lasts from the first start of its spans to their last
end. Usage counts once, as in a trace (``common/usage.py``), as if the spans of the revision were the whole trace: if
only a root refers to the revision, the root counts with its cumulative usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from common.clickhouse.select import Join, Select
from common.codec.checks import json_double
from common.span import AMOUNTS, COSTS, MODEL_CALLS, Metrics, StatusCode
from common.times import format_us
from common.usage import exact_total_sql, trace_sums
from query_api.analytics.buckets import Buckets, buckets_of
from query_api.analytics.statements import IS_ERROR
from query_api.filter.parse import FilteringModel, parse_filter
from query_api.filter.sql.compile import compile_node
from query_api.freshness.headers import with_freshness
from query_api.registry.applications import APPLICATION, EVALUATOR
from query_api.registry.checks import path_id
from query_api.registry.environments import DeployableRevisions, RetrieveDeployed
from query_api.registry.kinds import History, Labels
from query_api.registry.responses import RevisionResponse
from query_api.registry.routes import checking_route, deploying_route, kind_routes, resolving_route
from query_api.registry.values import Revision
from query_api.request.json_body import ApiModel, Strict
from query_api.request.references import Moment as StartTime
from query_api.request.references import Reference, moment_us
from query_api.request.route import Request, Response, Route
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.visible_spans import visible_spans

PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_USAGE: Final = tuple(f"{unit}_{amount}" for unit in ("tokens", "costs") for amount in AMOUNTS)
_OF_SPAN: Final[Mapping[str, str]] = {
    "end_us": "end_us",
    "is_call": f"span_type IN ({', '.join(map(repr, MODEL_CALLS))})",
    "is_error": f"(status_code = {StatusCode.STATUS_CODE_ERROR.value} OR {IS_ERROR})",
}
_OF_REPORT: Final = {name: name for name in ("parent_id", "usage_is_own", "cost_is_computed", *Metrics._fields)}
_OF_RUN: Final = (
    *("count() AS spans_count", "countIf(is_call) AS calls_count", "countIf(is_error) AS errors_count"),
    "(max(end_us) - min(start_us)) / 1000 AS lasted_ms",
)
_OF_ALL: Final = (
    *("sum(spans_count) AS spans", "count() AS traces", "sum(calls_count) AS calls", "sum(errors_count) AS errors"),
    f"quantilesExactInclusive({', '.join(map(str, PERCENTILES.values()))})(lasted_ms) AS percentiles",
)
_USED: Final = tuple(f"{exact_total_sql(name) if name in COSTS else f'sum({name})'} AS {name}" for name in _USAGE)


class CountParameters(Strict):
    """Whether to count the spans that refer to the revision, and in which window of their start_time."""

    include_counts: bool | None = Field(None, description="Whether the spans of the revision are counted.")
    oldest: StartTime = Field(None, description="The start of the window; 30 days before `newest` by default.")
    newest: StartTime = Field(
        None, description="The end of the window, exclusive; the next midnight in UTC by default."
    )


class CountedWindow(ApiModel):
    """The window, as `/spans/query` takes it."""

    newest: str
    oldest: str


class CountedUsage(ApiModel):
    """The usage of the spans. Usage that a span repeats from the spans below it counts once."""

    prompt: float | None = Field(None, description="Absent if the usage is not zero and no span reports this part.")
    completion: float | None = Field(None, description="Absent if the usage is not zero and no span reports this part.")
    total: float | None = Field(None, description="Absent if the usage is not zero and no span reports this part.")


class RunDuration(ApiModel):
    """Percentiles in milliseconds, interpolated linearly."""

    p50: float
    p90: float
    p95: float
    p99: float


class RevisionCounts(ApiModel):
    """The spans that refer to a revision and start in a window."""

    windowing: CountedWindow
    filtering: FilteringModel = Field(
        description="The filter that selects the spans: with `windowing` a body of `/spans/query` that lists them."
    )
    spans: int
    traces: int = Field(description="The traces that hold the spans.")
    calls: int = Field(description="The model calls: spans of the types llm, chat, completion, embedding and rerank.")
    errors: int = Field(description="Spans whose status is an error, or that have an event named exception.")
    tokens: CountedUsage
    costs: CountedUsage
    duration_ms: RunDuration | None = Field(
        None,
        description="The duration of a run: in each trace, from the start of its first span to the end of its last. "
        "Absent if there are no spans.",
    )


class CountedRevisionResponse(RevisionResponse):
    """One revision, or none."""

    counts: RevisionCounts | None = Field(None, description="Present if `include_counts` was set.")


class CountedRevisions(DeployableRevisions):
    """The routes of revisions whose spans can be counted."""

    async def get(self, request: Request) -> Response:
        """Return a revision, archived or not. With `include_counts` its spans are counted, and the response says how
        fresh the counts are.
        """
        parameters: CountParameters = request.query
        if parameters.include_counts:
            return await with_freshness(request, self._get_with_counts)
        return await super().get(request)

    async def _get_with_counts(self, request: Request) -> Response:
        revision = await self._lineage(request).find(Revision, Reference(path_id(request)))
        if revision is None:
            return self._response(None)
        parameters: CountParameters = request.query
        now_us = request.context.clock.now_ns() // 1000
        window = buckets_of(
            oldest_us=moment_us(parameters.oldest, now_us=now_us),
            newest_us=moment_us(parameters.newest, now_us=now_us),
            interval_min=None,
            now_us=now_us,
        )
        counts = await _counts_of(project_spans(request), _spans_of(self._labels, revision), window)
        return self._response(revision, counts=counts)


def _spans_of(labels: Labels, revision: Revision) -> FilteringModel:
    """Return the filter that selects the spans that refer to a revision; a client may send it to ``/spans/query``
    too.

    Three ways to refer are known (reference §3.2, §4.5): by the id of the revision, by its slug, or by its variant
    and its version, as clients do that only know what to run. An id needs no key, because it is unique. A slug does.
    """
    by_itself = _refers([{"id": str(revision.id)}, {"slug": revision.slug, "attributes.key": labels.revision}])
    to_variant = _refers(
        [{"id": str(revision.variant_id)}, {"slug": revision.variant_slug, "attributes.key": labels.variant}]
    )
    to_version = _refers([{"version": str(revision.version), "attributes.key": labels.revision}])
    by_version = {"operator": "and", "conditions": [to_variant, to_version]}
    return FilteringModel.model_validate({"operator": "or", "conditions": [by_itself, by_version]})


def _refers(partials: list[dict[str, Any]]) -> dict[str, Any]:
    return {"field": "references", "operator": "in", "value": partials}


async def _counts_of(spans: ProjectSpans, filtering: FilteringModel, window: Buckets) -> dict[str, Any]:
    """Return the member ``counts`` of the spans that match and start in the window, whose end is exclusive.

    It repeats the window and the filter as ``/spans/query`` takes them, so that clients can list what was counted.
    Raises what ``ProjectSpans.select`` raises: counts are complete, or there are none.
    """
    matching = await compile_node(await parse_filter(filtering), now_us=window.newest_us)  # it has no relative times
    conditions = ["start_us >= {oldest_us:Int64}", "start_us < {newest_us:Int64}", matching.sql]
    values = {**matching.parameters, "oldest_us": window.oldest_us, "newest_us": window.newest_us}
    project_id = spans.project_id
    visible = visible_spans(project_id, _OF_SPAN, conditions, values)
    runs = Select(project_id, visible, _OF_RUN, group_by=["trace_id"], is_by_trace=visible.is_by_trace)
    used = Select(project_id, trace_sums(visible_spans(project_id, _OF_REPORT, conditions, values)), _USED)
    both = Select(
        project_id, Select(project_id, runs, _OF_ALL), ["*"], alias="runs", joins=[Join("CROSS", used, "used")]
    )
    rows = await spans.select(both, step="counts of a revision")
    return {
        "windowing": {"newest": format_us(window.newest_us), "oldest": format_us(window.oldest_us)},
        "filtering": filtering.model_dump(mode="json", exclude_unset=True),
        **_members(rows.to_pylist()[0]),
    }


def _members(row: Mapping[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {name: row[name] for name in ("spans", "traces", "calls", "errors")}
    for unit in ("tokens", "costs"):
        used = {amount: row[f"{unit}_{amount}"] for amount in AMOUNTS}
        is_unused = not any(used.values())
        members[unit] = {amount: json_double(sum_) for amount, sum_ in used.items() if sum_ or is_unused}
    if row["traces"]:
        lasted_ms = zip(PERCENTILES, row["percentiles"], strict=True)
        members["duration_ms"] = {name: json_double(value) for name, value in lasted_ms}
    return members


def _family_routes(history: History) -> tuple[Route, ...]:
    """Return the routes of a family of histories that are deployed to environments."""
    revisions = CountedRevisions(history)
    return (
        *kind_routes(
            history,
            revisions,
            found=CountedRevisionResponse,
            found_parameters=CountParameters,
            retrieve=RetrieveDeployed,
        ),
        resolving_route(history, revisions),
        checking_route(history, revisions),
        deploying_route(history, revisions),
    )


APPLICATION_ROUTES: Final = _family_routes(APPLICATION)
EVALUATOR_ROUTES: Final = _family_routes(EVALUATOR)
