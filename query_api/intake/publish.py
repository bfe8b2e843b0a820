"""Records into Kafka, one a trace, and where they ended up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from common.kafka.record import Coordinates, Publisher
from common.record_headers import CONTENT_TYPE_HEADER, PROJECT_HEADER
from common.settings import IllegalSettings, KafkaSettings

COORDINATES_HEADER: Final = "X-Clearspan-Coordinates"
COORDINATES_MAX: Final = 200
"""So many partitions are named in a header, which clients and proxies bound at 8 KiB."""

UNDER_WAY_MAX: Final = 500
"""Records of one request that wait for their acknowledgement at the same time."""


class TraceRecord(NamedTuple):
    """The spans of one trace, encoded. Keyed by its trace id, so that versions of a span share a partition."""

    trace_id: bytes
    value: bytes


async def publish(
    publisher: Publisher, records: Sequence[TraceRecord], *, topic: str, content_type: str, project_id: UUID
) -> list[Coordinates]:
    """Publish all; return their coordinates, in order, when Kafka has acknowledged every one.

    Raises ``Unavailable`` or ``TooLarge`` when one was not; others may have arrived, and sending all again is harmless.
    """
    headers = ((PROJECT_HEADER, str(project_id).encode()), (CONTENT_TYPE_HEADER, content_type.encode()))
    where: list[Coordinates] = []
    for start in range(0, len(records), UNDER_WAY_MAX):
        sends = [
            publisher.publish(topic, record.value, key=record.trace_id, headers=headers)
            for record in records[start : start + UNDER_WAY_MAX]
        ]
        # All are awaited before one is raised: nothing of this request is under way after its answer.
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            where.append(outcome)
    return where


def coordinates_header(where: Sequence[Coordinates]) -> dict[str, str]:
    """``topic/partition/offset`` of the last record in each partition: a reader can wait until all up to it is stored.

    No header where there are no records.
    """
    last = {(each.topic, each.partition): each for each in sorted(where)}
    named = [f"{each.topic}/{each.partition}/{each.offset}" for each in last.values()]
    return {COORDINATES_HEADER: ",".join(named[:COORDINATES_MAX])} if named else {}


def refuse_unread_intake(kafka: KafkaSettings) -> None:
    """Raises ``IllegalSettings`` where intake publishes to a topic that is not read: it would acknowledge what nobody stores."""
    topics = {"CLEARSPAN_KAFKA__INTAKE_TOPIC": kafka.intake_topic, "CLEARSPAN_KAFKA__OTLP_TOPIC": kafka.otlp_topic}
    unread = [f"{name} is {topic}" for name, topic in topics.items() if topic not in kafka.topics]
    if unread:
        raise IllegalSettings(
            f"{' and '.join(unread)}, which CLEARSPAN_KAFKA__TOPICS does not name: what is sent over HTTP would never be read. "
            f"Add it there, or set it to one of {', '.join(kafka.topics) or 'them'}."
        )
