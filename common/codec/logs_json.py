"""``otlp_json`` of a topic of log records: one ``ExportLogsServiceRequest`` as JSON per record (contract §4.1).

Read as spans are (``otlp_json``): the same spellings of members and ids, and one log record at a time if the parser
rejects the document.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from common.codec.checks import at_key, bounds_of, check_record_size, check_time, unknown_enum
from common.codec.decoded import DecodedLogs, gather_logs, gather_logs_split, missing_time
from common.codec.json_cut import LOG_RECORDS, lay_out_request
from common.codec.json_members import count_of, parsed_whole, text_of
from common.codec.otlp_json_values import Frame, OtlpReader, names_of, uint64
from common.errors import RejectionCode
from common.limits import SpanLimits
from common.log_record import SEVERITY_MAX, LogRecord, event_name_of
from common.span import Resource, Scope

_FRAME: Final = Frame(
    names_of("resourceLogs"),
    names_of("resource", "scopeLogs", "schemaUrl"),
    names_of("scope", "logRecords", "schemaUrl"),
    resources="resourceLogs",
    scopes="scopeLogs",
    members="logRecords",
    content="log records",
)
_LOG: Final = names_of(
    *("timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "body", "attributes"),
    *("droppedAttributesCount", "flags", "traceId", "spanId", "eventName"),
)
_SEVERITY: Final = "SEVERITY_NUMBER_"
_SEVERITIES: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_NUMBERS: Final = {
    f"{_SEVERITY}UNSPECIFIED": 0,
    **{
        f"{_SEVERITY}{name}{step if step > 1 else ''}": 4 * index + step
        for index, name in enumerate(_SEVERITIES)
        for step in range(1, 5)
    },
}
"""OTLP's names of severities → their numbers: each has four steps."""

_TIMES: Final = "timeUnixNano or observedTimeUnixNano"


def decode(value: bytes, *, limits: SpanLimits, now_ns: int) -> DecodedLogs:
    """Return the log records of one request, in the order of the document, and a rejection for each that cannot be
    kept.

    Raises ``Rejected`` if the record is too large, is not JSON, or does not have the frame of a request.
    """
    check_record_size(value, limits)
    reader = _LogsReader(bounds_of(limits, now_ns=now_ns), value)
    document = parsed_whole(value, limits)
    if document is None:
        decoded = _decode_split(value, limits, reader)
    else:
        decoded = gather_logs(reader.groups(document), reader.log)
    return decoded._replace(base64_ids_count=reader.base64_ids_count)


lay_out: Final = partial(lay_out_request, names=LOG_RECORDS)


def _decode_split(value: bytes, limits: SpanLimits, reader: _LogsReader) -> DecodedLogs:
    layout = lay_out(value)
    parse = reader.parsed_alone
    if not layout.spans:
        reader.check_is_request(parse(value, "The record"))
    return gather_logs_split(
        layout,
        limits,
        lambda raw, resource, scope: reader.log(parse(raw, "The log record"), resource, scope),
        lambda wrapper: reader.resource(parse(b"{%b}" % wrapper, "The resource")),
        lambda wrapper: reader.scope(parse(b"{%b}" % wrapper, "The scope")),
    )


class _LogsReader(OtlpReader):
    __slots__ = ()
    frame = _FRAME

    def log(self, found: Any, resource: Resource, scope: Scope) -> LogRecord:
        """Read one log record. Raises ``Rejected``."""
        members = _LOG.read(found, "The log record")
        get = members.get
        time_ns = uint64(get("timeUnixNano"), "timeUnixNano")
        time_ns = time_ns or uint64(get("observedTimeUnixNano"), "observedTimeUnixNano")
        if not time_ns:
            raise missing_time(_TIMES)
        check_time(time_ns, self._bounds)
        trace_id = self._id(get("traceId"), 16, RejectionCode.INVALID_TRACE_ID, "traceId")
        span_id = self._id(get("spanId"), 8, RejectionCode.INVALID_SPAN_ID, "spanId")
        attributes = self._attributes(get("attributes"), "attributes")
        log = LogRecord(
            trace_id=trace_id if any(trace_id) else None,
            span_id=span_id + span_id if any(span_id) else None,
            name=event_name_of(text_of(get("eventName"), "eventName"), attributes),
            time_ns=time_ns,
            body=self._value(get("body"), self._faults.depth_max, at_key("log", "body")),
            attributes=attributes,
            severity_number=_severity(get("severityNumber")),
            severity_text=text_of(get("severityText"), "severityText"),
            flags=count_of(get("flags"), "flags"),
            dropped_attributes_count=count_of(get("droppedAttributesCount"), "droppedAttributesCount"),
            resource=resource,
            scope=scope,
        )
        return self._faults.repaired_log(log)


def _severity(found: Any) -> int:
    """Return a severity number, sent as number or name, 0 if absent."""
    if found is None:
        return 0
    number = found if type(found) is int else _NUMBERS.get(found) if type(found) is str else None
    if number is None or not 0 <= number <= SEVERITY_MAX:
        raise unknown_enum("severityNumber", found, f"a SeverityNumber, by name or as 0 to {SEVERITY_MAX}")
    return number
