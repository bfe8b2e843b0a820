"""Prepare created and edited simple traces for Kafka. Pure functions, which run in another process for large bodies."""

from __future__ import annotations

import secrets

import orjson

from query_api.compat.simple_traces_models import CreateSimpleTrace, Json, SimpleTraceEdit, SimpleTraceResponse
from query_api.compat.simple_traces_spans import edited_span, new_span, simple_trace_of
from query_api.intake.prepare import PlacedSpan, to_records, with_response
from query_api.intake.publish import PreparedIntake
from query_api.request.route import PrepareContext
from query_api.spans.render import Rendered


def spans_of_new(body: CreateSimpleTrace, context: PrepareContext) -> PreparedIntake:
    """Prepare a new trace of one span."""
    span = new_span(body.trace, trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8))
    return _prepared(span, span, context)


def spans_of_edited(root: Rendered, edit: SimpleTraceEdit, context: PrepareContext) -> PreparedIntake:
    """Prepare the root span of a stored trace with changes."""
    span = edited_span(orjson.loads(root.json), edit)
    return _prepared(span | _ids(root), span, context)


def _prepared(written: Json, returned: Json, context: PrepareContext) -> PreparedIntake:
    traces = to_records([PlacedSpan("trace", written, is_top=True)], context)
    return with_response(traces, SimpleTraceResponse(count=1, trace=simple_trace_of(returned)))


def _ids(span: Rendered) -> Json:
    """Return the ids with all of their digits; responses contain only the last 16."""
    parent = {} if span.parent_id is None else {"parent_id": span.parent_id.hex()}
    return {"span_id": span.key.span_id.hex(), **parent}
