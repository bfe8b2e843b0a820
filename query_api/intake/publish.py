"""Records into Kafka, one a trace, and where they ended up."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from common.kafka.record import Coordinates, Publisher
from common.limits import MIB
from common.record_headers import CONTENT_TYPE_HEADER, PROJECT_HEADER
from common.settings import IllegalSettings, KafkaSettings
from query_api.compute.ipc import packed

UNDER_WAY_MAX: Final = 100
"""Records of one request that wait for their acknowledgement at the same time: about 10 ms of the event loop."""

_ID_BYTES: Final = 16
_BLOCK_BYTES: Final = MIB


class TraceRecord(NamedTuple):
    """The spans of one trace, encoded. Keyed by its trace id, so that versions of a span share a partition."""

    trace_id: bytes
    value: bytes


class TraceRecords:
    """Any number of ``TraceRecord``, held in a few large byte strings: a request of 140,000 traces is sent between processes, and
    received, without as many objects at once.

    Each block holds the values of as many records as ``sizes`` says, one after another.
    """

    def __init__(self, trace_ids: bytes, sizes: Sequence[array[int]], blocks: Sequence[bytes]) -> None:
        self._trace_ids = trace_ids
        self._sizes = sizes
        self._blocks = blocks

    @classmethod
    def of(cls, records: Sequence[TraceRecord]) -> TraceRecords:
        """Pack the records."""
        sizes: list[array[int]] = []
        blocks: list[bytes] = []
        for start, end in _blocks_of(records):
            sizes.append(array("Q", (len(record.value) for record in records[start:end])))
            blocks.append(b"".join(record.value for record in records[start:end]))
        return cls(b"".join(record.trace_id for record in records), sizes, blocks)

    def __len__(self) -> int:
        return len(self._trace_ids) // _ID_BYTES

    def __iter__(self) -> Iterator[TraceRecord]:
        """The records in their order, made one at a time."""
        at = 0
        for sizes, block in zip(self._sizes, self._blocks, strict=True):
            start = 0
            for end in accumulate(sizes):
                yield TraceRecord(self._trace_ids[at : at + _ID_BYTES], block[start:end])
                start, at = end, at + _ID_BYTES

    def __reduce__(self) -> tuple[Any, ...]:
        return TraceRecords, (packed(self._trace_ids), self._sizes, [packed(block) for block in self._blocks])


def _blocks_of(records: Sequence[TraceRecord]) -> Iterator[tuple[int, int]]:
    """Where each block begins and ends; it ends with the record that fills it."""
    start = bytes_count = 0
    for index, record in enumerate(records, 1):
        bytes_count += len(record.value)
        if bytes_count >= _BLOCK_BYTES or index == len(records):
            yield start, index
            start, bytes_count = index, 0


async def publish(
    publisher: Publisher, records: Iterable[TraceRecord], *, topic: str, content_type: str, project_id: UUID
) -> list[Coordinates]:
    """Publish all; return the coordinates of the last record in each partition when Kafka has acknowledged every one.

    Raises ``Unavailable`` or ``TooLarge`` when one was not; others may have arrived, and sending all again is harmless.
    """
    headers = ((PROJECT_HEADER, str(project_id).encode()), (CONTENT_TYPE_HEADER, content_type.encode()))
    last: dict[tuple[str, int], Coordinates] = {}
    remaining = iter(records)
    while some := list(islice(remaining, UNDER_WAY_MAX)):
        sends = [publisher.publish(topic, record.value, key=record.trace_id, headers=headers) for record in some]
        # All are awaited before one is raised: nothing of this request is under way after its answer.
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            known = last.get((outcome.topic, outcome.partition), outcome)
            last[outcome.topic, outcome.partition] = max(known, outcome)
    return list(last.values())


def check_intake_topics(kafka: KafkaSettings) -> None:
    """Raise ``IllegalSettings`` if intake would publish to a topic that the worker does not read."""
    topics = {"CLEARSPAN_KAFKA__INTAKE_TOPIC": kafka.intake_topic, "CLEARSPAN_KAFKA__OTLP_TOPIC": kafka.otlp_topic}
    unread = [f"{name} is {topic}" for name, topic in topics.items() if topic not in kafka.topics]
    if unread:
        raise IllegalSettings(
            f"{' and '.join(unread)}, which CLEARSPAN_KAFKA__TOPICS does not name: what is sent over HTTP would never be read. "
            f"Add it there, or set it to one of {', '.join(kafka.topics) or 'them'}."
        )
