"""Metrics and logs over OTLP/HTTP: count and reject them with status 200, because Clearspan stores only traces
(contract §4).

SDKs that send all three signals to one address would otherwise report an error with every export. Source: OpenTelemetry
Protocol 1.x, “Partial Success”.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from common.errors import InvalidInput
from query_api.intake.otlp import JSON, encoding_of
from query_api.request.route import PrepareContext, Request, Response

MESSAGE: Final = (
    "Clearspan stores only traces: nothing of this request is stored. Send metrics and logs to another backend."
)

_METRIC_KINDS: Final = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


@dataclass(frozen=True, slots=True)
class _Signal:
    """Metrics or logs: the messages, and how records are counted in both encodings."""

    request: type[Message]
    response: type[Message]
    rejected_field: str
    count_message: Callable[[Any], int]
    count_json: Callable[[Any], int]


async def reject(request: Request) -> Response:
    """Reject every record, because Clearspan stores only traces. The status is 200 with `partial_success`, so that SDKs
    do not retry."""
    return Response(request.body, content_type=encoding_of(request.headers.get("Content-Type")))


def prepare_metrics(body: bytes, context: PrepareContext) -> bytes:
    """Return the response to an ``ExportMetricsServiceRequest``. Raises ``InvalidInput`` if it cannot be read."""
    return _response(_METRICS, body, context)


def prepare_logs(body: bytes, context: PrepareContext) -> bytes:
    """Return the response to an ``ExportLogsServiceRequest``. Raises ``InvalidInput`` if it cannot be read."""
    return _response(_LOGS, body, context)


def _response(signal: _Signal, body: bytes, context: PrepareContext) -> bytes:
    if encoding_of(context.content_type) == JSON:
        count = signal.count_json(_json_object(body)) if body else 0
        name = _camel_case(signal.rejected_field)
        return orjson.dumps({"partialSuccess": {name: str(count), "errorMessage": MESSAGE} if count else {}})
    try:
        count = signal.count_message(signal.request.FromString(body))
    except DecodeError as exc:
        raise InvalidInput(f"The body is not an {signal.request.DESCRIPTOR.name}: {exc}.") from exc
    response: Any = signal.response()
    if count:
        setattr(response.partial_success, signal.rejected_field, count)
        response.partial_success.error_message = MESSAGE
    content: bytes = response.SerializeToString()
    return content


def _data_points_of_message(request: Any) -> int:
    metrics = (
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )
    return sum(len(getattr(metric, kind).data_points) for metric in metrics if (kind := metric.WhichOneof("data")))


def _log_records_of_message(request: Any) -> int:
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


def _data_points_of_json(request: Mapping[str, Any]) -> int:
    metrics = [
        metric
        for resource in _objects(request, "resourceMetrics")
        for scope in _objects(resource, "scopeMetrics")
        for metric in _objects(scope, "metrics")
    ]
    kinds = [_camel_case(kind) for kind in _METRIC_KINDS]
    return sum(_length(metric[kind], "dataPoints") for metric in metrics for kind in kinds if kind in metric)


def _log_records_of_json(request: Mapping[str, Any]) -> int:
    scopes = (scope for resource in _objects(request, "resourceLogs") for scope in _objects(resource, "scopeLogs"))
    return sum(_length(scope, "logRecords") for scope in scopes)


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise InvalidInput(f"The body is not JSON: {exc}.") from exc
    return _object(value, "the body")


def _objects(value: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (_object(member, name) for member in _list(value, name))


def _length(value: Any, name: str) -> int:
    return len(_list(_object(value, name), name))


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    members = value.get(name)
    if members is None:
        return []
    if not isinstance(members, list):
        raise InvalidInput(f"{name} must be a list.")
    return members


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be a JSON object, or a list of JSON objects.")
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


_METRICS: Final = _Signal(
    request=ExportMetricsServiceRequest,
    response=ExportMetricsServiceResponse,
    rejected_field="rejected_data_points",
    count_message=_data_points_of_message,
    count_json=_data_points_of_json,
)
_LOGS: Final = _Signal(
    request=ExportLogsServiceRequest,
    response=ExportLogsServiceResponse,
    rejected_field="rejected_log_records",
    count_message=_log_records_of_message,
    count_json=_log_records_of_json,
)
