"""Log records of coding agents (``tests/data/agent_logs``): as requests in both encodings, and as spans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from common.codec import logs_json
from common.limits import SpanLimits
from common.log_kinds import keep_logs
from common.log_record import LogRecord
from common.span import NormalizedSpan, Span
from ingest.normalize import normalize

AGENT_LOGS = Path(__file__).parents[1] / "data/agent_logs"
NAMES = ("claude-code", "codex")
NOW_NS = 1_800_000_000_000_000_000
TIME_NS = 1_790_000_000_000_000_000


def in_json(name: str) -> bytes:
    """The request of an agent."""
    return (AGENT_LOGS / f"{name}.otlp_json.json").read_bytes()


def in_protobuf(name: str) -> bytes:
    """The same in protobuf."""
    request = ExportLogsServiceRequest()
    for found in json.loads(in_json(name))["resourceLogs"]:
        resource_logs = request.resource_logs.add()
        _add(resource_logs.resource.attributes, found["resource"]["attributes"])
        for scope in found["scopeLogs"]:
            scope_logs = resource_logs.scope_logs.add()
            scope_logs.scope.name = scope["scope"]["name"]
            scope_logs.scope.version = scope["scope"].get("version", "")
            for log in scope["logRecords"]:
                record = scope_logs.log_records.add(
                    time_unix_nano=int(log.get("timeUnixNano", 0)),
                    observed_time_unix_nano=int(log["observedTimeUnixNano"]),
                    severity_number=log.get("severityNumber", 0),
                    severity_text=log.get("severityText", ""),
                    event_name=log.get("eventName", ""),
                )
                if "body" in log:
                    record.body.string_value = log["body"]["stringValue"]
                _add(record.attributes, log["attributes"])
    value: bytes = request.SerializeToString()
    return value


def _add(key_values: Any, sent: list[dict[str, Any]]) -> None:
    for each in sent:
        [(kind, value)] = each["value"].items()
        given = {"stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool}[kind](value)
        set_value(key_values.add(key=each["key"]).value, given)


def set_value(value: AnyValue, given: Any) -> None:
    """Write a value of any kind."""
    if isinstance(given, bool):
        value.bool_value = given
    elif isinstance(given, int):
        value.int_value = given
    elif isinstance(given, float):
        value.double_value = given
    elif isinstance(given, bytes):
        value.bytes_value = given
    elif isinstance(given, str):
        value.string_value = given
    elif isinstance(given, list):
        value.array_value.SetInParent()
        for element in given:
            set_value(value.array_value.values.add(), element)
    elif isinstance(given, dict):
        value.kvlist_value.SetInParent()
        for key, member in given.items():
            set_value(value.kvlist_value.values.add(key=key).value, member)


def logs_request(*logs: Mapping[str, Any], project: str | None = None) -> bytes:
    """A request in protobuf."""
    value: bytes = logs_message(*logs, project=project).SerializeToString()
    return value


def logs_message(*logs: Mapping[str, Any], project: str | None = None) -> ExportLogsServiceRequest:
    """A request: fields of log records, with ``attributes`` and ``body`` as plain values. Without a time, a record has
    ``TIME_NS``."""
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    if project is not None:
        resource_logs.resource.attributes.add(key="project.id").value.string_value = project
    scope_logs = resource_logs.scope_logs.add()
    for log in logs:
        members = {"time_unix_nano": TIME_NS, **log}
        attributes, body = members.pop("attributes", {}), members.pop("body", None)
        record = scope_logs.log_records.add(**members)
        set_value(record.body, body)
        for key, value in attributes.items():
            set_value(record.attributes.add(key=key).value, value)
    return request


def agent_record(event: str = "claude_code.api_request", **attributes: Any) -> dict[str, Any]:
    """Fields of a log record of an agent, with a prompt and a session; keys are given with underscores for dots."""
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return {"body": event, "attributes": {"session.id": "s", "prompt.id": "p", "event.sequence": 1, **given}}


def log_of(**members: Any) -> LogRecord:
    """A log record as a codec returns it."""
    given: dict[str, Any] = {
        "trace_id": None, "span_id": None, "name": "log", "time_ns": TIME_NS, "body": None, "attributes": {},
    }  # fmt: skip
    return LogRecord(**{**given, **members})


@cache
def spans_of(name: str) -> tuple[Span, ...]:
    """The spans of the request of an agent."""
    return tuple(keep_logs(logs_json.decode(in_json(name), limits=SpanLimits(), now_ns=NOW_NS)).spans)


@cache
def normals_of(name: str) -> tuple[tuple[Span, NormalizedSpan], ...]:
    """The same, with what is derived from them."""
    return tuple(zip(spans_of(name), normalize(spans_of(name)), strict=True))
