"""OTLP over HTTP: one request in, one record a trace out, the bytes of each span as they came (contract §4).

What is published is cut from the request on the wire, never encoded anew. Refused spans are told to the sender in
``partial_success``. Errors have the protocol's own form, ``google.rpc.Status``, in the encoding of the request.
Source: OpenTelemetry Protocol 1.x, “OTLP/HTTP response”; reference §4.5 for compressed bodies that do not say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from common import record_headers
from common.codec import otlp_json, otlp_protobuf, protobuf_cut
from common.codec.decoded import Decoded, Rejections
from common.codec.layout import RequestLayout
from common.errors import ErrorCode, Rejected, ServiceError, TooLarge, UnsupportedMedia
from common.limits import SpanLimits
from common.settings import Encoding
from common.telemetry import INTAKE_SPANS
from query_api.intake.models import IntakeReady
from query_api.intake.prepare import PreparedIntake
from query_api.intake.publish import TraceRecord, TraceRecords, publish
from query_api.intake.split import GROWTH_MAX, split_by_trace
from query_api.request.coordinates import coordinates_header
from query_api.request.errors import headers_of, status_of
from query_api.request.json_body import json_response
from query_api.request.route import PrepareContext, Request, Response

PROTOBUF: Final = record_headers.CONTENT_TYPES[Encoding.OTLP_PROTO]
JSON: Final = record_headers.CONTENT_TYPES[Encoding.OTLP_JSON]
CONTENT_TYPES: Final = (PROTOBUF, JSON)
SPANS_MAX: Final = 250_000
"""Of one request, its scopes and resources included: more than fit into 10 MiB with an id and times each. Five million empty ones would take a process 40 s."""

REASONS_MAX: Final = 10
"""So many refusals are told one by one."""

_GRPC_CODES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID: 3,
    ErrorCode.REJECTED: 3,
    ErrorCode.TOO_LARGE: 3,
    ErrorCode.OVERLOADED: 8,
    ErrorCode.UNAVAILABLE: 14,
}
_GRPC_INTERNAL: Final = 13


def _count_protobuf(body: bytes) -> int:
    """On the wire: the parser takes a hundred times the bytes of empty spans, and reads none where one is broken."""
    try:
        return sum(1 for _ in islice(protobuf_cut.parts(body), SPANS_MAX + 1))
    except protobuf_cut.BrokenWire:  # what is wrong with it is said where it is decoded
        return 0


def _count_json(body: bytes) -> int:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:  # for one broken span, maybe
        return _count_laid_out(body)
    try:
        scopes = [scope for resource in document["resourceSpans"] for scope in resource.get("scopeSpans", [])]
        return len(document["resourceSpans"]) + len(scopes) + sum(len(scope.get("spans", [])) for scope in scopes)
    except (LookupError, TypeError, AttributeError):  # what is wrong with it is said where it is decoded
        return 0


def _count_laid_out(body: bytes) -> int:
    """Spans alone: scopes and resources without any cost nothing where they are decoded."""
    try:
        return len(otlp_json.lay_out(body).spans)
    except Rejected:
        return 0


class _Codec(NamedTuple):
    decode: Callable[..., Decoded]
    lay_out: Callable[[bytes], RequestLayout]
    count: Callable[[bytes], int]
    """Spans, scopes and resources of a request, as far as ``SPANS_MAX`` and one; 0 where it cannot be read."""


_CODECS: Final[Mapping[str, _Codec]] = {
    PROTOBUF: _Codec(otlp_protobuf.decode, otlp_protobuf.lay_out, _count_protobuf),
    JSON: _Codec(otlp_json.decode, otlp_json.lay_out, _count_json),
}


class AcceptedExport(NamedTuple):
    """A request, decoded: one record a trace, and what was refused."""

    records: list[TraceRecord]
    spans_count: int
    rejections: Rejections


async def ready(request: Request) -> Response:  # noqa: ARG001 - the one shape of handlers
    """OTLP can be sent here."""
    return json_response(IntakeReady())


async def export_traces(request: Request) -> Response:
    """Publish the spans of an ``ExportTraceServiceRequest``; answer when Kafka has acknowledged all of them."""
    spans: PreparedIntake = request.body
    encoding = encoding_of(request.headers.get("Content-Type"))
    where = await publish(
        request.context.publisher,
        spans.records,
        topic=request.context.settings.kafka.otlp_topic,
        content_type=encoding,
        project_id=request.project_id,
    )
    INTAKE_SPANS.labels("otlp", "accepted").inc(spans.spans_count)
    INTAKE_SPANS.labels("otlp", "rejected").inc(spans.rejected_count)
    return Response(spans.response_body, content_type=encoding, headers=coordinates_header(request, where))


def prepare_traces(body: bytes, context: PrepareContext) -> PreparedIntake:
    """What an ``ExportTraceServiceRequest`` publishes, and the answer to it. Raises ``Rejected`` when nothing can be read."""
    encoding = encoding_of(context.content_type)
    taken = take(body, encoding=encoding, limits=context.limits, now_ns=context.now_ns)
    answer = _response(taken.rejections, encoding=encoding)
    return PreparedIntake(TraceRecords.of(taken.records), taken.spans_count, answer, len(taken.rejections))


def take(body: bytes, *, encoding: str, limits: SpanLimits, now_ns: int) -> AcceptedExport:
    """The records of a request, in the order in which their traces came. Raises ``Rejected`` when nothing can be read."""
    if not body:
        return AcceptedExport([], 0, Rejections())
    codec = _CODECS[encoding]
    if len(body) > 2 * SPANS_MAX and codec.count(body) > SPANS_MAX:
        raise TooLarge(f"The request holds more than {SPANS_MAX} spans, scopes and resources; send fewer.")
    decoded = codec.decode(body, limits=limits, now_ns=now_ns).without_repeats()
    trace_ids = {index: span.trace_id for index, span in zip(decoded.span_indexes, decoded.spans, strict=True)}
    if len(set(trace_ids.values())) == 1 and not decoded.rejections:
        records = [TraceRecord(decoded.spans[0].trace_id, body)]
    else:
        bytes_max = GROWTH_MAX * limits.record_bytes_max
        records = split_by_trace(codec.lay_out(body), trace_ids, bytes_max=bytes_max)
    return AcceptedExport(records, len(decoded.spans), decoded.rejections)


def error_format(error: ServiceError, headers: Mapping[str, str]) -> Response | None:
    """``google.rpc.Status`` in the encoding of the request; a body whose type is refused has the usual shape."""
    if isinstance(error, UnsupportedMedia):
        return None
    encoding = encoding_of(headers.get("Content-Type"))
    code = _GRPC_CODES.get(error.code, _GRPC_INTERNAL)
    if encoding == JSON:
        body = orjson.dumps({"code": code, "message": error.public_message})
    else:
        body = _status_message(code, error.public_message)
    return Response(body, status=status_of(error), content_type=encoding, headers=headers_of(error))


def encoding_of(content_type: str | None) -> str:
    """The encoding that a ``Content-Type`` names: protobuf where it is missing."""
    sent = (content_type or PROTOBUF).partition(";")[0].strip().lower()
    return JSON if sent == JSON else PROTOBUF


def _response(rejections: Rejections, *, encoding: str) -> bytes:
    reasons = _reasons(rejections)
    if encoding == JSON:
        told = {"rejectedSpans": str(len(rejections)), "errorMessage": reasons} if rejections else {}
        return orjson.dumps({"partialSuccess": told})
    if not rejections:
        return b""
    partial = ExportTracePartialSuccess(rejected_spans=len(rejections), error_message=reasons)
    message: bytes = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    return message


def _reasons(rejections: Rejections) -> str:
    reasons = [f"span {refusal.span_index}: {refusal.reason}" for refusal in rejections.in_full[:REASONS_MAX]]
    if len(rejections) > REASONS_MAX:
        reasons.append(f"And {len(rejections) - REASONS_MAX} more.")
    return " ".join(reasons)


def _status_message(code: int, text: str) -> bytes:
    """``google.rpc.Status`` on the wire: field 1 the code, field 2 the message. Two fields are not worth a package."""
    message = text.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(message)) + message


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
