"""Spans over HTTP as JSON: validated, published to Kafka, answered when Kafka has acknowledged (contract §4).

All or nothing: one span that cannot be kept refuses the request, with the path at which it stands. Bodies come here prepared
(``prepare.py``).
"""

from __future__ import annotations

from typing import Final

from common.record_headers import CONTENT_TYPES
from common.settings import Encoding
from common.telemetry import INTAKE_SPANS
from query_api.intake.prepare import PreparedIntake
from query_api.intake.publish import publish
from query_api.request.coordinates import coordinates_header
from query_api.request.route import Request, Response

SPAN_JSON: Final = CONTENT_TYPES[Encoding.SPAN_JSON]
ACCEPTED: Final = 202


async def ingest_spans(request: Request) -> Response:
    """Any number of spans of any number of traces."""
    return await publish_spans(request, request.body)


async def ingest_traces(request: Request) -> Response:
    """Any number of traces."""
    return await publish_spans(request, request.body)


async def create_trace(request: Request) -> Response:
    """One trace with exactly one root."""
    return await publish_spans(request, request.body)


async def replace_trace(request: Request) -> Response:
    """One trace with exactly one root, under the id of the path. Spans that the payload does not hold stay."""
    return await publish_spans(request, request.body)


async def create_trace_of_spans(request: Request) -> Response:
    """One trace with exactly one root, in the shape of ``/tracing/spans/ingest``."""
    return await publish_spans(request, request.body)


async def replace_trace_of_spans(request: Request) -> Response:
    """One trace in the shape of ``/tracing/spans/ingest``, under the id of the path."""
    return await publish_spans(request, request.body)


async def publish_spans(request: Request, spans: PreparedIntake, *, status: int = ACCEPTED) -> Response:
    """Publish the spans for the project of the call; answer when Kafka has acknowledged all of them."""
    where = await publish(
        request.context.publisher,
        spans.records,
        topic=request.context.settings.kafka.intake_topic,
        content_type=SPAN_JSON,
        project_id=request.project_id,
    )
    INTAKE_SPANS.labels("span_json", "accepted").inc(spans.spans_count)
    return Response(spans.response_body, status=status, headers=coordinates_header(request, where))
