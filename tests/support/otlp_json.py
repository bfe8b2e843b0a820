"""OTLP/JSON as the OpenTelemetry Collector writes it, from protobuf messages: the other side of the codec's contract.

Written against https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding, without a line of ours.
"""

from __future__ import annotations

import base64
import json
import math


def request_json(request) -> bytes:
    """A whole ``ExportTraceServiceRequest``."""
    return json.dumps({"resourceSpans": [_resource_spans(one) for one in request.resource_spans]}).encode()


def logs_json(request) -> bytes:
    """A whole ``ExportLogsServiceRequest``."""
    return json.dumps({"resourceLogs": [_resource_logs(one) for one in request.resource_logs]}).encode()


def log_object(log) -> dict:
    return {
        "timeUnixNano": str(log.time_unix_nano),
        "observedTimeUnixNano": str(log.observed_time_unix_nano),
        "severityNumber": log.severity_number,
        "severityText": log.severity_text,
        "body": _value(log.body),
        "attributes": _pairs(log.attributes),
        "droppedAttributesCount": log.dropped_attributes_count,
        "flags": log.flags,
        "traceId": log.trace_id.hex(),
        "spanId": log.span_id.hex(),
        "eventName": log.event_name,
    }


def span_object(span) -> dict:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "traceState": span.trace_state,
        "parentSpanId": span.parent_span_id.hex(),
        "flags": span.flags,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _pairs(span.attributes),
        "droppedAttributesCount": span.dropped_attributes_count,
        "events": [_event(event) for event in span.events],
        "droppedEventsCount": span.dropped_events_count,
        "links": [_link(link) for link in span.links],
        "droppedLinksCount": span.dropped_links_count,
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _resource_spans(found) -> dict:
    return {
        "resource": {
            "attributes": _pairs(found.resource.attributes),
            "droppedAttributesCount": found.resource.dropped_attributes_count,
        },
        "scopeSpans": [_scope_spans(one) for one in found.scope_spans],
        "schemaUrl": found.schema_url,
    }


def _resource_logs(found) -> dict:
    return {
        "resource": {
            "attributes": _pairs(found.resource.attributes),
            "droppedAttributesCount": found.resource.dropped_attributes_count,
        },
        "scopeLogs": [
            {
                "scope": _scope(one.scope),
                "logRecords": [log_object(log) for log in one.log_records],
                "schemaUrl": one.schema_url,
            }
            for one in found.scope_logs
        ],
        "schemaUrl": found.schema_url,
    }


def _scope_spans(found) -> dict:
    return {
        "scope": _scope(found.scope),
        "spans": [span_object(span) for span in found.spans],
        "schemaUrl": found.schema_url,
    }


def _scope(found) -> dict:
    return {
        "name": found.name,
        "version": found.version,
        "attributes": _pairs(found.attributes),
        "droppedAttributesCount": found.dropped_attributes_count,
    }


def _event(event) -> dict:
    return {
        "timeUnixNano": str(event.time_unix_nano),
        "name": event.name,
        "attributes": _pairs(event.attributes),
        "droppedAttributesCount": event.dropped_attributes_count,
    }


def _link(link) -> dict:
    return {
        "traceId": link.trace_id.hex(),
        "spanId": link.span_id.hex(),
        "traceState": link.trace_state,
        "attributes": _pairs(link.attributes),
        "droppedAttributesCount": link.dropped_attributes_count,
        "flags": link.flags,
    }


def _pairs(key_values) -> list:
    return [{"key": one.key, "value": _value(one.value)} for one in key_values]


def _value(value) -> dict:
    kind = value.WhichOneof("value")
    if kind is None:
        return {}
    if kind == "array_value":
        return {"arrayValue": {"values": [_value(one) for one in value.array_value.values]}}
    if kind == "kvlist_value":
        return {"kvlistValue": {"values": _pairs(value.kvlist_value.values)}}
    content = getattr(value, kind)
    if kind == "int_value":
        content = str(content)
    elif kind == "bytes_value":
        content = base64.b64encode(content).decode()
    elif kind == "double_value" and not math.isfinite(content):
        content = "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    head, _, tail = kind.partition("_")
    return {head + tail.capitalize(): content}
