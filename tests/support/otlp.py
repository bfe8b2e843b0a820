"""Small OTLP requests, built with the protocol's own messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

START_NS = 1_760_000_000_000_000_000


def trace_id(name: str) -> bytes:
    """The id that a test calls by this name."""
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()


def request(
    names: Sequence[str],
    *,
    project: str | None = None,
    absurd: Sequence[str] = (),
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    """One span a name, each a trace of its own, all with the same ``attributes``; those in ``absurd`` have a time that is refused."""
    message = ExportTraceServiceRequest()
    spans_of_resource = message.resource_spans.add()
    if project is not None:
        attribute = spans_of_resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = "project.id", project
    spans = spans_of_resource.scope_spans.add().spans
    for name in names:
        span = spans.add()
        span.name = name
        span.trace_id, span.span_id = trace_id(name), trace_id(name)[:8]
        span.start_time_unix_nano = 1 if name in absurd else START_NS
        span.end_time_unix_nano = span.start_time_unix_nano + 1_000_000
        for key, text in (attributes or {}).items():
            span.attributes.add(key=key).value.string_value = text
    return bytes(message.SerializeToString())


def names_in(value: bytes) -> list[str]:
    """The names of the spans in a request, in wire order."""
    message = ExportTraceServiceRequest.FromString(value)
    return [span.name for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]
