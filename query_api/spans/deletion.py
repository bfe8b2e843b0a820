"""Delete a trace, and tell the workers if it judged other spans: their scores go with it (contract §3.6, ADR 0050)."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from common.clickhouse.event_columns import ANNOTATION_DELETED
from common.clickhouse.select import Select, Table
from common.ids import span_id_hex, trace_id_hex
from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, PROJECT_HEADER, Encoding
from query_api.request.route import Request
from query_api.spans.latest_versions import delete_trace
from query_api.spans.project_spans import ProjectSpans, project_spans
from query_api.spans.versions import SpanKey


async def delete_with_scores(request: Request, trace_id: bytes) -> list[SpanKey]:
    """Delete all spans of a trace; return the keys of those that were visible until now, sorted. Safe to repeat.

    Raises the errors of statements, and ``Unavailable`` if Kafka does not acknowledge what follows for the spans that
    the trace judged: repeating the request completes it, also when the trace is not visible any more.
    """
    spans = project_spans(request)
    deleted = await delete_trace(spans, trace_id)
    if request.context.takes_logs and (annotation_ids := await _annotation_ids(spans, trace_id)):
        await _announce(request, trace_id, annotation_ids)
    return deleted


async def _annotation_ids(spans: ProjectSpans, trace_id: bytes) -> Sequence[bytes]:
    """Return the ids of the spans of a trace that have judged others."""
    query = Select(
        spans.project_id,
        Table.JUDGED,
        ["source_span_id"],
        where=["source_trace_id = toFixedString(unhex({trace_id:String}), 16)"],
        group_by=["source_span_id"],
        parameters={"trace_id": trace_id.hex()},
    )
    rows = await spans.select(query, step="annotations of the trace")
    ids: list[bytes] = rows.column("source_span_id").to_pylist()
    return ids


async def _announce(request: Request, trace_id: bytes, span_ids: Sequence[bytes]) -> None:
    """Publish a log record about each deleted annotation, as a worker reads them."""
    context = request.context
    records = [
        {
            "timeUnixNano": str(context.clock.now_ns()),
            "eventName": ANNOTATION_DELETED,
            "traceId": trace_id_hex(trace_id),
            "spanId": span_id_hex(span_id),
        }
        for span_id in span_ids
    ]
    await context.publisher.publish(
        context.settings.kafka.logs_topic,
        orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}),
        key=trace_id,
        headers=(
            (PROJECT_HEADER, str(request.project_id).encode()),
            (CONTENT_TYPE_HEADER, CONTENT_TYPES[Encoding.OTLP_JSON].encode()),
        ),
    )
