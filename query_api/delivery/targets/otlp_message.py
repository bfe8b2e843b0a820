"""Spans as OTLP: an ``ExportTraceServiceRequest`` from the span objects of responses. Pure.

The inverse of ``common/codec/otlp_protobuf.py`` and ``common/nesting.py``: nested attributes become dotted keys again,
so that our own intake stores an equal span. What a span object cannot tell apart comes out in one form; the differences
are listed in ``docs/span-as-otlp.md``, and ``tests/integration/test_otlp_message.py`` compares every sample with them.

Sources: opentelemetry-proto 1.x, ``trace.proto`` and ``common.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.dotted import dotted
from common.json_values import INT64_MAX, INT64_MIN
from common.limits import SpanLimits
from common.span import LOG_MEMBERS, LOG_SOURCE, SpanKind, StatusCode

LEVELS_MAX: Final = SpanLimits().nesting_depth_max
"""Arrays and maps inside each other in one value; deeper ones are sent as JSON text. Parsers refuse about 33."""

_ALWAYS_EMPTY: Final = frozenset(
    {"ag.data", "ag.metrics", *(f"ag.metrics.{name}" for name in ("duration", "errors", "tokens", "costs"))}
)
"""Objects that normalization adds to every span, not sent when they are empty."""


def export_request(spans: Iterable[Mapping[str, Any]], *, ag: bool = False) -> Any:
    """Return an ``ExportTraceServiceRequest`` of span objects as ``/spans/query`` returns them.

    Spans are grouped by resource and scope, in the order in which each first occurs. ``ag``: also send the attributes
    below ``ag``, which Clearspan derives. The spans have ended: OTLP has no others.
    """
    request = ExportTraceServiceRequest()
    resources: dict[bytes, Any] = {}
    scopes: dict[tuple[bytes, bytes], Any] = {}
    for span in spans:
        resource, scope = span.get("resource") or {}, span.get("scope") or {}
        resource_key, scope_key = orjson.dumps(resource), orjson.dumps(scope)
        if resource_key not in resources:
            resources[resource_key] = request.resource_spans.add()
            _write_resource(resources[resource_key], resource)
        if (resource_key, scope_key) not in scopes:
            scopes[resource_key, scope_key] = resources[resource_key].scope_spans.add()
            _write_scope(scopes[resource_key, scope_key], scope)
        _write_span(scopes[resource_key, scope_key].spans.add(), span, ag=ag)
    return request


def _write_resource(message: Any, resource: Mapping[str, Any]) -> None:
    message.schema_url = resource.get("schema_url", "")
    message.resource.SetInParent()
    message.resource.dropped_attributes_count = resource.get("dropped_attributes_count", 0)
    _write_nested(message.resource.attributes, resource.get("attributes") or {})


def _write_scope(message: Any, scope: Mapping[str, Any]) -> None:
    message.schema_url = scope.get("schema_url", "")
    message.scope.SetInParent()
    message.scope.name = scope.get("name", "")
    message.scope.version = scope.get("version", "")
    message.scope.dropped_attributes_count = scope.get("dropped_attributes_count", 0)
    _write_nested(message.scope.attributes, scope.get("attributes") or {})


def _write_span(message: Any, span: Mapping[str, Any], *, ag: bool) -> None:
    get = span.get
    message.trace_id = bytes.fromhex(span["trace_id"])
    message.span_id = bytes.fromhex(span["span_id"])
    message.parent_span_id = bytes.fromhex(get("parent_id") or "")
    message.trace_state = get("trace_state", "")
    message.flags = get("flags", 0)
    message.name = get("span_name", "")
    message.kind = SpanKind[get("span_kind", "SPAN_KIND_UNSPECIFIED")]
    message.start_time_unix_nano = int(span["start_time_unix_nano"])
    message.end_time_unix_nano = int(span["end_time_unix_nano"])
    message.dropped_attributes_count = get("dropped_attributes_count", 0)
    message.dropped_events_count = get("dropped_events_count", 0)
    message.dropped_links_count = get("dropped_links_count", 0)
    message.status.code = StatusCode[get("status_code", "STATUS_CODE_UNSET")]
    message.status.message = get("status_message") or ""
    attributes = get("attributes") or {}
    if not ag:
        attributes = {key: value for key, value in attributes.items() if key != "ag"}
    _write_nested(message.attributes, attributes)
    for event in get("events") or ():
        _write_event(message.events.add(), event)
    for link in get("links") or ():
        _write_link(message.links.add(), link)


def _write_event(message: Any, event: Mapping[str, Any]) -> None:
    message.time_unix_nano = int(event["time_unix_nano"])
    message.name = event.get("name", "")
    message.dropped_attributes_count = event.get("dropped_attributes_count", 0)
    attributes = event.get("attributes") or {}
    if event.get("source") == LOG_SOURCE:  # an event of OTLP has no place for these
        attributes = {name: event[name] for name in LOG_MEMBERS if name in event} | attributes
    _write_flat(message.attributes, attributes)


def _write_link(message: Any, link: Mapping[str, Any]) -> None:
    message.trace_id = bytes.fromhex(link["trace_id"])
    message.span_id = bytes.fromhex(link["span_id"])
    message.trace_state = link.get("trace_state", "")
    message.flags = link.get("flags", 0)
    message.dropped_attributes_count = link.get("dropped_attributes_count", 0)
    _write_flat(message.attributes, link.get("attributes") or {})


def _write_nested(attributes: Any, nested: Mapping[str, Any]) -> None:
    for key, value in nested.items():
        _write_flat(attributes, dotted(key, value))


def _write_flat(attributes: Any, flat: Mapping[str, Any]) -> None:
    for key, value in flat.items():
        if value == {} and key in _ALWAYS_EMPTY:
            continue
        attribute = attributes.add(key=key)
        if type(value) is str:
            attribute.value.string_value = value
        else:
            _write_attribute(attribute.value, value)


def _write_attribute(message: Any, value: Any) -> None:
    if _levels_exceed(value, LEVELS_MAX):
        message.string_value = orjson.dumps(value).decode()
    else:
        _write_value(message, value)


def _levels_exceed(value: Any, levels: int) -> bool:
    """Return whether arrays and maps are nested more than ``levels`` deep."""
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return False
    return levels == 0 or any(_levels_exceed(member, levels - 1) for member in value)


def _write_value(message: Any, value: Any) -> None:
    """Write a JSON value; ``null`` is the empty value. Integers past 64 bits with a sign are written as text."""
    if value is None:
        message.SetInParent()
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, int):
        if INT64_MIN <= value <= INT64_MAX:
            message.int_value = value
        else:
            message.string_value = str(value)
    elif isinstance(value, float):
        message.double_value = value
    elif isinstance(value, list):
        message.array_value.SetInParent()
        for element in value:
            _write_value(message.array_value.values.add(), element)
    else:
        message.kvlist_value.SetInParent()
        for key, member in value.items():
            _write_value(message.kvlist_value.values.add(key=key).value, member)
