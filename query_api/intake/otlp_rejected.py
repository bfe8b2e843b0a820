"""Metrics and logs over OTLP/HTTP: count and reject them with status 200, because Clearspan stores only traces.

SDKs that send all three signals to one address would otherwise report an error with every export. Sources: contract §4;
OpenTelemetry Protocol 1.x, “Partial Success”.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from common.errors import InvalidInput
from query_api.intake.otlp import JSON, encoding_of, response_body
from query_api.request.route import PrepareContext, Request, Response

MESSAGE: Final = (
    "Clearspan stores only traces: nothing of this request is stored. Send metrics and logs to another backend."
)

_METRIC_KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


async def reject(request: Request) -> Response:
    """Reject every record, because Clearspan stores only traces. The status is 200 with `partial_success`, so that SDKs
    do not retry."""
    return Response(request.body, content_type=encoding_of(request.headers.get("Content-Type")))


def prepare_metrics(body: bytes, context: PrepareContext) -> bytes:
    """Return the response to an ``ExportMetricsServiceRequest``. Raises ``InvalidInput`` if it cannot be read."""
    encoding = encoding_of(context.content_type)
    count = _count_json_points(body) if encoding == JSON else _count_points(body)
    rejected = ExportMetricsPartialSuccess(rejected_data_points=count, error_message=MESSAGE) if count else None
    return response_body(ExportMetricsServiceResponse(partial_success=rejected), encoding=encoding)


def prepare_logs(body: bytes, context: PrepareContext) -> bytes:
    """Return the response to an ``ExportLogsServiceRequest``. Raises ``InvalidInput`` if it cannot be read."""
    encoding = encoding_of(context.content_type)
    count = _count_json_logs(body) if encoding == JSON else _count_logs(body)
    rejected = ExportLogsPartialSuccess(rejected_log_records=count, error_message=MESSAGE) if count else None
    return response_body(ExportLogsServiceResponse(partial_success=rejected), encoding=encoding)


def _message(kind: type[Message], body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as exc:
        raise InvalidInput(f"The body is not an {kind.DESCRIPTOR.name}: {exc}.") from exc


def _count_points(body: bytes) -> int:
    request = _message(ExportMetricsServiceRequest, body)
    metrics = (
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )
    return sum(len(getattr(metric, kind).data_points) for metric in metrics if (kind := metric.WhichOneof("data")))


def _count_logs(body: bytes) -> int:
    request = _message(ExportLogsServiceRequest, body)
    return sum(len(scope.log_records) for resource in request.resource_logs for scope in resource.scope_logs)


def _count_json_points(body: bytes) -> int:
    metrics = _elements(_elements(_elements(_documents(body), "resourceMetrics"), "scopeMetrics"), "metrics")
    kinds = (_object(metric, "metrics").get(kind) for metric in metrics for kind in _METRIC_KINDS)
    return sum(1 for _ in _elements((kind for kind in kinds if kind is not None), "dataPoints"))


def _count_json_logs(body: bytes) -> int:
    return sum(1 for _ in _elements(_elements(_elements(_documents(body), "resourceLogs"), "scopeLogs"), "logRecords"))


def _documents(body: bytes) -> list[Any]:
    """Return the document in a list; an empty body has none."""
    try:
        return [orjson.loads(body)] if body else []
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
