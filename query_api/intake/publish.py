"""Publish spans from HTTP to Kafka, one record per partition, and respond when Kafka has acknowledged all of them
(contract §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from common.kafka.record import CONTENT_TYPE_HEADER, CONTENT_TYPES, PROJECT_HEADER, Coordinates, Publisher
from common.settings import Encoding, InvalidSettings, KafkaSettings
from common.telemetry import INTAKE_SPANS
from query_api.freshness.headers import coordinates_header
from query_api.intake.records import IntakeRecord
from query_api.request.route import Request, Response

ACCEPTED: Final = 202

UNACKNOWLEDGED_MAX: Final = 100
"""Records of one request that wait for their acknowledgement at the same time: about 10 ms of the event loop."""


class PreparedIntake(NamedTuple):
    """What a request publishes, and the body of its response once Kafka has acknowledged it."""

    records: Iterable[IntakeRecord]
    spans_count: int
    response_body: bytes
    rejected_count: int = 0


async def send_spans(request: Request) -> Response:
    """Publish the spans of a JSON body; respond when Kafka has acknowledged all of them."""
    return await publish_spans(request, request.body)


async def publish_spans(request: Request, spans: PreparedIntake, *, status: int = ACCEPTED) -> Response:
    """Publish spans as span JSON. Raises as ``publish``."""
    topic = request.context.settings.kafka.intake_topic
    headers = await _publish(request, spans, Encoding.SPAN_JSON, topic=topic)
    return Response(spans.response_body, status=status, headers=headers)


async def publish_export(request: Request, spans: PreparedIntake, encoding: Encoding, *, topic: str) -> Response:
    """Publish the spans, or log records, of an OTLP export in its own encoding. Raises as ``publish``."""
    headers = await _publish(request, spans, encoding, topic=topic)
    return Response(spans.response_body, content_type=CONTENT_TYPES[encoding], headers=headers)


async def _publish(request: Request, spans: PreparedIntake, encoding: Encoding, *, topic: str) -> dict[str, str]:
    """Publish spans; return the header that names their coordinates."""
    where = await publish(
        request.context.publisher,
        spans.records,
        topic=topic,
        content_type=CONTENT_TYPES[encoding],
        project_id=request.project_id,
    )
    is_logs = topic == request.context.settings.kafka.logs_topic
    metric = "otlp_logs" if is_logs else "span_json" if encoding is Encoding.SPAN_JSON else "otlp"
    INTAKE_SPANS.labels(metric, "accepted").inc(spans.spans_count)
    INTAKE_SPANS.labels(metric, "rejected").inc(spans.rejected_count)
    return coordinates_header(request, where)


async def publish(
    publisher: Publisher, records: Iterable[IntakeRecord], *, topic: str, content_type: str, project_id: UUID
) -> list[Coordinates]:
    """Publish all records; return the coordinates of the last one in each partition when all are acknowledged.

    Raises ``Unavailable`` or ``TooLarge`` if one is not. Others may have arrived then; sending all again is harmless.
    """
    headers = ((PROJECT_HEADER, str(project_id).encode()), (CONTENT_TYPE_HEADER, content_type.encode()))
    last: dict[tuple[str, int], Coordinates] = {}
    remaining = iter(records)
    while chunk := list(islice(remaining, UNACKNOWLEDGED_MAX)):
        sends = [
            publisher.publish(topic, record.value, key=record.key, headers=headers, partition=record.partition)
            for record in chunk
        ]
        # All are awaited before an error is raised: nothing of this request is in flight after its response.
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            known = last.get((outcome.topic, outcome.partition), outcome)
            last[outcome.topic, outcome.partition] = max(known, outcome)
    return list(last.values())


def check_intake_topics(kafka: KafkaSettings) -> None:
    """Raise ``InvalidSettings`` if intake would publish to a topic that the worker does not read."""
    topics = {"CLEARSPAN_KAFKA__INTAKE_TOPIC": kafka.intake_topic, "CLEARSPAN_KAFKA__OTLP_TOPIC": kafka.otlp_topic}
    unread = [f"{name} is {topic}" for name, topic in topics.items() if topic not in kafka.topics]
    if unread:
        raise InvalidSettings(
            f"{' and '.join(unread)}, which is not in CLEARSPAN_KAFKA__TOPICS: "
            "the worker would never read spans that are sent over HTTP. "
            f"Add it there, or use one of {', '.join(kafka.topics) or 'them'}."
        )
