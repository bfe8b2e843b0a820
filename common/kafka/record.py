"""Kafka in our words: records, coordinates, and the three small interfaces behind which brokers live.

No type of the driver leaves this folder. ``next_offset`` is the one home of “offset + 1”.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from common.errors import ErrorCode, ServiceError


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


Header: TypeAlias = tuple[str, bytes | None]
"""The name and the value of a header; Kafka allows a value to be null."""


class Record(NamedTuple):
    """One record as the broker gave it. ``value`` is ``None`` for a tombstone; ``timestamp_ms`` is the record's own."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def source(self) -> Partition:
        """The partition it came from."""
        return Partition(self.topic, self.partition)

    @property
    def next_offset(self) -> int:
        """What is committed once this record is settled."""
        return self.offset + 1

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name; ``None`` where there is none, or its value is null."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


class LostPartition(ServiceError):
    """The partition belongs to another member of the group by now; it will be read again from its committed offset."""

    code = ErrorCode.CONFLICT
    transient = True


class Coordinates(NamedTuple):
    """Where a published record ended up."""

    topic: str
    partition: int
    offset: int


Rebalanced: TypeAlias = Callable[[frozenset[Partition]], Awaitable[None]]


class RecordSource(Protocol):
    """A member of one consumer group.

    Raises ``Unavailable`` (transient) when the broker is away. Offsets move only by ``commit``. A rebalance takes all
    partitions of a member and gives it a new set, each read from its committed offset.
    """

    async def open(self, *, on_revoked: Rebalanced, on_assigned: Rebalanced) -> None:
        """Join the group. ``on_revoked`` is awaited before the partitions go to another member."""
        ...

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        """Records in offset order per partition; empty after a quiet ``timeout_s`` or while everything is paused."""
        ...

    def pause(self, *partitions: Partition) -> None:
        """Hand out nothing more of these, or of any when none is named; ``poll`` keeps the membership alive.

        A pause of named partitions lasts until they are revoked.
        """
        ...

    def resume(self) -> None:
        """Hand out records again, but for partitions that were paused by name."""
        ...

    async def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        """Commit; returns when the broker has acknowledged. Raises ``LostPartition`` when they belong to another member by now."""
        ...

    async def lag(self) -> Mapping[Partition, int]:
        """Records between the position and the end of each assigned partition."""
        ...

    def partition_id_of(self, partition: Partition) -> str:
        """The identity of the log behind a partition: ``cluster/topic/partition``.

        Offsets are compared only inside one log: a broker that was made anew (the embedded one, at each start) has
        another cluster id, so its offset 0 does not look older than the offset 5,000 of its predecessor.
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
    ) -> Coordinates:
        """Return when Kafka has acknowledged. Raises ``Unavailable`` (transient) or ``TooLarge``."""
        ...

    async def close(self) -> None:
        """Flush and leave. Safe to call twice."""
        ...


class RecordLog(Protocol):
    """Reads a topic without being a member of a group: nothing is committed, nobody is disturbed."""

    def read(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """Everything that was there when the reading began, in chunks, in offset order per partition.

        Raises ``Unavailable`` (transient).
        """
        ...

    async def fetch(self, where: Coordinates) -> Record | None:
        """The record at these coordinates, or ``None``. Raises ``Unavailable`` (transient)."""
        ...

    def tail(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        """What is published from now on, for as long as it is read. The first chunk is empty and says that it has begun;
        an empty one now and then says that all is quiet.

        Raises ``Unavailable`` (transient), also when there is no such topic yet or it has begun anew.
        """
        ...


class EndOffsets(Protocol):
    """Knows where the logs of the topics that are read end."""

    async def ask(self) -> Mapping[str, int]:
        """The offset behind the last record of each partition, by the identity of its log (``RecordSource.partition_id_of``).

        Everything that was acknowledged before the call lies below. Raises ``Unavailable`` (transient).
        """
        ...

    async def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        ...
