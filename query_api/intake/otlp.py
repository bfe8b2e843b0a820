"""Traces over OTLP/HTTP: one request in, one record per partition out, with the bytes of each span as they were sent
(contract §4).

Records are cut from the request, never encoded again. Rejected spans are reported in ``partial_success``. Errors are
``google.rpc.Status`` in the encoding of the request. Sources: OpenTelemetry Protocol 1.x, “OTLP/HTTP response”;
reference §4.5 for compressed bodies without ``Content-Encoding``.

Errors of calls over OTLP/gRPC have the same body; clients retry ``RESOURCE_EXHAUSTED`` only if the status has a
``RetryInfo`` (“OTLP/gRPC Throttling”). Metrics are counted and rejected with status 200, because SDKs that send all
three signals to one address would report an error with every export (“Partial Success”). Log records:
``otlp_logs.py``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from common.codec import json_cut, otlp_json, otlp_protobuf, protobuf_cut
from common.codec.decoded import Decoded, Rejections
from common.codec.json_cut import RequestNames
from common.codec.layout import Layout, SpanPart
from common.codec.protobuf_cut import encode_delimited, encode_varint
from common.errors import ErrorCode, InvalidInput, Rejected, Retryable, ServiceError, TooLarge, UnsupportedMedia
from common.kafka.record import CONTENT_TYPES as CONTENT_TYPES_OF
from common.limits import SpanLimits
from common.settings import Encoding
from common.steps import Steps, finished
from query_api.intake.models import IntakeReady
from query_api.intake.protobuf_check import kept_trace_ids
from query_api.intake.publish import PreparedIntake, publish_export
from query_api.intake.records import Destination, IntakeRecord, IntakeRecords, destinations_of
from query_api.request.errors import headers_of, status_of
from query_api.request.json_body import json_response
from query_api.request.route import PrepareContext, Request, Response

INTERNAL: Final = 13
CODES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID: 3,
    ErrorCode.REJECTED: 3,
    ErrorCode.TOO_LARGE: 3,
    ErrorCode.DEADLINE_EXCEEDED: 4,
    ErrorCode.FORBIDDEN: 7,
    ErrorCode.OVERLOADED: 8,
    ErrorCode.UNAVAILABLE: 14,
    ErrorCode.UNAUTHORIZED: 16,
}

_RETRY_INFO: Final = b"type.googleapis.com/google.rpc.RetryInfo"


def code_of(error: ServiceError) -> int:
    """Return the code of gRPC for an error."""
    return CODES.get(error.code, INTERNAL)


def status_message(code: int, text: str) -> bytes:
    """Encode ``google.rpc.Status``: field 1 is the code, field 2 the message. Its package would be a dependency."""
    return b"\x08" + encode_varint(code) + encode_delimited(2, text.encode())


def with_retry_info(status: bytes, error: Retryable) -> bytes:
    """Add to a status when to retry: field 3 is an ``Any`` with a ``RetryInfo``, whose field 1 is a ``Duration``."""
    delay = b"\x08" + encode_varint(max(1, math.ceil(error.retry_after_s)))
    retry_info = encode_delimited(1, delay)
    return status + encode_delimited(3, encode_delimited(1, _RETRY_INFO) + encode_delimited(2, retry_info))


PROTOBUF: Final = CONTENT_TYPES_OF[Encoding.OTLP_PROTO]
JSON: Final = CONTENT_TYPES_OF[Encoding.OTLP_JSON]
CONTENT_TYPES: Final = (PROTOBUF, JSON)

SPANS_MAX: Final = 250_000
"""Spans, scopes and resources of one request: more than fit into 10 MiB with an id and times. Five million empty ones
would keep a process busy for 40 s."""

REASONS_MAX: Final = 10
"""Rejected spans that are reported one by one."""

REASON_CHARACTERS_MAX: Final = 500

SPANS_IN_STEPS_MAX: Final = 25_000
"""Spans of a request that is prepared in the event loop: a record of half of them is cut at once, in 6 ms."""

LAYOUT_STEPS_MAX: Final = 500
"""Steps in which a request is laid out there: 25,000 spans of one scope take 25, each scope two."""

SPAN_BYTES_MIN: Final = 46
"""A span with its ids and times is not smaller."""

SPANS_PER_STEP: Final = 1_000
"""Spans that are assigned to records in one step."""

GROWTH_MAX: Final = 8
"""The largest size of all records of a request, in multiples of the largest body: each record repeats resources and
scopes."""


async def ready(request: Request) -> Response:  # noqa: ARG001 - a handler
    """Return 200: this path accepts OTLP by POST."""
    return json_response(IntakeReady())


async def export_traces(request: Request) -> Response:
    """Publish the spans of an `ExportTraceServiceRequest`; respond when Kafka has acknowledged all of them."""
    is_json = encoding_of(request.headers.get("Content-Type")) == JSON
    encoding = Encoding.OTLP_JSON if is_json else Encoding.OTLP_PROTO
    return await publish_export(request, request.body, encoding, topic=request.context.settings.kafka.otlp_topic)


def prepare_traces(body: bytes, context: PrepareContext) -> PreparedIntake:
    """Prepare an ``ExportTraceServiceRequest`` and its response. Raises ``Rejected`` if it cannot be decoded."""
    encoding = encoding_of(context.content_type)
    if not body:
        return PreparedIntake([], 0, response_body(ExportTraceServiceResponse(), encoding=encoding))
    codec = _CODECS[encoding]
    if len(body) > 2 * SPANS_MAX and codec.count(body) > SPANS_MAX:
        raise TooLarge(f"The request holds more than {SPANS_MAX} spans, scopes and resources. Send fewer at once.")
    decoded = codec.decode(body, limits=context.limits, now_ns=context.now_ns).without_repeats()
    trace_ids: list[bytes | None] = [None] * (1 + max(decoded.span_indexes, default=-1))
    for index, span in zip(decoded.span_indexes, decoded.spans, strict=True):
        trace_ids[index] = span.trace_id
    rejections = decoded.rejections
    kept = KeptTraces(body, trace_ids, lambda: decoded.layout or codec.lay_out(body), is_whole=not rejections)
    prepared = finished(_prepared(kept, rejections, context, encoding=encoding))
    return prepared._replace(records=IntakeRecords.of(list(prepared.records)))  # to be sent to another process


def prepare_kept_traces(body: bytes, context: PrepareContext) -> Steps[PreparedIntake | None]:
    """Do what ``prepare_traces`` does, in steps and without decoding; return ``None`` if that cannot be done."""
    if encoding_of(context.content_type) != PROTOBUF:
        return None
    try:
        layout = yield from _laid_out(body)
    except protobuf_cut.BrokenWire:  # decoding reports it
        return None
    if layout is None:
        return None
    trace_ids = yield from kept_trace_ids(layout, limits=context.limits, now_ns=context.now_ns)
    if trace_ids is None:
        return None
    kept = KeptTraces(body, trace_ids, lambda: layout, is_whole=True)
    return (yield from _prepared(kept, Rejections(), context, encoding=PROTOBUF))


def _laid_out(body: bytes) -> Steps[Layout | None]:
    """Return the layout of a request; ``None`` if it has too many parts, or spans too small to be kept."""
    layout = protobuf_cut.empty_layout(body)
    for count, _ in enumerate(protobuf_cut.lay_out_steps(layout)):
        spans_count = len(layout.spans)
        if count == LAYOUT_STEPS_MAX or spans_count > SPANS_IN_STEPS_MAX:
            return None
        if spans_count and layout.spans[spans_count - 1].end < spans_count * SPAN_BYTES_MIN:
            return None
        yield
    return layout


class KeptTraces(NamedTuple):
    """The trace of each span, or log record, of a request, in wire order, ``None`` if it is left out.

    ``is_whole``: whether nothing is left out because it is rejected.
    """

    body: bytes
    trace_ids: Sequence[bytes | None]
    lay_out: Callable[[], Layout]
    is_whole: bool


def _prepared(
    kept: KeptTraces, rejections: Rejections, context: PrepareContext, *, encoding: str
) -> Steps[PreparedIntake]:
    records = yield from records_of(kept, context.otlp_partitions, context.limits)
    response = response_body(_reported(rejections), encoding=encoding)
    return PreparedIntake(records, _kept_count(kept), response, len(rejections))


def _kept_count(kept: KeptTraces) -> int:
    return len(kept.trace_ids) - kept.trace_ids.count(None)


def records_of(kept: KeptTraces, partitions_count: int | None, limits: SpanLimits) -> Steps[list[IntakeRecord]]:
    """Return the records of what is kept of a request, one for each destination. Raises ``TooLarge``."""
    trace_ids = [trace_id for trace_id in kept.trace_ids if trace_id is not None]
    if not trace_ids:
        return []
    destinations = yield from destinations_of(trace_ids, partitions_count)
    if len(set(destinations.values())) == 1 and kept.is_whole:
        return [IntakeRecord(trace_ids[0], kept.body, destinations[trace_ids[0]].partition)]
    bytes_max = GROWTH_MAX * limits.record_bytes_max
    return (yield from split_by_destination(kept.lay_out(), kept.trace_ids, destinations, bytes_max=bytes_max))


def split_by_destination(
    layout: Layout, trace_ids: Sequence[bytes | None], destinations: Mapping[bytes, Destination], *, bytes_max: int
) -> Steps[list[IntakeRecord]]:
    """Return one record for each destination, in the order of the request.

    ``trace_ids``: the trace of each span, in wire order; ``None`` if the span is left out, like spans past the end.
    Raises ``TooLarge`` if the records take more than ``bytes_max`` bytes.
    """
    by_destination: dict[Destination, list[SpanPart]] = defaultdict(list)
    keys: dict[Destination, bytes] = {}
    for count, (part, trace_id) in enumerate(zip(layout.spans, trace_ids, strict=False), 1):
        if trace_id is not None:
            destination = destinations[trace_id]
            keys.setdefault(destination, trace_id)
            by_destination[destination].append(part)
        if not count % SPANS_PER_STEP:
            yield
    records, bytes_count = [], 0
    for destination, parts in by_destination.items():
        record = IntakeRecord(keys[destination], layout.request_of(parts), destination.partition)
        bytes_count += len(record.value)
        if bytes_count > bytes_max:
            raise TooLarge(
                f"The records take more than {bytes_max} bytes, each with its resources and scopes. Send fewer at once."
            )
        records.append(record)
        yield
    return records


def error_format(error: ServiceError, headers: Mapping[str, str]) -> Response | None:
    """Return ``google.rpc.Status`` in the encoding of the request; ``None`` if its content type is not supported."""
    if isinstance(error, UnsupportedMedia):
        return None
    encoding = encoding_of(headers.get("Content-Type"))
    code = code_of(error)
    if encoding == JSON:
        body = orjson.dumps({"code": code, "message": error.public_message})
    else:
        body = status_message(code, error.public_message)
    return Response(body, status=status_of(error), content_type=encoding, headers=headers_of(error))


def encoding_of(content_type: str | None) -> str:
    """Return ``JSON`` or ``PROTOBUF``, which is the default."""
    sent = (content_type or PROTOBUF).partition(";")[0].strip().lower()
    return JSON if sent == JSON else PROTOBUF


def response_body(response: Message, *, encoding: str) -> bytes:
    """Encode the response to an export."""
    if encoding == JSON:
        return orjson.dumps({"partialSuccess": {}} | MessageToDict(response))
    body: bytes = response.SerializeToString()
    return body


def _reported(rejections: Rejections) -> ExportTraceServiceResponse:
    if not rejections:
        return ExportTraceServiceResponse()
    message = " ".join(reasons_of(rejections, "span"))
    rejected = ExportTracePartialSuccess(rejected_spans=len(rejections), error_message=message)
    return ExportTraceServiceResponse(partial_success=rejected)


def reasons_of(rejections: Rejections, kind: str) -> list[str]:
    """Return sentences about the first rejections, and how many more there are."""
    reasons = [
        f"{kind} {rejection.span_index}: {rejection.reason[:REASON_CHARACTERS_MAX]}"
        for rejection in rejections.in_full[:REASONS_MAX]
    ]
    more = len(rejections) - len(reasons)
    return [*reasons, f"And {more} more."] if more > 0 else reasons


def count_protobuf(body: bytes) -> int:
    """Count spans or log records, scopes and resources, up to ``SPANS_MAX + 1``; 0 if the body cannot be read.

    Without parsing: the parser needs 100 times the memory of empty spans, and fails on one broken span.
    """
    try:
        return sum(1 for _ in islice(protobuf_cut.parts(body), SPANS_MAX + 1))
    except protobuf_cut.BrokenWire:  # decoding reports it
        return 0


def count_json(body: bytes, names: RequestNames) -> int:
    """Do the same for a document in JSON, given the names of its arrays."""
    resources, scopes, members = (spellings[0] for spellings in names)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:  # perhaps only one span is broken
        return _count_laid_out(body, names)
    try:
        of_scopes = [scope for resource in document[resources] for scope in resource.get(scopes, [])]
        return len(document[resources]) + len(of_scopes) + sum(len(scope.get(members, [])) for scope in of_scopes)
    except (LookupError, TypeError, AttributeError):  # decoding reports it
        return 0


def _count_laid_out(body: bytes, names: RequestNames) -> int:
    """Count spans only: scopes and resources without spans cost nothing to decode."""
    try:
        return len(json_cut.lay_out_request(body, names=names).spans)
    except Rejected:
        return 0


class _Codec(NamedTuple):
    decode: Callable[..., Decoded]
    lay_out: Callable[[bytes], Layout]
    count: Callable[[bytes], int]
    """Counts spans, scopes and resources up to ``SPANS_MAX + 1``; 0 if the body cannot be read."""


_CODECS: Final[Mapping[str, _Codec]] = {
    PROTOBUF: _Codec(otlp_protobuf.decode, otlp_protobuf.lay_out, count_protobuf),
    JSON: _Codec(otlp_json.decode, otlp_json.lay_out, partial(count_json, names=json_cut.SPANS)),
}


MESSAGE: Final = "Clearspan stores no metrics: nothing of this request is stored. Send metrics to another backend."

_METRIC_KINDS: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


async def reject(request: Request) -> Response:
    """Reject every data point, because Clearspan stores no metrics. The status is 200 with `partial_success`, so that
    SDKs do not retry."""
    return Response(request.body, content_type=encoding_of(request.headers.get("Content-Type")))


def prepare_metrics(body: bytes, context: PrepareContext) -> bytes:
    """Return the response to an ``ExportMetricsServiceRequest``. Raises ``InvalidInput`` if it cannot be read."""
    encoding = encoding_of(context.content_type)
    count = _count_json_points(body) if encoding == JSON else _count_points(body)
    rejected = ExportMetricsPartialSuccess(rejected_data_points=count, error_message=MESSAGE) if count else None
    return response_body(ExportMetricsServiceResponse(partial_success=rejected), encoding=encoding)


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


def _count_json_points(body: bytes) -> int:
    metrics = _elements(_elements(_elements(_documents(body), "resourceMetrics"), "scopeMetrics"), "metrics")
    kinds = (_object(metric, "metrics").get(kind) for metric in metrics for kind in _METRIC_KINDS)
    return sum(1 for _ in _elements((kind for kind in kinds if kind is not None), "dataPoints"))


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
