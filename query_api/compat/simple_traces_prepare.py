"""What the writing of a simple trace publishes and answers. Pure functions: for large bodies they run in another process."""

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
    """A new trace of one span."""
    span = new_span(body.trace, trace_id=secrets.token_hex(16), span_id=secrets.token_hex(8))
    return _prepared(span, span, context)


def spans_of_edited(root: Rendered, edit: SimpleTraceEdit, context: PrepareContext) -> PreparedIntake:
    """The root of a stored trace with the changes."""
    span = edited_span(orjson.loads(root.json), edit)
    return _prepared(span | _ids(root), span, context)


def _prepared(written: Json, shown: Json, context: PrepareContext) -> PreparedIntake:
    made = to_records([PlacedSpan("trace", written, is_top=True)], context)
    return with_response(made, SimpleTraceResponse(count=1, trace=simple_trace_of(shown)))


def _ids(span: Rendered) -> Json:
    """The ids by which a span is written again: all of their digits, of which answers show the last 16."""
    above = {} if span.parent_id is None else {"parent_id": span.parent_id.hex()}
    return {"span_id": span.key.span_id.hex(), **above}
