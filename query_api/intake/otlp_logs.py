"""Log records over OTLP: one request in, one record per partition out, as for spans (``otlp.py``, contract §4.1).

What a worker would not keep is refused here, with the reason, by the same code (``common/log_kinds.py``).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse

from common.codec import json_cut, logs_json, logs_protobuf
from common.codec.decoded import Rejections
from common.errors import TooLarge
from common.log_kinds import keep_logs
from common.log_refusals import REASONS, LogRefusals
from common.settings import Encoding
from common.steps import finished
from query_api.intake.otlp import (
    JSON,
    SPANS_MAX,
    KeptTraces,
    count_json,
    count_protobuf,
    encoding_of,
    reasons_of,
    records_of,
    response_body,
)
from query_api.intake.publish import PreparedIntake, publish_export
from query_api.intake.records import IntakeRecords
from query_api.request.route import PrepareContext, Request, Response

MESSAGE: Final = (
    "This installation stores no log records: nothing of this request is stored. Send logs to another backend."
)


async def export_logs(request: Request) -> Response:
    """Publish the log records of an `ExportLogsServiceRequest` that are kept: those that name a span, which become its
    events, and those of Claude Code and Codex, which become spans. Respond when Kafka has acknowledged all of them;
    `partial_success` says which are refused, and why."""
    is_json = encoding_of(request.headers.get("Content-Type")) == JSON
    encoding = Encoding.OTLP_JSON if is_json else Encoding.OTLP_PROTO
    return await publish_export(request, request.body, encoding, topic=request.context.settings.kafka.logs_topic)


def prepare_logs(body: bytes, context: PrepareContext) -> PreparedIntake:
    """Prepare an ``ExportLogsServiceRequest`` and its response. Raises ``Rejected`` if it cannot be decoded."""
    encoding = encoding_of(context.content_type)
    if not body:
        return PreparedIntake([], 0, response_body(ExportLogsServiceResponse(), encoding=encoding))
    codec = logs_json if encoding == JSON else logs_protobuf
    count = partial(count_json, names=json_cut.LOG_RECORDS) if encoding == JSON else count_protobuf
    if len(body) > 2 * SPANS_MAX and count(body) > SPANS_MAX:
        raise TooLarge(
            f"The request holds more than {SPANS_MAX} log records, scopes and resources. Send fewer at once."
        )
    if not context.takes_logs:
        return _refuse_all(len(codec.lay_out(body).spans), encoding=encoding)
    decoded = codec.decode(body, limits=context.limits, now_ns=context.now_ns)
    logs = keep_logs(decoded)
    kept_ids = {index: span.trace_id for index, span in zip(logs.span_indexes, logs.spans, strict=True)}
    kept_ids |= {index: about[0] for log, index in logs.events if (about := log.about)}
    trace_ids = [kept_ids.get(index) for index in range(1 + max(kept_ids, default=-1))]
    is_whole = not decoded.rejections and not logs.refusals
    kept = KeptTraces(body, trace_ids, lambda: decoded.layout or codec.lay_out(body), is_whole=is_whole)
    records = finished(records_of(kept, context.logs_partitions, context.limits))
    response = response_body(_report(decoded.rejections, logs.refusals), encoding=encoding)
    rejected_count = len(decoded.rejections) + len(logs.refusals)
    return PreparedIntake(IntakeRecords.of(records), len(kept_ids), response, rejected_count)


def _refuse_all(count: int, *, encoding: str) -> PreparedIntake:
    refused = ExportLogsPartialSuccess(rejected_log_records=count, error_message=MESSAGE) if count else None
    response = response_body(ExportLogsServiceResponse(partial_success=refused), encoding=encoding)
    return PreparedIntake([], 0, response, count)


def _report(rejections: Rejections, refusals: LogRefusals) -> ExportLogsServiceResponse:
    if not rejections and not refusals:
        return ExportLogsServiceResponse()
    message = " ".join([*reasons_of(rejections, "log record"), *_reasons(refusals)])
    rejected_count = len(rejections) + len(refusals)
    refused = ExportLogsPartialSuccess(rejected_log_records=rejected_count, error_message=message)
    return ExportLogsServiceResponse(partial_success=refused)


def _reasons(refusals: LogRefusals) -> list[str]:
    """Return a sentence about each kind of refusal."""
    sentences = []
    for refusal, count in refusals.counts.items():
        indexes = [str(index) for index, kind in refusals.examples if kind is refusal]
        named = ", ".join(indexes) + (", …" if len(indexes) < count else "")
        records = f"log record {named}" if count == 1 else f"{count} log records ({named})"
        sentences.append(f"{records}: {REASONS[refusal]}")
    return sentences
