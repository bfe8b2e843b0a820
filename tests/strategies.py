"""Strategies for hypothesis: OTLP requests as protobuf messages, and texts that are hard to parse."""

from __future__ import annotations

from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

NOW_NS = 1_796_000_000_000_000_000  # 2026-11-30, the moment at which drawn records are read
EARLIEST_NS = 946_684_800_000_000_000  # 2000-01-01

uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
valid_times = st.integers(EARLIEST_NS, NOW_NS)


def hostile_text(max_size: int = 12) -> st.SearchStrategy[str]:
    """Text of every script, with quotes, backslashes, dots and control characters; without U+0000 and lone surrogates."""
    return st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from('"\\/.{}[]:,\n\t\x01 uD80'),
        max_size=max_size,
    )


def ids(size: int) -> st.SearchStrategy[bytes]:
    """Ids of ``size`` bytes that are not all zero."""
    return st.binary(min_size=size, max_size=size).filter(any)


def any_values() -> st.SearchStrategy[AnyValue]:
    """Values of all seven kinds and the empty one, nested a few levels."""
    scalars = st.one_of(
        st.just(AnyValue()),
        hostile_text().map(lambda value: AnyValue(string_value=value)),
        st.booleans().map(lambda value: AnyValue(bool_value=value)),
        int64.map(lambda value: AnyValue(int_value=value)),
        st.floats().map(lambda value: AnyValue(double_value=value)),
        st.binary(max_size=8).map(lambda value: AnyValue(bytes_value=value)),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda values: AnyValue(array_value=ArrayValue(values=values))),
            key_values(inner).map(lambda values: AnyValue(kvlist_value=KeyValueList(values=values))),
        ),
        max_leaves=6,
    )


def key_values(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[list[KeyValue]]:
    """Pairs with different keys, as OTLP requires."""
    return st.dictionaries(hostile_text(), values, max_size=4).map(
        lambda members: [KeyValue(key=key, value=value) for key, value in members.items()]
    )


attributes = key_values(any_values())


def otlp_spans() -> st.SearchStrategy[Span]:
    """Spans that are stored: valid ids, times and enums, arbitrary other members."""
    events = st.builds(
        Span.Event, time_unix_nano=uint64, name=hostile_text(), attributes=attributes, dropped_attributes_count=uint32
    )
    links = st.builds(
        Span.Link,
        trace_id=ids(16),
        span_id=ids(8),
        trace_state=hostile_text(),
        attributes=attributes,
        dropped_attributes_count=uint32,
        flags=uint32,
    )
    return st.builds(
        Span,
        trace_id=ids(16),
        span_id=ids(8),
        parent_span_id=st.just(b"") | ids(8),
        trace_state=hostile_text(),
        flags=uint32,
        name=hostile_text(),
        kind=st.integers(0, 5),
        start_time_unix_nano=valid_times,
        end_time_unix_nano=valid_times,
        attributes=attributes,
        dropped_attributes_count=uint32,
        events=st.lists(events, max_size=2),
        dropped_events_count=uint32,
        links=st.lists(links, max_size=2),
        dropped_links_count=uint32,
        status=st.builds(Status, code=st.integers(0, 2), message=hostile_text()),
    )


def otlp_requests() -> st.SearchStrategy[ExportTraceServiceRequest]:
    """Requests of several resources and scopes, some of them empty; every span has its own id."""
    scopes = st.builds(
        ScopeSpans,
        scope=st.builds(
            InstrumentationScope,
            name=hostile_text(),
            version=hostile_text(),
            attributes=attributes,
            dropped_attributes_count=uint32,
        ),
        spans=st.lists(otlp_spans(), max_size=3),
        schema_url=hostile_text(),
    )
    resources = st.builds(
        ResourceSpans,
        resource=st.builds(Resource, attributes=attributes, dropped_attributes_count=uint32),
        scope_spans=st.lists(scopes, max_size=2),
        schema_url=hostile_text(),
    )
    requests = st.builds(ExportTraceServiceRequest, resource_spans=st.lists(resources, max_size=2))
    return requests.map(_with_distinct_ids)


def otlp_log_requests() -> st.SearchStrategy[ExportLogsServiceRequest]:
    """The same of log records, with bodies of every kind; some name a span, some only a trace, some neither."""
    records = st.builds(
        LogRecord,
        time_unix_nano=valid_times,
        observed_time_unix_nano=valid_times,
        severity_number=st.integers(0, 24),
        severity_text=hostile_text(),
        body=any_values(),
        attributes=attributes,
        dropped_attributes_count=uint32,
        flags=uint32,
        trace_id=st.just(b"") | st.just(bytes(16)) | ids(16),
        span_id=st.just(b"") | st.just(bytes(8)) | ids(8),
        event_name=hostile_text(),
    )
    scopes = st.builds(
        ScopeLogs,
        scope=st.builds(InstrumentationScope, name=hostile_text(), version=hostile_text(), attributes=attributes),
        log_records=st.lists(records, max_size=3),
        schema_url=hostile_text(),
    )
    resources = st.builds(
        ResourceLogs,
        resource=st.builds(Resource, attributes=attributes, dropped_attributes_count=uint32),
        scope_logs=st.lists(scopes, max_size=2),
        schema_url=hostile_text(),
    )
    return st.builds(ExportLogsServiceRequest, resource_logs=st.lists(resources, max_size=2))


def _with_distinct_ids(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    spans = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    for number, span in enumerate(spans, start=1):
        span.span_id = number.to_bytes(1, "big") + span.span_id[1:]
    return request
