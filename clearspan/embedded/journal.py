"""Dead letters on disk: the embedded broker forgets its records when it ends, but no rejected span may be lost.

A dead letter is written here before it is published, so before the offset of its record is committed. The next broker
gets those that were neither replayed nor dropped. With a real Kafka the topic itself is durable.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pydantic import ConfigDict, TypeAdapter

from common.errors import ServiceError, Unavailable
from common.fair_share import shielded
from common.kafka.record import Coordinates, Header, Publisher
from common.telemetry import get_logger
from ingest.dead_letter import BulkPublisher, DeadLetterMessage

_JSON: Final = TypeAdapter(
    DeadLetterMessage,
    config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", hide_input_in_errors=True),
)

_log = get_logger(__name__)


class Entry(NamedTuple):
    """A dead letter of the journal, and the position after it in bytes."""

    dead_letter: DeadLetterMessage
    end: int


class Journal:
    """A file with one line of JSON per dead letter, oldest first.

    A dead letter that cannot be written or read is logged and left out; it does not affect the others.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, dead_letters: Iterable[DeadLetterMessage]) -> None:
        """Append dead letters and sync; remove a last line that a crash or a full disk has cut off."""
        with self._path.open("ab+") as file:
            file.truncate(_whole_bytes(file))
            file.writelines(_lines(dead_letters))
            file.flush()
            os.fsync(file.fileno())

    async def replace(self, dead_letters: AsyncIterable[DeadLetterMessage]) -> None:
        """Replace the content atomically; if it fails, the journal stays as it is."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            async for dead_letter in dead_letters:
                await asyncio.to_thread(file.writelines, _lines([dead_letter]))
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        fresh.replace(self._path)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._path.stat().st_size if self._path.exists() else 0

    def dead_letters(self, *, start: int = 0, end: int | None = None) -> Iterator[Entry]:
        """Yield the dead letters between two positions, by default all.

        A last line that was cut off is left out: it was never published, so its offset was not committed.
        """
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            at = file.seek(start)
            for line in file:
                at += len(line)
                if (end is not None and at > end) or not line.endswith(b"\n"):
                    return
                if (dead_letter := _dead_letter(line)) is not None:
                    yield Entry(dead_letter, at)


class JournallingPublisher:
    """A ``Publisher`` that writes dead letters to the journal before it publishes them, concurrent ones together."""

    def __init__(self, publisher: Publisher, journal: Journal, *, topic: str) -> None:
        self._publisher = publisher
        self._journal = journal
        self._topic = topic
        self._waiting: list[DeadLetterMessage] = []
        self._next_write: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> Coordinates:
        """Publish. Raises ``Unavailable`` (transient), also if the journal cannot be written.

        A dead letter that is published again after a failure is journalled again, and listed once.
        """
        if topic == self._topic:
            await self._write(DeadLetterMessage(value, key, tuple(headers)))
        return await self._publisher.publish(topic, value, key=key, headers=headers, partition=partition)

    def partitions_count(self, topic: str) -> int | None:
        """Return how many partitions the topic had when the broker was asked last."""
        return self._publisher.partitions_count(topic)

    async def close(self) -> None:
        """Close the publisher."""
        await self._publisher.close()

    async def _write(self, dead_letter: DeadLetterMessage) -> None:
        """Write with the dead letters that arrive while an earlier write is running."""
        self._waiting.append(dead_letter)
        self._next_write = self._next_write or asyncio.create_task(self._write_waiting(), name="write-journal")
        await shielded(self._next_write)

    async def _write_waiting(self) -> None:
        async with self._writing:
            dead_letters, self._waiting, self._next_write = self._waiting, [], None
            try:
                await asyncio.to_thread(self._journal.append, dead_letters)
            except Exception as exc:  # the callers retry, whatever it is
                raise Unavailable(f"The journal of dead letters cannot be written: {exc}.") from exc


class CarryOver:
    """Publishes what the journal holds now to a new broker, in bulk and in the background."""

    def __init__(self, journal: Journal, bulk: BulkPublisher) -> None:
        self._journal = journal
        self._bulk = bulk
        self._end = journal.size
        self._carried = 0

    async def run(self) -> None:
        """Return when all are acknowledged. A failure is logged: the dead letters are still in the journal."""
        entries = self._journal.dead_letters(end=self._end)
        try:
            while (entry := await asyncio.to_thread(next, entries, None)) is not None:
                if await self._bulk.add(entry.dead_letter):
                    self._carried = entry.end
            await self._bulk.flush()
        except* (ServiceError, OSError) as failed:
            reasons = ", ".join(str(failure) for failure in failed.exceptions)
            _log.error("Some dead letters were not published again; the next start retries.", error=reasons)
        else:
            self._carried = self._end

    def left(self) -> Iterator[DeadLetterMessage]:
        """Yield the dead letters that were not acknowledged; after a cancellation of ``run``, too."""
        return (entry.dead_letter for entry in self._journal.dead_letters(start=self._carried, end=self._end))


def _whole_bytes(file: BinaryIO) -> int:
    """Return the length of the whole lines: usually the size of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read() in (b"", b"\n"):
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def _lines(dead_letters: Iterable[DeadLetterMessage]) -> Iterator[bytes]:
    for dead_letter in dead_letters:
        try:
            yield _JSON.dump_json(dead_letter, warnings="error") + b"\n"
        except Exception as exc:  # noqa: BLE001 - one dead letter must not stop the others, or the process
            _log.error("Could not write a dead letter to the journal.", error=repr(exc), bytes=len(dead_letter.value))


def _dead_letter(line: bytes) -> DeadLetterMessage | None:
    try:
        return _JSON.validate_json(line)
    except ValueError as exc:
        _log.error("Skipped a line of the dead-letter journal that cannot be read.", error=repr(exc))
        return None
