"""Span objects as a client would write them, from protobuf messages: the other side of the codec's contract."""

from __future__ import annotations

import base64
import json
import math
from typing import Any


def spans_json(request: Any) -> bytes:
    """All spans of an ``ExportTraceServiceRequest`` as a record of ``span_json``."""
    spans = [
        _span(span, of_resource, of_scope)
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    return json.dumps({"spans": spans}).encode()


def _span(span: Any, of_resource: Any, of_scope: Any) -> dict[str, Any]:
    links = {"links": [_link(link) for link in span.links]} if span.links else {}
    return {
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_span_id.hex(),
        "trace_state": span.trace_state,
        "flags": span.flags,
        "span_name": span.name,
        "span_kind": span.kind,
        "start_time_unix_nano": str(span.start_time_unix_nano),
        "end_time_unix_nano": str(span.end_time_unix_nano),
        "status_code": span.status.code,
        "status_message": span.status.message,
        "attributes": _members(span.attributes),
        "dropped_attributes_count": span.dropped_attributes_count,
        "events": [_event(event) for event in span.events],
        "dropped_events_count": span.dropped_events_count,
        **links,
        "dropped_links_count": span.dropped_links_count,
        "resource": {
            "attributes": _members(of_resource.resource.attributes),
            "dropped_attributes_count": of_resource.resource.dropped_attributes_count,
            "schema_url": of_resource.schema_url,
        },
        "scope": {
            "name": of_scope.scope.name,
            "version": of_scope.scope.version,
            "attributes": _members(of_scope.scope.attributes),
            "dropped_attributes_count": of_scope.scope.dropped_attributes_count,
            "schema_url": of_scope.schema_url,
        },
    }


def _event(event: Any) -> dict[str, Any]:
    return {
        "time_unix_nano": str(event.time_unix_nano),
        "name": event.name,
        "attributes": _members(event.attributes),
        "dropped_attributes_count": event.dropped_attributes_count,
    }


def _link(link: Any) -> dict[str, Any]:
    return {
        "trace_id": link.trace_id.hex(),
        "span_id": link.span_id.hex(),
        "trace_state": link.trace_state,
        "flags": link.flags,
        "attributes": _members(link.attributes),
        "dropped_attributes_count": link.dropped_attributes_count,
    }


def _members(key_values: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in key_values}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _members(value.kvlist_value.values)
    content = getattr(value, kind)
    if kind == "bytes_value":
        return base64.b64encode(content).decode()
    if kind == "double_value" and not math.isfinite(content):
        return "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    return content
