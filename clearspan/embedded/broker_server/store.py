"""Topics and their partitions on disk, what is deleted, and who waits for space.

Records of the topics that the worker reads are kept until its group has committed them, and then for as long as all
records take less than half of the disk space that is allowed. Other topics keep what their ``retention.ms`` says, and
at most an eighth of that space, unless it is -1.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clearspan.embedded.broker_server.groups import Offsets
from clearspan.embedded.broker_server.messages import Error
from clearspan.embedded.broker_server.partition import BatchRefused, PartitionLog, Segment

MIB: Final = 1024 * 1024
PARTITIONS_MAX: Final = 2_000
"""Of all topics together: each partition is a file that is open."""

DEFAULT_PARTITIONS: Final = 1
MESSAGE_BYTES_MAX: Final = 1_048_588
RETENTION_MS: Final = 7 * 24 * 3_600_000
CONFIGS: Final = ("max.message.bytes", "retention.ms")
_TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where records are stored, and for how long."""

    directory: Path
    bytes_max: int
    """Disk space of the records, except those of topics that are kept forever."""
    group: str
    """The worker's group."""
    topics: frozenset[str]
    """The topics that the worker reads."""

    @property
    def segment_bytes(self) -> int:
        """How large a segment grows: a file is deleted at once."""
        return max(MIB, min(self.bytes_max // 64, 64 * MIB))


class TopicRefused(Exception):
    """A change of a topic that is not made, and the error code that says why."""

    def __init__(self, error: Error, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(slots=True)
class Topic:
    """A topic; its id tells it from an earlier one of the same name."""

    name: str
    id: uuid.UUID
    configs: dict[str, int]
    partitions: list[PartitionLog] = field(default_factory=list)

    @property
    def message_bytes_max(self) -> int:
        """The largest batch that is stored."""
        return self.configs.get("max.message.bytes", MESSAGE_BYTES_MAX)

    @property
    def retention_ms(self) -> int:
        """How long records are kept that the worker does not read; -1 is forever."""
        return self.configs.get("retention.ms", RETENTION_MS)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(partition.size for partition in self.partitions)


class Store:
    """All topics of a directory, which one process uses at a time."""

    def __init__(self, settings: StoreSettings) -> None:
        """Read what is on disk. Blocks."""
        self._settings = settings
        self._file = settings.directory / "topics.json"
        settings.directory.mkdir(parents=True, exist_ok=True)
        known = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.cluster_id = str(known.get("cluster_id", uuid.uuid4()))
        self._next_producer_id = int(known.get("next_producer_id", 0))
        self.topics: dict[str, Topic] = {}
        for name, about in known.get("topics", {}).items():
            self.topics[name] = Topic(name, uuid.UUID(about["id"]), about["configs"])
            self._add_partitions(self.topics[name], about["partitions"])
        self._remove_deleted()
        self.offsets = Offsets(settings.directory / "offsets.jsonl", lambda *at: self.partition(*at) is not None)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._granted = 0
        self._used = 0
        self._write()
        self.delete_old()

    def partition(self, topic: str, index: int) -> PartitionLog | None:
        """Return a partition, or ``None`` if there is none."""
        known = self.topics.get(topic)
        return known.partitions[index] if known and 0 <= index < len(known.partitions) else None

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str | None], *, validate: bool) -> None:
        """Create a topic; only check whether it could be if ``validate``. Raises ``TopicRefused``, ``OSError``."""
        if not _TOPIC_NAME.fullmatch(name or ""):
            raise TopicRefused(Error.INVALID_TOPIC, f"{name!r} is no name: 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'.")
        if name in self.topics:
            raise TopicRefused(Error.TOPIC_ALREADY_EXISTS, f"The topic {name} exists.")
        count = DEFAULT_PARTITIONS if partitions == -1 else partitions
        self._require_free_partitions(count)
        try:
            numbers = {key: int(value or "") for key, value in configs.items() if key in CONFIGS}
        except ValueError:
            raise TopicRefused(Error.INVALID_CONFIG, f"{' and '.join(CONFIGS)} are integers.") from None
        if not validate:
            self.topics[name] = Topic(name, uuid.uuid4(), numbers)
            self._add_partitions(self.topics[name], count)
            self._write()

    def grow_topic(self, name: str, count: int, *, validate: bool) -> None:
        """Raise the number of partitions. Raises ``TopicRefused``, ``OSError``."""
        topic = self.topics.get(name)
        if topic is None:
            raise TopicRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
        if count <= len(topic.partitions):
            raise TopicRefused(Error.INVALID_PARTITIONS, f"{name} has {len(topic.partitions)} partitions already.")
        self._require_free_partitions(count - len(topic.partitions))
        if not validate:
            self._add_partitions(topic, count)
            self._write()

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and offsets. Raises ``TopicRefused``, ``OSError``."""
        topic = self.topics.pop(name, None)
        if topic is None:
            raise TopicRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
        self._write()
        self.offsets.forget_topic(name)
        for partition in topic.partitions:
            partition.delete()
        self._directory(topic).rmdir()
        self.delete_old()

    def new_producer_id(self) -> int:
        """Return an id that no producer has had."""
        self._next_producer_id += 1
        self._write()
        return self._next_producer_id

    def append(self, name: str, index: int, data: memoryview) -> tuple[int, int]:
        """Append a batch; return the offset of its first record, and the first of the partition.

        Raises ``BatchRefused``.
        """
        topic, partition = self.topics.get(name), self.partition(name, index)
        if topic is None or partition is None:
            raise BatchRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {name}/{index}.")
        try:
            offset = partition.append(data, bytes_max=topic.message_bytes_max)
        except OSError as exc:
            raise BatchRefused(Error.KAFKA_STORAGE_ERROR, f"The records cannot be stored: {exc}.") from exc
        self._used += len(data) if self._is_counted(topic) else 0
        return offset, partition.first_offset

    async def reserve(self, size: int, *, timeout_s: float) -> bool:
        """Wait in order until ``size`` bytes are free; return false if they are not in time.

        The space has to be given back by ``release``, after the records are appended or refused.
        """
        if not self._waiting and self._has_space(size):
            self._granted += size
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except TimeoutError:
            return _is_granted(turn)  # both may come in the same moment
        except asyncio.CancelledError:
            if _is_granted(turn):
                self.release(size)
            raise
        finally:
            if not _is_granted(turn):
                self._waiting = deque(entry for entry in self._waiting if entry[1] is not turn)
            self._admit_waiting()
        return True

    @property
    def full_message(self) -> str:
        """Why there is no space."""
        return (
            f"The records that the worker has not stored yet take all of the {self._settings.bytes_max} bytes that "
            "CLEARSPAN_EMBEDDED_BROKER_BYTES_MAX allows."
        )

    def release(self, size: int) -> None:
        """Give back what was reserved; what was appended of it counts as used."""
        self._granted -= size

    def delete_old(self) -> None:
        """Delete what is no longer kept, and let producers append that wait for space. Blocks for some file deletions.

        To be called after commits, and from time to time.
        """
        now_s = time.time()
        for topic in self.topics.values():
            if topic.name not in self._settings.topics:
                self._expire(topic, now_s)
        self._used = sum(topic.size for topic in self.topics.values() if self._is_counted(topic))
        wanted = self._waiting[0][0] if self._waiting else 0
        while self._used + wanted > self._settings.bytes_max // 2 and (oldest := self._oldest_committed()) is not None:
            self._used += oldest.size
            oldest.delete_oldest()
            self._used -= oldest.size
        self._admit_waiting()

    def unsynced(self) -> list[Segment]:
        """Return the segments that have to be synced."""
        return [segment for partition in self._partitions() for segment in partition.take_unsynced()]

    def close(self) -> None:
        """Sync everything. Blocks."""
        for segment in self.unsynced():
            segment.sync()
        self.offsets.close()

    def _partitions(self) -> Iterator[PartitionLog]:
        return (partition for topic in self.topics.values() for partition in topic.partitions)

    def _is_counted(self, topic: Topic) -> bool:
        return topic.name in self._settings.topics or topic.retention_ms != -1

    def _has_space(self, size: int) -> bool:
        return self._used + self._granted + size <= self._settings.bytes_max

    def _admit_waiting(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._has_space(self._waiting[0][0])):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._granted += size
                turn.set_result(None)

    def _oldest_committed(self) -> PartitionLog | None:
        """Return the partition whose oldest segment is the oldest of those that the worker has committed."""
        settings = self._settings
        candidates = []
        for topic in self.topics.values():
            for index, partition in enumerate(topic.partitions if topic.name in settings.topics else ()):
                committed = self.offsets.get(settings.group, topic.name, index)
                if committed is None:
                    continue
                if committed.offset >= partition.end:
                    partition.roll()
                oldest = partition.oldest_until()
                if oldest is not None and oldest[0] <= committed.offset:
                    candidates.append((oldest[1], partition))
        return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None

    def _expire(self, topic: Topic, now_s: float) -> None:
        if topic.retention_ms == -1:
            return
        bytes_max = self._settings.bytes_max // 8 // max(len(topic.partitions), 1)
        written_after_s = now_s - topic.retention_ms / 1_000
        for partition in topic.partitions:
            partition.roll_if_older(written_after_s)
            while (oldest := partition.oldest_until()) is not None and (
                oldest[1] < written_after_s or partition.size > bytes_max
            ):
                partition.delete_oldest()

    def _require_free_partitions(self, count: int) -> None:
        if count < 1:
            raise TopicRefused(Error.INVALID_PARTITIONS, f"A topic has at least 1 partition, not {count}.")
        if sum(1 for _ in self._partitions()) + count > PARTITIONS_MAX:
            raise TopicRefused(
                Error.INVALID_PARTITIONS, f"All topics together have at most {PARTITIONS_MAX} partitions."
            )

    def _directory(self, topic: Topic) -> Path:
        return self._settings.directory / str(topic.id)

    def _add_partitions(self, topic: Topic, count: int) -> None:
        for index in range(len(topic.partitions), count):
            directory = self._directory(topic) / str(index)
            topic.partitions.append(PartitionLog(directory, segment_bytes=self._settings.segment_bytes))

    def _remove_deleted(self) -> None:
        """Remove the directories of topics whose deletion was interrupted."""
        known = {str(topic.id) for topic in self.topics.values()}
        for directory in self._settings.directory.iterdir():
            if directory.is_dir() and directory.name not in known:
                shutil.rmtree(directory)

    def _write(self) -> None:
        topics: dict[str, Any] = {
            topic.name: {"id": str(topic.id), "configs": topic.configs, "partitions": len(topic.partitions)}
            for topic in self.topics.values()
        }
        known = {"cluster_id": self.cluster_id, "next_producer_id": self._next_producer_id, "topics": topics}
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(known))
        fresh.replace(self._file)


def _is_granted(turn: asyncio.Future[None]) -> bool:
    return turn.done() and not turn.cancelled()


def sync_all(segments: Sequence[Segment]) -> None:
    """Sync segments; one that was deleted meanwhile needs it no more. Blocks."""
    for segment in segments:
        try:
            segment.sync()
        except OSError:
            if segment.path.exists():
                raise
