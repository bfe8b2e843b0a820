"""What the API makes of an export of spans, in both ways that it has."""

from __future__ import annotations

from common.steps import finished
from query_api.intake.otlp import prepare_kept_traces, prepare_traces
from query_api.intake.publish import PreparedIntake
from query_api.request.route import PrepareContext


def prepared_export(body: bytes, context: PrepareContext) -> PreparedIntake:
    """Return what is published and responded; it does not depend on whether the spans were decoded."""
    decoded = prepare_traces(body, context)
    checked = finished(prepare_kept_traces(body, context))
    if checked is not None:
        assert list(checked.records) == list(decoded.records)
        assert checked._replace(records=()) == decoded._replace(records=())
    return decoded
