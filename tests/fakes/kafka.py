"""A broker in memory: records, consumer groups, committed offsets, eager rebalances, and failures on demand.

Passes the same battery as the real ones (``tests/contract/test_record_source.py``).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

from common.errors import ServiceError, TooLarge, Unavailable
from common.kafka.record import Coordinates, Header, LostPartition, Partition, Rebalanced, Record
from query_api.intake.records import partition_of


class MemoryBroker:
    """One cluster. Each call takes one item of its faults and raises it; ``None`` lets the call through."""

    def __init__(self, *, partitions: int = 2, message_bytes_max: int = 12 * 1024 * 1024) -> None:
        self.cluster_id = "memory"
        self.publish_faults: deque[ServiceError | None] = deque()
        self.commit_faults: deque[ServiceError | None] = deque()
        self.poll_faults: deque[ServiceError | None] = deque()
        self.tail_faults: deque[ServiceError | None] = deque()
        self.journal: list[str] = []
        self.now_ms = 1_760_000_000_000
        self.is_asked = True
        self._partitions = partitions
        self._message_bytes_max = message_bytes_max
        self._logs: dict[Partition, list[Record]] = {}
        self._groups: dict[str, _Group] = {}
        self._round_robin = itertools.count()
        self._arrived = asyncio.Condition()

    def source(self, *topics: str, group: str = "g") -> MemorySource:
        """Return a member that has not joined yet."""
        return MemorySource(self, group, topics)

    def ends(self, *topics: str) -> MemoryEndOffsets:
        """Return the end offsets of these topics."""
        return MemoryEndOffsets(self, topics)

    def publisher(self) -> MemoryPublisher:
        return MemoryPublisher(self)

    def records(self, topic: str) -> list[Record]:
        """Return all records of a topic, partition by partition."""
        return [record for partition in self.partitions_of(topic) for record in self.log(partition)]

    def committed(self, *, group: str = "g") -> dict[Partition, int]:
        return dict(self._group(group).committed)

    def partitions_of(self, topic: str) -> list[Partition]:
        return [Partition(topic, number) for number in range(self._partitions)]

    def log(self, partition: Partition) -> list[Record]:
        return self._logs.setdefault(partition, [])

    async def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Coordinates:
        if partition is None:
            partition = (
                next(self._round_robin) % self._partitions if key is None else partition_of(key, self._partitions)
            )
        log = self.log(Partition(topic, partition))
        log.append(Record(topic, partition, len(log), self.now_ms, key, value, tuple(headers)))
        async with self._arrived:
            self._arrived.notify_all()
        return Coordinates(topic, partition, len(log) - 1)

    async def _publish(
        self, topic: str, value: bytes, key: bytes | None, headers: Sequence[Header], partition: int | None
    ) -> Coordinates:
        _raise_next(self.publish_faults)
        if len(value) > self._message_bytes_max:
            raise TooLarge(f"{len(value)} bytes")
        self.journal.append(f"publish {topic}")
        return await self.append(topic, value, key=key, headers=headers, partition=partition)

    async def read(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        ends = {each: len(self.log(each)) for each in self.partitions_of(topic)}
        for partition, end in ends.items():
            if end:
                yield self.log(partition)[:end]

    async def tail(self, topic: str) -> AsyncIterator[Sequence[Record]]:
        read = {each: len(self.log(each)) for each in self.partitions_of(topic)}
        chunk: list[Record] = []
        while True:
            yield chunk
            async with self._arrived:
                await self._arrived.wait()
            _raise_next(self.tail_faults)
            chunk = [record for each, at in read.items() for record in self.log(each)[at:]]
            read = {each: len(self.log(each)) for each in read}

    async def extent(self, topic: str) -> Mapping[int, range]:
        return {each.partition: range(len(self.log(each))) for each in self.partitions_of(topic)}

    async def read_ranges(self, topic: str, ranges: Mapping[int, range]) -> AsyncIterator[Sequence[Record]]:
        for number, offsets in ranges.items():
            await asyncio.sleep(0)
            if records := self.log(Partition(topic, number))[offsets.start : offsets.stop]:
                yield records

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    async def _rebalance(self, group: _Group) -> None:
        """Eager: every member revokes all partitions, then gets its new share."""
        async with group.moving:
            for member in group.members:
                await member.let_go()
            group.generation += 1
            partitions = [each for topic in sorted(group.topics) for each in self.partitions_of(topic)]
            for at, member in enumerate(group.members):
                await member.take_over(frozenset(partitions[at :: len(group.members)]), group)


class _Group:
    def __init__(self) -> None:
        self.members: list[MemorySource] = []
        self.committed: dict[Partition, int] = {}
        self.generation = 0
        self.moving = asyncio.Lock()

    @property
    def topics(self) -> set[str]:
        return {topic for member in self.members for topic in member.topics}


class MemorySource:
    """A ``RecordSource`` of the broker in memory."""

    def __init__(self, broker: MemoryBroker, group: str, topics: Sequence[str]) -> None:
        self.topics = topics
        self.polls_count = 0
        self._broker = broker
        self._group = broker._group(group)
        self._positions: dict[Partition, int] = {}
        self._generation = -1
        self._is_paused = False
        self._paused: set[Partition] = set()
        self._callbacks: tuple[Rebalanced, Rebalanced] | None = None

    async def open(self, *, on_revoked: Rebalanced, on_assigned: Rebalanced) -> None:
        await self.close()
        self._callbacks = (on_revoked, on_assigned)
        self._group.members.append(self)
        await self._broker._rebalance(self._group)

    async def poll(self, *, timeout_s: float, records_max: int) -> Sequence[Record]:
        self.polls_count += 1
        _raise_next(self._broker.poll_faults)
        records = self._take(records_max)
        if records or not timeout_s:
            return records
        try:
            async with asyncio.timeout(timeout_s), self._broker._arrived:
                while not (records := self._take(records_max)):
                    await self._broker._arrived.wait()
        except TimeoutError:
            return []
        return records

    def pause(self, *partitions: Partition) -> None:
        if partitions:
            self._paused |= {*partitions} & self._positions.keys()
        else:
            self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def paused_partitions(self) -> frozenset[Partition]:
        """The partitions that were paused by name."""
        return frozenset(self._paused)

    async def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        _raise_next(self._broker.commit_faults)
        if not next_offsets:
            return
        if self._generation != self._group.generation or next_offsets.keys() - self._positions.keys():
            raise LostPartition
        self._group.committed.update(next_offsets)
        self._broker.journal.append("commit")

    async def lag(self) -> Mapping[Partition, int]:
        if self._callbacks is None:
            raise Unavailable("The source is not open.")
        return {each: len(self._broker.log(each)) - at for each, at in self._positions.items()}

    def partition_id_of(self, partition: Partition) -> str:
        return f"{self._broker.cluster_id}/{partition.topic}/{partition.partition}"

    async def close(self) -> None:
        if self._callbacks is None:
            return
        self._callbacks = None
        self._positions = {}
        self._paused = set()
        if self in self._group.members:  # else the group has given it up
            self._group.members.remove(self)
            await self._broker._rebalance(self._group)

    async def expire(self) -> None:
        """Let the group reassign its partitions without its consent, as after a session timeout."""
        callbacks, self._callbacks = self._callbacks, None
        self._group.members.remove(self)
        await self._broker._rebalance(self._group)
        self._callbacks = callbacks

    async def let_go(self) -> None:
        revoked = frozenset(self._positions)
        if self._callbacks is not None and revoked:
            await self._callbacks[0](revoked)
        self._positions = {}
        self._paused = set()

    async def take_over(self, partitions: frozenset[Partition], group: _Group) -> None:
        self._generation = group.generation
        self._positions = {each: group.committed.get(each, 0) for each in sorted(partitions)}
        if self._callbacks is not None:
            await self._callbacks[1](partitions)

    def _take(self, records_max: int) -> list[Record]:
        if self._is_paused or self._group.moving.locked():
            return []
        taken: list[Record] = []
        for partition, position in self._positions.items():
            if partition not in self._paused:
                chunk = self._broker.log(partition)[position : position + records_max - len(taken)]
                self._positions[partition] += len(chunk)
                taken += chunk
        return taken


class MemoryPublisher:
    """A ``Publisher`` of the broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Coordinates:
        return await self._broker._publish(topic, value, key, headers, partition)

    def partitions_count(self, topic: str) -> int | None:
        return self._broker._partitions if self._broker.is_asked else None

    async def close(self) -> None:
        """Nothing to close."""


class MemoryEndOffsets:
    """``EndOffsets`` of the broker in memory. Each call takes one item of ``faults``; ``None`` lets it through."""

    def __init__(self, broker: MemoryBroker, topics: Sequence[str]) -> None:
        self.faults: deque[ServiceError | None] = deque()
        self.asked_count = 0
        self._broker = broker
        self._topics = topics

    async def ask(self) -> Mapping[str, int]:
        self.asked_count += 1
        await asyncio.sleep(0)
        _raise_next(self.faults)
        partitions = [each for topic in self._topics for each in self._broker.partitions_of(topic)]
        return {
            f"{self._broker.cluster_id}/{each.topic}/{each.partition}": len(self._broker.log(each))
            for each in partitions
        }

    async def close(self) -> None:
        """Nothing to close."""


def _raise_next(faults: deque[ServiceError | None]) -> None:
    fault = faults.popleft() if faults else None
    if fault is not None:
        raise fault
