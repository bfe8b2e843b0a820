"""The whole API on one screen."""

from __future__ import annotations

from typing import Final

from query_api import health
from query_api.docs_page import with_docs
from query_api.intake import handlers as intake
from query_api.intake import otlp
from query_api.intake.models import (
    IntakeReady,
    LinksAnswer,
    SpansIngest,
    TraceIdAnswer,
    TraceIdsAnswer,
    TraceIngest,
    TracesIngest,
)
from query_api.route import Access, Route
from query_api.spans import handlers as spans
from query_api.spans.models import SpanAnswer, SpanIds, SpansAnswer, SpansQuery
from query_api.traces import handlers as traces
from query_api.traces.models import TraceAnswer, TraceIds, TracesAnswer

# fmt: off
SPANS: Final = (
    Route("POST", "/spans/query", spans.query_spans, "Ask for spans", "Spans", SpansAnswer, body=SpansQuery),
    Route("GET",  "/spans", spans.list_spans, "Spans by their ids", "Spans", SpansAnswer, query=SpanIds),
    Route("GET",  "/spans/{trace_id}/{span_id}", spans.get_span, "One span", "Spans", SpanAnswer),
)
TRACES: Final = (
    Route("GET",  "/traces", traces.list_traces, "Traces by their ids", "Traces", TracesAnswer, query=TraceIds),
    Route("GET",  "/traces/{trace_id}", traces.get_trace, "One trace as a tree", "Traces", TraceAnswer),
)
INTAKE: Final = (
    Route("GET",  "/otlp/v1/traces", otlp.ready, "Whether OTLP can be sent here", "Intake", IntakeReady),
    Route("POST", "/otlp/v1/traces", otlp.export_traces, "Send spans by OTLP", "Intake", None,
          raw_body=otlp.CONTENT_TYPES, answer_type=otlp.PROTOBUF, error_shape=otlp.error_shape),
    Route("POST", "/tracing/spans/ingest", intake.ingest_spans, "Send spans as JSON", "Intake", LinksAnswer,
          body=SpansIngest, body_required=True, status=202),
    Route("POST", "/traces/ingest", intake.ingest_traces, "Send traces as JSON", "Intake", TraceIdsAnswer,
          body=TracesIngest, body_required=True, status=202, deprecated=True),
    Route("POST", "/traces", intake.create_trace, "Send one trace", "Intake", TraceIdAnswer,
          body=TraceIngest, body_required=True, status=202),
    Route("PUT",  "/traces/{trace_id}", intake.replace_trace, "Send one trace again", "Intake", TraceIdAnswer,
          body=TraceIngest, body_required=True, status=202),
    Route("POST", "/tracing/traces", intake.create_trace_of_spans, "Send one trace", "Intake", LinksAnswer,
          body=SpansIngest, body_required=True, status=202, deprecated=True),
    Route("PUT",  "/tracing/traces/{trace_id}", intake.replace_trace_of_spans, "Send one trace again", "Intake", LinksAnswer,
          body=SpansIngest, body_required=True, status=202, deprecated=True),
)
HEALTH: Final = (
    Route("GET", "/livez",   health.livez,   "Whether the process lives", "Health", health.Liveness, access=Access.PUBLIC),
    Route("GET", "/health",  health.livez,   "The same, under its older name", "Health", health.Liveness, access=Access.PUBLIC),
    Route("GET", "/readyz",  health.readyz,  "Whether it can work, and what is missing", "Health", health.Readiness, access=Access.PUBLIC),
    Route("GET", "/metrics", health.metrics, "What it counts, for Prometheus", "Health", None, access=Access.PUBLIC, answer_type="text/plain"),
)
# fmt: on
ROUTES: Final = with_docs((*SPANS, *TRACES, *INTAKE, *HEALTH))
