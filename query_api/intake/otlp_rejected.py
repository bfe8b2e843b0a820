"""Metrics and logs over OTLP/HTTP: count and reject them with status 200, because Clearspan stores only traces.

SDKs that send all three signals to one address would otherwise report an error with every export. Sources: contract §4;
OpenTelemetry Protocol 1.x, “Partial Success”.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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

_METRIC_KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


@dataclass(frozen=True, slots=True)
class _Signal:
    """Metrics or logs: the messages, the names of the rejected count, and how records are counted in both encodings."""

    request: type[Message]
    response: type[Message]
    rejected_field: str
    rejected_member: str
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
        count = signal.count_json(_json(body)) if body else 0
        rejected = {signal.rejected_member: str(count), "errorMessage": MESSAGE}
        return orjson.dumps({"partialSuccess": rejected if count else {}})
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


def _count_points(request: Any) -> int:
    metrics = (
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )
    return sum(len(getattr(metric, kind).data_points) for metric in metrics if (kind := metric.WhichOneof("data")))


def _count_logs(request: Any) -> int:
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


def _count_json_points(request: Any) -> int:
    metrics = _elements(_elements(_elements([request], "resourceMetrics"), "scopeMetrics"), "metrics")
    kinds = (_object(metric, "metrics").get(kind) for metric in metrics for kind in _METRIC_KINDS)
    return sum(1 for _ in _elements((kind for kind in kinds if kind is not None), "dataPoints"))


def _count_json_logs(request: Any) -> int:
    return sum(1 for _ in _elements(_elements(_elements([request], "resourceLogs"), "scopeLogs"), "logRecords"))


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise InvalidInput(f"The body is not JSON: {exc}.") from exc


def _elements(objects: Iterable[Any], name: str) -> Iterator[Any]:
    """Return the elements of the list ``name`` in each object. Raises ``InvalidInput`` for anything else."""
    for parent in objects:
        members = _object(parent, name).get(name)
        if not isinstance(members, list | None):
            raise InvalidInput(f"{name} must be a list.")
        yield from members or []


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be in a JSON object.")
    return value


_METRICS: Final = _Signal(
    request=ExportMetricsServiceRequest,
    response=ExportMetricsServiceResponse,
    rejected_field="rejected_data_points",
    rejected_member="rejectedDataPoints",
    count_message=_count_points,
    count_json=_count_json_points,
)
_LOGS: Final = _Signal(
    request=ExportLogsServiceRequest,
    response=ExportLogsServiceResponse,
    rejected_field="rejected_log_records",
    rejected_member="rejectedLogRecords",
    count_message=_count_logs,
    count_json=_count_json_logs,
)
