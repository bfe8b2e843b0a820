"""The table of routes: every route of the API, and how a request finds its own (contract §1).

The routes of applications, environments and queries follow one pattern, in ``registry/routes.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from common.errors import NotFound
from query_api.analytics import handlers as analytics
from query_api.analytics import models as analytics_models
from query_api.compat import accounts, flat
from query_api.compat import simple_traces as simple
from query_api.compat import simple_traces_models as simple_models
from query_api.compat.workflows import WORKFLOW_ROUTES
from query_api.freshness import status as freshness
from query_api.http import about
from query_api.intake import models as intake
from query_api.intake import otlp, otlp_rejected, prepare
from query_api.intake.publish import send_spans
from query_api.pages import sessions, spans, traces
from query_api.registry.routes import ENVIRONMENT_ROUTES
from query_api.request.errors import MethodNotAllowed
from query_api.request.route import Access, Route
from query_api.saved import query_routes as saved
from query_api.saved.query_routes import QUERY_ROUTES
from query_api.saved.revisions import APPLICATION_ROUTES

# fmt: off
SPANS: Final = (
    Route("POST", "/spans/query", saved.query_spans, "Query spans.", "Spans", spans.SpansResponse,
          body=spans.SpansQuery),
    Route("GET", "/spans", spans.list_spans, "Get spans by their ids.", "Spans", spans.SpansResponse,
          query=spans.SpanIds),
    Route("GET", "/spans/{trace_id}/{span_id}", spans.get_span, "Get one span.", "Spans", spans.SpanResponse),
)
TRACES: Final = (
    Route("GET", "/traces", traces.list_traces, "Get traces by their ids.", "Traces", traces.TracesResponse,
          query=traces.TraceIds),
    Route("POST", "/traces/query", saved.query_traces, "Query traces.", "Traces", traces.TracesResponse,
          body=traces.TracesQuery),
    Route("GET", "/traces/{trace_id}", traces.get_trace, "Get one trace as a tree.", "Traces", traces.TraceResponse),
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
SESSIONS: Final = Route(
    "POST", "/spans/sessions/query", sessions.query_sessions, "Query session ids.", "Analytics", sessions.SessionIds,
    body=sessions.ActivityQuery,
)
USERS: Final = Route(
    "POST", "/spans/users/query", sessions.query_users, "Query user ids.", "Analytics", sessions.UserIds,
    body=sessions.ActivityQuery,
)
ANALYTICS: Final = (
    METRICS,
    replace(METRICS, path="/tracing/analytics/query", deprecated=True),
    COUNTS,
    replace(COUNTS, method="GET", body=None),
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
SIMPLE: Final = (
    Route("POST", "/simple/traces/query", simple.query_simple_traces, "Query simple traces.", "Simple traces",
          simple_models.SimpleTracesResponse, body=simple_models.QuerySimpleTraces),
    Route("GET", "/simple/traces/{trace_id}", simple.get_simple_trace, "Get one simple trace.", "Simple traces",
          simple_models.SimpleTraceResponse),
    Route("PATCH", "/simple/traces/{trace_id}", simple.edit_simple_trace, "Edit a simple trace.", "Simple traces",
          simple_models.SimpleTraceResponse, body=simple_models.EditSimpleTrace, body_required=True,
          ignores_unknown=True),
    Route("DELETE", "/simple/traces/{trace_id}", simple.delete_simple_trace, "Delete a simple trace.", "Simple traces",
          simple_models.SimpleTraceDeleted),
)


def _otlp(prefix: str) -> tuple[Route, ...]:
    """The routes of OTLP over HTTP below a prefix. Errors have the format of the protocol."""
    in_otlp: dict[str, Any] = {
        "raw_body": otlp.CONTENT_TYPES, "content_type": otlp.PROTOBUF, "error_format": otlp.error_format,
    }
    return (
        Route("GET", f"{prefix}/v1/traces", otlp.ready, "Check that OTLP is accepted here.", "Intake",
              intake.IntakeReady),
        Route("POST", f"{prefix}/v1/traces", otlp.export_traces, "Send spans as OTLP.", "Intake", None,
              prepare=otlp.prepare_traces, **in_otlp),
        Route("POST", f"{prefix}/v1/metrics", otlp_rejected.reject, "Reject OTLP metrics.", "Intake", None,
              prepare=otlp_rejected.prepare_metrics, **in_otlp),
        Route("POST", f"{prefix}/v1/logs", otlp_rejected.reject, "Reject OTLP logs.", "Intake", None,
              prepare=otlp_rejected.prepare_logs, **in_otlp),
    )


def _accepting(*routes: Route) -> tuple[Route, ...]:
    """Mark routes that accept spans as JSON: their spans are queryable some time after the response."""
    return tuple(replace(route, body_required=True, ignores_unknown=True, status=202) for route in routes)


OTLP: Final = (*_otlp(""), *_otlp("/otlp"))
INTAKE: Final = _accepting(
    Route("POST", "/simple/traces", simple.create_simple_trace, "Create a simple trace.", "Simple traces",
          simple_models.SimpleTraceResponse, body=simple_models.CreateSimpleTrace, prepare=simple_models.spans_of_new),
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
    Route("GET", "/admin/status/freshness", freshness.freshness_of_all,
          "Get the time up to which the data of all projects is queryable.", "Status", freshness.Freshness,
          access=Access.ADMIN, reads_spans=True),
)
ACCOUNTS: Final = (
    Route("GET", "/projects/current", accounts.current_project, "Get the project of the API key.", "Accounts",
          accounts.CurrentProject, refused_statuses=(404,)),
    Route("GET", "/access/permissions/check", accounts.check_permission, "Check a permission of the API key.",
          "Accounts", accounts.Permission, query=accounts.PermissionParameters, ignores_unknown=True),
    Route("POST", "/admin/simple/accounts", accounts.create_accounts, "Create accounts with projects and keys.",
          "Accounts", accounts.AccountsResponse, body=accounts.CreateAccounts, body_required=True, ignores_unknown=True,
          access=Access.ADMIN),
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


def _reading(*routes: Route) -> tuple[Route, ...]:
    """Mark routes that read spans: responses say how fresh they are, and requests may wait for own writes."""
    return tuple(replace(route, reads_spans=True) for route in routes)


ROUTES: Final = about.with_about(
    (
        *_reading(*SPANS, *TRACES, *TRACING, *SIMPLE, *ANALYTICS),
        *OTLP,
        *INTAKE,
        *APPLICATION_ROUTES,
        *ENVIRONMENT_ROUTES,
        *QUERY_ROUTES,
        *WORKFLOW_ROUTES,
        *ACCOUNTS,
        *STATUS,
        *HEALTH,
    )
)

OTLP_ROUTES: Final = (*OTLP, *PROBES)
"""The routes of the port for OTLP over HTTP."""

ADMIN: Final = "admin"
"""The first segment of the administrator's paths."""


class Match(NamedTuple):
    """A route and the values of its path parameters."""

    route: Route
    path: dict[str, str]


class Router:
    """Finds the route of a path and a method.

    Any number of leading ``/api`` segments is skipped, then one ``/preview`` (an old alias of the public API), then one
    trailing slash. From left to right a literal segment wins over a ``{parameter}``, whatever the method: what the
    literal path does not support is 405, not an id. There are no redirects.

    Raises ``ValueError`` if two routes have the same method and path, or if a path begins with a parameter.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in routes:
            if route.path.startswith("/{"):
                raise ValueError(f"{route.path} begins with a parameter")
            if route.method in by_path[route.path]:
                raise ValueError(f"{route.method} {route.path} is routed twice")
            by_path[route.path][route.method] = route
        self._templates: dict[tuple[int, str], list[_Template]] = defaultdict(list)
        for path, methods in by_path.items():
            template = _Template(path.split("/")[1:], methods)
            self._templates[_index(template.segments)].append(template)
        for templates in self._templates.values():
            templates.sort(key=lambda template: template.is_parameter)

    def match(self, method: str, raw_path: str) -> Match:
        """Return the route of a path as sent in the request line. Raises ``NotFound`` or ``MethodNotAllowed``."""
        segments = _segments(raw_path)
        templates = self._templates.get(_index(segments), [])
        fitting = [template for template in templates if template.fits(segments)]
        if not fitting:
            raise NotFound
        template, served = fitting[0], _served_by(method)
        # `/traces/QUERY` is not an id either: it means the literal path, which does not support the method.
        lowercase = [segment.lower() for segment in segments]
        meant = next(candidate for candidate in templates if candidate.fits(lowercase))
        if meant is not template or served not in template.methods:
            would_be_an_id = any(served in candidate.methods for candidate in fitting)
            detail = f"{method} /{'/'.join(segments)} is not supported." if would_be_an_id else None
            raise MethodNotAllowed(meant.allowed(), detail)
        return Match(template.methods[served], template.parameters(segments))


def required_access(raw_path: str) -> Access:
    """Return the access level required before a 404 or 405 is revealed."""
    return Access.ADMIN if _segments(raw_path)[:1] == [ADMIN] else Access.PROJECT


class _Template:
    """One path with its methods. Sorting by ``is_parameter`` puts literals first, from left to right."""

    def __init__(self, segments: Sequence[str], methods: dict[str, Route]) -> None:
        self.segments: Final = segments
        self.methods: Final = methods
        self.is_parameter: Final = tuple(segment.startswith("{") for segment in segments)

    def fits(self, segments: Sequence[str]) -> bool:
        return all(
            sent != "" if is_parameter else sent == segment
            for is_parameter, segment, sent in zip(self.is_parameter, self.segments, segments, strict=True)
        )

    def parameters(self, segments: Sequence[str]) -> dict[str, str]:
        triples = zip(self.is_parameter, self.segments, segments, strict=True)
        return {segment[1:-1]: sent for is_parameter, segment, sent in triples if is_parameter}

    def allowed(self) -> list[str]:
        return sorted([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])


def _index(segments: Sequence[str]) -> tuple[int, str]:
    """Templates are grouped by their length and first segment, which is never a parameter."""
    return len(segments), segments[0]


def _served_by(method: str) -> str:
    """HEAD is served by GET; the server omits the body."""
    return "GET" if method == "HEAD" else method


def _segments(raw_path: str) -> list[str]:
    """Split a path and percent-decode each segment, so that ``%2F`` stays inside its segment."""
    segments = [unquote(segment, errors="replace") for segment in raw_path.split("/")[1:]]
    while segments and segments[0] == "api":
        del segments[0]
    if segments and segments[0] == "preview":
        del segments[0]
    if len(segments) > 1 and segments[-1] == "":
        del segments[-1]
    return segments or [""]  # a prefix without a slash means its root
