"""Records with their headers, coordinates, and the interfaces that brokers implement.

No type of the driver leaves this package. ``next_offset`` is the only place that computes "offset + 1".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from common.errors import ErrorCode, ServiceError


class Encoding(StrEnum):
    """How the value of a record is encoded unless its header ``content-type`` says otherwise (contract §4)."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    SPAN_JSON = "span_json"


class Signal(StrEnum):
    """What the records of a topic hold (contract §4, §4.1)."""

    TRACES = "traces"
    LOGS = "logs"


PROJECT_HEADER: Final = "project-id"
CONTENT_TYPE_HEADER: Final = "content-type"
UNREAD_BATCH_HEADER: Final = "clearspan-unread-batch"
"""Of a record that stands for a whole batch that is too large to be read; its value says so."""
"""The headers with the project and the encoding of a record: intake writes them, the worker reads them (contract §4).
"""

CONTENT_TYPES: Final[Mapping[Encoding, str]] = {
    Encoding.OTLP_PROTO: "application/x-protobuf",
    Encoding.OTLP_JSON: "application/json",
    Encoding.SPAN_JSON: "application/vnd.clearspan.span+json",
}
ENCODINGS: Final[Mapping[str, Encoding]] = {content_type: encoding for encoding, content_type in CONTENT_TYPES.items()}


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


Header: TypeAlias = tuple[str, bytes | None]
"""Name and value of a header; Kafka allows a null value."""


class Record(NamedTuple):
    """One record. ``value`` is ``None`` for a tombstone; ``timestamp_ms`` is the record's own, in ms since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def source(self) -> Partition:
        """The partition of the record."""
        return Partition(self.topic, self.partition)

    @property
    def next_offset(self) -> int:
        """The offset to commit once this record is done."""
        return self.offset + 1

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header of this name; ``None`` if there is none or its value is null."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


class LostPartition(ServiceError):
    """Another member of the group owns the partition now and reads it from the committed offset."""

    code = ErrorCode.CONFLICT
    transient = True


class TopicReplaced(LostPartition):
    """A topic was deleted and created again while its records were read: its offsets now mean other records."""


class GapCause(StrEnum):
    """Why records of a partition cannot be read any more."""

    DELETED = "deleted"
    TRUNCATED = "truncated"
    CREATED_AGAIN = "created_again"


class Gap(NamedTuple):
    """Offsets of a partition that Kafka no longer holds, from ``first_offset`` to before ``end_offset``.

    ``end_offset`` is ``None`` if it is unknown; so is a ``topic_id`` that is empty.
    """

    partition: Partition
    first_offset: int
    end_offset: int | None
    cause: GapCause
    topic_id: str = ""

    @property
    def records_count(self) -> int:
        """How many offsets were never read, as far as it is known; those of a truncated log were read before."""
        if self.cause is not GapCause.DELETED or self.end_offset is None:
            return 0
        return self.end_offset - self.first_offset

    def in_words(self) -> str:
        """Say what is missing, why, and from where the partition is read."""
        offsets = f"{self.first_offset:,} to {(self.end_offset or 1) - 1:,}"
        match self.cause:
            case GapCause.DELETED:
                return (
                    f"Kafka deleted the offsets {offsets} before they were read; reading goes on at"
                    f" {self.end_offset:,}. Is the retention of the topic long enough?"
                )
            case GapCause.TRUNCATED:
                return (
                    f"Kafka lost the offsets {offsets}, which were read before; new records take their place."
                    " The partition is read again from its first record."
                )
            case GapCause.CREATED_AGAIN:
                begin = f", from offset {self.first_offset:,} on," if self.first_offset else ""
                return (
                    "The topic was deleted and created again; it is read from its first record. Records of the deleted"
                    f" topic{begin} are lost unless a worker had read them."
                )


ReportGap: TypeAlias = Callable[[Gap], None]


class Coordinates(NamedTuple):
    """Where a published record is."""

    topic: str
    partition: int
    offset: int


Rebalanced: TypeAlias = Callable[[frozenset[Partition]], Awaitable[None]]


class RecordSource(Protocol):
    """A member of one consumer group.

    Raises ``Unavailable`` (transient) if the broker is down. Only ``commit`` moves offsets. A rebalance revokes all
    partitions of a member and assigns a new set, each read from its committed offset.
    """

    async def open(self, *, on_revoked: Rebalanced, on_assigned: Rebalanced) -> None:
        """Join the group. ``on_revoked`` is awaited before the partitions go to another member."""
        ...

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        """Return records in offset order per partition; none if ``timeout_s`` passes, or while all is paused.

        Raises ``TopicReplaced``: flush what was returned before, then open the source again.
        """
        ...

    def pause(self, *partitions: Partition) -> None:
        """Stop returning records of these partitions, or of all if none is named; ``poll`` keeps the membership alive.

        A pause of named partitions lasts until they are revoked.
        """
        ...

    def resume(self) -> None:
        """Return records again, except of partitions that were paused by name."""
        ...

    async def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        """Commit and wait for the acknowledgement. Raises ``LostPartition`` if another member owns a partition."""
        ...

    async def lag(self) -> Mapping[Partition, int]:
        """Return the number of records between the position and the end of each assigned partition."""
        ...

    def partition_id_of(self, partition: Partition) -> str:
        """Return the id ``cluster id/topic id/topic/partition``.

        Offsets are compared only within one id. A cluster that replaces another one has another id, so its offset 0
        does not look older than the offset 5,000 of its predecessor. So has a topic that is created again (ADR 0027).
        """
        ...

    async def close(self) -> None:
        """Leave the group. Safe to call twice or before ``open``."""
        ...


class Publisher(Protocol):
    """Publishes records; acknowledged by all in-sync replicas."""

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Coordinates:
        """Publish and wait for the acknowledgement. Raises ``Unavailable`` (transient) or ``TooLarge``.

        The partition is chosen by Kafka's default partitioner if it is not given. If the topic does not have the given
        one, that is ``Unavailable``: the topic was created again.
        """
        ...

    def partitions_count(self, topic: str) -> int | None:
        """Return how many partitions the topic had when the broker was asked last; ``None`` before it was asked."""
        ...

    async def close(self) -> None:
        """Flush and leave. Safe to call twice."""
        ...


class RecordLog(Protocol):
    """Reads a topic outside of any group: it commits nothing and causes no rebalance."""

    def read(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Yield everything that was in the topic when the reading began, in chunks, in offset order per partition.

        Raises ``Unavailable`` (transient).
        """
        ...

    async def extent(self, topic: str) -> Mapping[int, range]:
        """Return the offsets that each partition holds now. Raises ``Unavailable`` (transient)."""
        ...

    def read_ranges(self, topic: str, ranges: Mapping[int, range]) -> AsyncIterator[Sequence[Record]]:
        """Yield the records at these offsets, by partition, in chunks, in offset order per partition.

        Offsets without a record are left out; the end of a range is at most the end of its partition. Raises
        ``Unavailable`` (transient).
        """
        ...

    def tail(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Yield what is published from now on, without end.

        The first chunk is empty and says that the reading has begun; others are empty while nothing arrives. Raises
        ``Unavailable`` (transient), also if there is no such topic yet or it was deleted and created again.
        """
        ...


class EndOffsets(Protocol):
    """Reads the end offsets of the topics that the worker reads."""

    async def ask(self) -> Mapping[str, int]:
        """Return the offset after the last record of each partition, by partition id.

        Every record that was acknowledged before the call has a lower offset. Raises ``Unavailable`` (transient).
        """
        ...

    async def close(self) -> None:
        """Close the connection. Safe to call twice."""
        ...
