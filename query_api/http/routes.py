"""The table of routes: every route of the API (contract §1). ``Router`` finds the route of a request.

The routes of applications, evaluators, environments and queries follow one pattern, in ``registry/routes.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from common.scopes import KeyScope
from query_api.admin import dead_letters, presence, projects, status
from query_api.admin import schemas as admin
from query_api.analytics import facets_models, groups_models, unpriced
from query_api.analytics import handlers as analytics
from query_api.analytics import models as analytics_models
from query_api.audit.handlers import AUDIT_ROUTES
from query_api.compat import accounts, flat
from query_api.compat.keys import PREFIXED_KEY_ROUTES
from query_api.compat.simple_traces.routes import SIMPLE_TRACE_ROUTES
from query_api.compat.workflows import WORKFLOW_ROUTES
from query_api.coverage import coverage
from query_api.delivery.alerts.handlers import ALERT_ROUTES
from query_api.delivery.handlers import SUBSCRIPTION_ROUTES
from query_api.explorer.routes import EXPLORER_ROUTES
from query_api.export import formats
from query_api.export import handlers as export
from query_api.filter.notation.handlers import FILTER_ROUTES
from query_api.freshness import status as freshness
from query_api.http import about
from query_api.intake import models as intake
from query_api.intake import otlp, otlp_logs, prepare
from query_api.intake.publish import send_spans
from query_api.keys.handlers import KEY_ROUTES
from query_api.masking.handlers import MASKING_ROUTES
from query_api.pages import by_ids, outline, sessions, spans, summaries, traces
from query_api.queries import saved
from query_api.queries.revisions import APPLICATION_ROUTES, EVALUATOR_ROUTES
from query_api.queries.saved import QUERY_ROUTES
from query_api.registry.routes import ENVIRONMENT_ROUTES
from query_api.request.route import Access, Route
from query_api.retention import handlers as retention

# fmt: off
SPANS: Final = (
    Route("POST", "/spans/query", saved.query_spans, "Query spans.", "Spans", spans.SpansResponse,
          body=spans.SpansQuery),
    Route("GET", "/spans", by_ids.list_spans, "Get spans by their ids.", "Spans", spans.SpansResponse,
          query=by_ids.SpanIds),
    Route("GET", "/spans/export", export.export_spans, "Export spans.", "Spans", None, query=export.ExportParameters,
          content_type=formats.JsonLines.content_type, is_streamed=True,
          other_content_types=(formats.Csv.content_type, formats.ParquetFile.content_type)),
    Route("GET", "/spans/{trace_id}/{span_id}", by_ids.get_span, "Get one span.", "Spans", by_ids.SpanResponse),
)
TRACES: Final = (
    Route("GET", "/traces", traces.list_traces, "Get traces by their ids.", "Traces", traces.TracesResponse,
          query=traces.TraceIds),
    Route("POST", "/traces/query", saved.query_traces, "Query traces.", "Traces", traces.TracesResponse,
          body=traces.TracesQuery),
    Route("POST", "/traces/summaries/query", saved.query_summaries, "Query summaries of traces.", "Traces",
          summaries.SummariesResponse, body=summaries.SummariesQuery),
    Route("GET", "/traces/{trace_id}", traces.get_trace, "Get one trace as a tree.", "Traces", traces.TraceResponse),
    Route("GET", "/traces/{trace_id}/outline", outline.get_outline, "Get the outline of one trace.", "Traces",
          outline.OutlineResponse),
    Route("DELETE", "/traces/{trace_id}", traces.delete_trace, "Delete a trace.", "Traces", traces.TraceDeleted,
          status=202),
)
METRICS: Final = Route(
    "POST", "/spans/analytics/query", analytics.query_metrics, "Query statistics of values over time.", "Analytics",
    analytics_models.MetricsResponse, query=analytics_models.MetricsParameters, body=analytics_models.MetricsQuery,
)
COUNTS: Final = Route(
    "POST", "/tracing/spans/analytics", analytics.query_counts, "Query counts and sums over time.", "Analytics",
    analytics_models.CountsResponse, query=analytics_models.CountsParameters, body=analytics_models.CountsQuery,
)
FACETS: Final = Route(
    "POST", "/spans/facets/query", saved.query_facets, "Query attribute paths or frequent values.", "Analytics",
    facets_models.FacetsResponse, body=facets_models.FacetsQuery,
)
SESSIONS: Final = Route(
    "POST", "/spans/sessions/query", sessions.query_sessions, "Query session ids.", "Analytics",
    sessions.SessionIdsResponse, body=sessions.ActivityQuery,
)
USERS: Final = Route(
    "POST", "/spans/users/query", sessions.query_users, "Query user ids.", "Analytics",
    sessions.UserIdsResponse, body=sessions.ActivityQuery,
)
ANALYTICS: Final = (
    Route("POST", "/spans/groups/query", saved.query_groups, "Group spans and measure each group.", "Analytics",
          groups_models.GroupsResponse, body=groups_models.GroupsQuery),
    METRICS,
    replace(METRICS, path="/tracing/analytics/query", deprecated=True),
    COUNTS,
    replace(COUNTS, method="GET", body=None),
    FACETS,
    Route("GET", "/prices/unknown", unpriced.list_unpriced, "List models that were used without a price.", "Analytics",
          unpriced.UnpricedResponse, query=unpriced.UnpricedParameters),
    SESSIONS,
    USERS,
    replace(SESSIONS, path="/tracing/sessions/query", deprecated=True),
    replace(USERS, path="/tracing/users/query", deprecated=True),
)
TRACING: Final = (
    Route("POST", "/tracing/spans/query", flat.query_flat, "Query traces or spans in the older form.", "Tracing",
          flat.FlatResponse, body=flat.FlatQuery, query=flat.FlatQuery, deprecated=True),
    Route("GET", "/tracing/traces/{trace_id}", flat.get_flat_trace, "Get one trace as a tree in the older form.",
          "Tracing", flat.FlatTraceResponse, deprecated=True),
    Route("DELETE", "/tracing/traces/{trace_id}", flat.delete_flat_trace, "Delete a trace in the older form.",
          "Tracing", intake.LinksResponse, status=202, deprecated=True),
)

def _otlp(prefix: str) -> tuple[Route, ...]:
    """The routes of OTLP over HTTP below a prefix. Errors have the format of the protocol."""
    in_otlp: dict[str, Any] = {
        "raw_body": otlp.CONTENT_TYPES, "content_type": otlp.PROTOBUF, "error_format": otlp.error_format,
        "needs": KeyScope.INGEST,
    }
    return (
        Route("GET", f"{prefix}/v1/traces", otlp.ready, "Check that OTLP is accepted here.", "Intake",
              intake.IntakeReady, needs=KeyScope.INGEST),
        Route("POST", f"{prefix}/v1/traces", otlp.export_traces, "Send spans as OTLP.", "Intake", None,
              prepare=otlp.prepare_traces, prepare_in_steps=otlp.prepare_kept_traces, takes_pages=True, **in_otlp),
        Route("POST", f"{prefix}/v1/metrics", otlp.reject, "Reject OTLP metrics.", "Intake", None,
              prepare=otlp.prepare_metrics, **in_otlp),
        Route("POST", f"{prefix}/v1/logs", otlp_logs.export_logs, "Send log records as OTLP.", "Intake", None,
              prepare=otlp_logs.prepare_logs, **in_otlp),
    )


def _accepting(*routes: Route) -> tuple[Route, ...]:
    """Mark routes that accept spans as JSON: their spans are queryable some time after the response."""
    accepting: dict[str, Any] = {"body_required": True, "ignores_unknown": True, "status": 202}
    return tuple(replace(route, needs=KeyScope.INGEST, **accepting) for route in routes)


OTLP: Final = (*_otlp(""), *_otlp("/otlp"))
INTAKE: Final = _accepting(
    Route("POST", "/tracing/spans/ingest", send_spans, "Send spans as JSON.", "Intake", intake.LinksResponse,
          body=intake.SpansIngest, prepare=prepare.spans_of_ingest,
          description="Send any number of spans of any number of traces, as a list or as trees."),
    Route("POST", "/traces/ingest", send_spans, "Send traces as JSON.", "Intake", intake.TraceIdsResponse,
          body=intake.TracesIngest, prepare=prepare.spans_of_traces, deprecated=True,
          description="Send any number of traces as trees."),
    Route("POST", "/traces", send_spans, "Send one trace.", "Intake", intake.TraceIdResponse, body=intake.TraceIngest,
          prepare=prepare.spans_of_new_trace, description="Send one trace with exactly one root, as a tree."),
    Route("PUT", "/traces/{trace_id}", send_spans, "Send spans of an existing trace.", "Intake", intake.TraceIdResponse,
          body=intake.TraceIngest, prepare=prepare.spans_of_replaced_trace,
          description="Send one trace with exactly one root. Stored spans of the trace that the body does not"
          " contain are kept."),
    Route("POST", "/tracing/traces", send_spans, "Send one trace in the older form.", "Intake", intake.LinksResponse,
          body=intake.SpansIngest, prepare=prepare.spans_of_new_trace_of_spans, deprecated=True,
          description="Send one trace with exactly one root, in the form of `/tracing/spans/ingest`."),
    Route("PUT", "/tracing/traces/{trace_id}", send_spans, "Send spans of an existing trace in the older form.",
          "Intake", intake.LinksResponse, body=intake.SpansIngest, prepare=prepare.spans_of_replaced_trace_of_spans,
          deprecated=True,
          description="Send one trace with exactly one root, in the form of `/tracing/spans/ingest`. Stored spans"
          " that the body does not contain are kept."),
)
STATUS: Final = (
    Route("GET", "/status/freshness", freshness.freshness_of_project,
          "Get the time up to which the project's data is queryable.", "Status", freshness.Freshness),
    Route("GET", "/status/instrumentations", coverage.get_coverage,
          "Get which instrumentations send spans, and what their model calls have.", "Status",
          coverage.CoverageResponse, query=coverage.CoverageParameters, reads_spans=True),
    Route("GET", "/admin/status/freshness", freshness.freshness_of_all,
          "Get the time up to which the data of all projects is queryable.", "Status", freshness.Freshness,
          access=Access.OPERATOR, reads_spans=True),
    Route("GET", "/admin/status", status.get_status, "Get the status of the installation.", "Status", status.Status,
          query=status.StatusParameters, access=Access.OPERATOR),
    Route("POST", "/admin/presence/query", presence.query_presence, "Query which spans of records are not stored.",
          "Status", presence.PresenceResponse, body=presence.PresenceQuery, body_required=True,
          access=Access.OPERATOR),
)
DEAD_LETTERS: Final = tuple(
    replace(route, access=Access.OPERATOR)
    for route in (
        Route("GET", "/admin/dead-letters", dead_letters.list_dead_letters, "List open dead letters.", "Dead letters",
              admin.DeadLettersResponse, query=admin.DeadLettersParameters),
        Route("GET", "/admin/dead-letters/{dead_letter_id}", dead_letters.get_dead_letter,
              "Get one open dead letter with its bytes.", "Dead letters", admin.DeadLetterResponse,
              refused_statuses=(409,)),
        Route("DELETE", "/admin/dead-letters/{dead_letter_id}", dead_letters.drop_dead_letter, "Drop a dead letter.",
              "Dead letters", admin.DeadLetterResolved, query=admin.DryRunOption),
        Route("POST", "/admin/dead-letters/{dead_letter_id}/replay", dead_letters.replay_dead_letter,
              "Replay a dead letter.", "Dead letters", admin.DeadLetterResolved, query=admin.DryRunOption,
              body=admin.DryRunOption),
        Route("POST", "/admin/dead-letters/replay", dead_letters.replay_dead_letters, "Replay dead letters that match.",
              "Dead letters", admin.DeadLettersResolved, body=admin.ResolveDeadLetters, body_required=True),
        Route("POST", "/admin/dead-letters/drop", dead_letters.drop_dead_letters, "Drop dead letters that match.",
              "Dead letters", admin.DeadLettersResolved, body=admin.ResolveDeadLetters, body_required=True),
    )
)
ACCOUNTS: Final = (
    Route("GET", "/projects/current", accounts.current_project, "Get the project of the API key.", "Accounts",
          accounts.CurrentProject, refused_statuses=(404,)),
    Route("GET", "/projects/users", accounts.project_users, "List the users of the project.", "Accounts",
          accounts.ProjectUsersResponse),
    Route("GET", "/access/permissions/check", accounts.check_permission, "Check a permission of the API key.",
          "Accounts", accounts.Permission, query=accounts.PermissionParameters, ignores_unknown=True),
    Route("POST", "/admin/simple/accounts", accounts.create_accounts, "Create accounts with projects and keys.",
          "Accounts", accounts.AccountsResponse, body=accounts.CreateAccounts, body_required=True, ignores_unknown=True,
          access=Access.ADMIN),
    Route("DELETE", "/admin/projects/{project_id}", projects.delete_project, "Delete a project.", "Accounts",
          projects.ProjectDeleted, access=Access.OPERATOR, refused_statuses=(404,)),
)
RETENTION: Final = (
    Route("GET", "/retention", retention.get_retention, "Get what is kept, and what is deleted when.", "Retention",
          retention.RetentionResponse),
    Route("PUT", "/retention", retention.set_retention, "Set what is kept.", "Retention",
          retention.RetentionResponse, body=retention.SetRetention, body_required=True,
          ignores_unknown=True),
    Route("DELETE", "/retention", retention.remove_retention, "Keep everything.", "Retention",
          retention.RetentionResponse),
)
PROBES: Final = (
    Route("GET", "/livez", about.livez, "Check that the process is alive.", "Health", about.Liveness,
          access=Access.PUBLIC),
    Route("GET", "/health", about.livez, "Check that the process is alive (older name of `/livez`).", "Health",
          about.Liveness, access=Access.PUBLIC),
    Route("GET", "/readyz", about.readyz, "Check that the process can answer requests.", "Health", about.Readiness,
          access=Access.PUBLIC, unready_statuses=(503,)),
)
HEALTH: Final = (
    *PROBES,
    Route("GET", "/metrics", about.metrics, "Get the metrics of the process, for Prometheus.", "Health", None,
          access=Access.PUBLIC, content_type="text/plain"),
)
# fmt: on


def _changed_by_administrators(*routes: Route) -> tuple[Route, ...]:
    """Mark routes that decide what a project keeps and who may use it: changing that needs ``admin``."""
    return tuple(route if route.method == "GET" else replace(route, needs=KeyScope.ADMIN) for route in routes)


def _reading(*routes: Route) -> tuple[Route, ...]:
    """Mark routes that read spans: responses say how fresh they are, and requests may wait for own writes."""
    return tuple(replace(route, reads_spans=True) for route in routes)


ROUTES: Final = about.with_about(
    (
        *_reading(*SPANS, *TRACES, *TRACING, *ANALYTICS),
        *SIMPLE_TRACE_ROUTES,
        *FILTER_ROUTES,
        *OTLP,
        *INTAKE,
        *APPLICATION_ROUTES,
        *EVALUATOR_ROUTES,
        *ENVIRONMENT_ROUTES,
        *QUERY_ROUTES,
        *WORKFLOW_ROUTES,
        *_changed_by_administrators(*MASKING_ROUTES, *RETENTION),
        *KEY_ROUTES,
        *PREFIXED_KEY_ROUTES,
        *AUDIT_ROUTES,
        *SUBSCRIPTION_ROUTES,
        *ALERT_ROUTES,
        *ACCOUNTS,
        *STATUS,
        *DEAD_LETTERS,
        *HEALTH,
        *EXPLORER_ROUTES,
    )
)

OTLP_ROUTES: Final = (*OTLP, *PROBES)
"""The routes of the port for OTLP over HTTP."""
