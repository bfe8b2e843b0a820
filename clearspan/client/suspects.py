"""Spans of records that are not stored, until it is known why: dead-lettered, of a deleted project, or missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from uuid import UUID

from common.kafka.log import KafkaLog
from common.kafka.record import Record
from ingest.dead_letter import (
    OFFSET_HEADER,
    PARTITION_HEADER,
    SPAN_COUNT_HEADER,
    SPAN_INDEX_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)

SUSPECTS_MAX: Final = 100_000
"""Spans that are in memory before the dead letters are read."""

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a record."""

NAMED_MAX: Final = 20
"""Missing spans of a partition that a result names."""


@dataclass(slots=True)
class PartitionReport:
    """What was found of one partition. Its spans are the sum of stored, deleted, dead-lettered and missing ones."""

    topic: str
    partition: int
    offsets: range
    behind_count: int
    """Records after the stored position: they are on their way."""

    records: int = 0
    spans: int = 0
    stored: int = 0
    deleted: int = 0
    dead_lettered: int = 0
    missing: int = 0
    named: list[Suspect] = field(default_factory=list)
    """The first of the missing ones."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A span of a record, or several that the decoder rejects."""

    report: PartitionReport
    offset: int
    record_ms: int
    span_index: int | None
    """``None`` if it is about the whole record, or about several spans."""

    trace_id: str = ""
    span_id: str = ""
    project_id: UUID | None = None
    """``None`` if the decoder rejects it."""

    reason: str = ""
    spans_count: int = 1
    project_exists: bool = True

    @property
    def place(self) -> Place:
        """The record that holds it."""
        return self.report.topic, self.report.partition, self.offset

    @property
    def is_rejected(self) -> bool:
        """Whether the decoder rejects it."""
        return self.project_id is None

    def because(self, reason: str, *, project_exists: bool) -> Suspect:
        """Return the same span with what the API says of it."""
        return replace(self, reason=reason, project_exists=project_exists)

    def members(self) -> dict[str, Any]:
        """Return the span for programs."""
        return {
            "offset": self.offset,
            "span_index": self.span_index,
            "spans_count": self.spans_count,
            "trace_id": self.trace_id or None,
            "span_id": self.span_id or None,
            "project_id": None if self.project_id is None else str(self.project_id),
            "reason": self.reason,
        }


class Suspects:
    """The suspects of all partitions, by record."""

    def __init__(self) -> None:
        self._by_place: dict[Place, dict[int | None, Suspect]] = defaultdict(dict)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def are_many(self) -> bool:
        """Whether it is time to find out about them."""
        return self._count >= SUSPECTS_MAX

    def add(self, suspect: Suspect) -> None:
        """Add a suspect, or replace what is known of it."""
        of_record = self._by_place[suspect.place]
        self._count += suspect.span_index not in of_record
        of_record[suspect.span_index] = suspect

    def discard(self, suspect: Suspect) -> None:
        """Remove a suspect that was found, if it is one."""
        of_record = self._by_place.get(suspect.place)
        if of_record is not None and of_record.pop(suspect.span_index, None) is not None:
            self._count -= 1

    def to_recheck(self) -> Mapping[tuple[UUID, str, int], list[Suspect]]:
        """Return those that may be found when they are looked for again, by project and partition."""
        found: dict[tuple[UUID, str, int], list[Suspect]] = defaultdict(list)
        for suspect in self._all():
            if suspect.project_id is not None and suspect.project_exists:
                found[suspect.project_id, suspect.report.topic, suspect.report.partition].append(suspect)
        return found

    async def strike_out_dead_letters(self, log: KafkaLog, topic: str) -> bool:
        """Count suspects that are dead-lettered, and remove them; return whether the topic still has its beginning.

        Raises ``Unavailable``.
        """
        extent = await log.extent(topic)
        async with aclosing(log.read_ranges(topic, extent)) as reading:
            async for records in reading:
                for record in records:
                    self._strike_out(record)
        return all(offsets.start == 0 for offsets in extent.values())

    def settle(self, *, is_whole_topic: bool) -> None:
        """Count all others, and forget them. Without the beginning of the topic of dead letters, what the decoder
        rejects counts as dead-lettered."""
        for suspect in self._all():
            report, count = suspect.report, suspect.spans_count
            if suspect.is_rejected and not is_whole_topic:
                report.dead_lettered += count
            elif not suspect.project_exists:
                report.deleted += count
            else:
                report.missing += count
                if len(report.named) < NAMED_MAX:
                    report.named.append(suspect)
        self._by_place.clear()
        self._count = 0

    def _all(self) -> Iterator[Suspect]:
        for of_record in self._by_place.values():
            yield from of_record.values()

    def _strike_out(self, record: Record) -> None:
        topic = (record.header(TOPIC_HEADER) or b"").decode("utf-8", "replace")
        place = topic, _number(record, PARTITION_HEADER), _number(record, OFFSET_HEADER)
        of_record = self._by_place.get(place)
        if not of_record or _number(record, TIMESTAMP_HEADER) != next(iter(of_record.values())).record_ms:
            return  # of a record that had this offset in an earlier broker
        span_index, span_count = _number(record, SPAN_INDEX_HEADER), _number(record, SPAN_COUNT_HEADER)
        if span_index >= 0:
            self._dead_lettered(suspect for suspect in [of_record.get(span_index)] if suspect is not None)
        elif span_count < 0:
            self._dead_lettered([*of_record.values()])
        else:
            left, shared = span_count, []
            for suspect in sorted(of_record.values(), key=lambda each: not each.is_rejected):
                if suspect.spans_count <= left:
                    left -= suspect.spans_count
                    shared.append(suspect)
            self._dead_lettered(shared)

    def _dead_lettered(self, suspects: Iterable[Suspect]) -> None:
        for suspect in [*suspects]:
            suspect.report.dead_lettered += suspect.spans_count
            self.discard(suspect)


def _number(record: Record, name: str) -> int:
    """Return the number in a header; -1 without one."""
    text = record.header(name) or b""
    return int(text) if text.isdigit() and len(text) < 20 else -1
