"""``otlp_proto`` of a topic of log records: one ``ExportLogsServiceRequest`` per record (contract §4.1).

Source: opentelemetry-proto 1.x, ``logs.proto``; ``LogsData`` is the same on the wire. Read as spans are
(``otlp_protobuf``): at once, and if the parser rejects the record, one log record at a time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage

from common.codec import protobuf_values
from common.codec.checks import Bounds, bounds_of, check_record_size, check_span_size, check_time, unknown_enum
from common.codec.decoded import DecodedLogs, gather_logs, gather_logs_split, missing_time
from common.codec.protobuf_values import (
    WHOLE_BYTES_MAX,
    attributes_of,
    groups_of,
    no_frame,
    read_alone,
    resource_alone,
    scope_alone,
    split_layout,
    text_of,
    value_of,
)
from common.codec.repair import Faults
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from common.log_record import SEVERITY_MAX, LogRecord, event_name_of
from common.span import Resource, Scope

_FRAME: Final = "resource_logs"
_MEMBERS: Final = "log records"
_TIMES: Final = "time_unix_nano or observed_time_unix_nano"


def decode(value: bytes, *, limits: SpanLimits, now_ns: int) -> DecodedLogs:
    """Return the log records of one request, in wire order, and a rejection for each that cannot be kept.

    Raises ``Rejected`` if the record is too large, or if its frame cannot be followed to find its log records.
    """
    check_record_size(value, limits)
    bounds = bounds_of(limits, now_ns=now_ns)
    if len(value) > WHOLE_BYTES_MAX:
        return _decode_split(value, limits, bounds)
    try:
        request = ExportLogsServiceRequest.FromString(value)
    except DecodeError:
        return _decode_split(value, limits, bounds, is_refused_whole=True)
    if value and not request.resource_logs:
        raise no_frame(_FRAME, _MEMBERS)
    faults = Faults(bounds.nesting_depth_max)
    groups = groups_of(request.resource_logs, "scope_logs", "log_records", faults)
    return gather_logs(groups, partial(_sized_log, limits, bounds, faults))


lay_out: Final = protobuf_values.lay_out


def _decode_split(value: bytes, limits: SpanLimits, bounds: Bounds, *, is_refused_whole: bool = False) -> DecodedLogs:
    layout = split_layout(value, is_refused_whole=is_refused_whole, members=_MEMBERS, frame=_FRAME)
    faults = Faults(bounds.nesting_depth_max)
    return gather_logs_split(
        layout,
        limits,
        lambda raw, *wrappers: read_alone(LogMessage, raw, faults, lambda log: _log(bounds, faults, log, *wrappers)),
        lambda raw: resource_alone(raw, faults),
        lambda raw: scope_alone(raw, faults),
    )


def _sized_log(
    limits: SpanLimits, bounds: Bounds, faults: Faults, message: Any, resource: Resource, scope: Scope
) -> LogRecord:
    check_span_size(message.ByteSize(), limits, "log record")
    return _log(bounds, faults, message, resource, scope)


def _log(bounds: Bounds, faults: Faults, message: Any, resource: Resource, scope: Scope) -> LogRecord:
    time_ns = message.time_unix_nano or message.observed_time_unix_nano
    if not time_ns:
        raise missing_time(_TIMES)
    check_time(time_ns, bounds)
    trace_id = _id(message.trace_id, 16, RejectionCode.INVALID_TRACE_ID, "trace id")
    span_id = _id(message.span_id, 8, RejectionCode.INVALID_SPAN_ID, "span id")
    severity_number = message.severity_number
    if not 0 <= severity_number <= SEVERITY_MAX:
        raise unknown_enum("severity_number", severity_number, f"a SeverityNumber, 0 to {SEVERITY_MAX}")
    attributes = attributes_of(message.attributes, faults, "attributes")
    log = LogRecord(
        trace_id=trace_id,
        span_id=None if span_id is None else span_id + span_id,
        name=event_name_of(text_of(message.event_name, faults), attributes),
        time_ns=time_ns,
        body=value_of(message.body, faults, faults.depth_max, "log", "body"),
        attributes=attributes,
        severity_number=severity_number,
        severity_text=text_of(message.severity_text, faults),
        flags=message.flags,
        dropped_attributes_count=message.dropped_attributes_count,
        resource=resource,
        scope=scope,
    )
    return faults.repaired_log(log)


def _id(sent: bytes, size: int, code: RejectionCode, name: str) -> bytes | None:
    """Return an id, or ``None`` if it is absent or all zeros."""
    if not sent:
        return None
    if len(sent) != size:
        raise Rejected(code, f"The {name} has {len(sent)} bytes; it must have {size} bytes, or none.")
    return sent if any(sent) else None
