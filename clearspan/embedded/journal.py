"""Dead letters on disk: the embedded broker forgets everything when it ends, and what was rejected must not go with it.

A letter is written here before it is published, so before the offsets behind it are committed. The next broker is given what
was not dealt with. With a real Kafka the topic itself is the journal.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from common.errors import Unavailable
from common.kafka.record import Coordinates, Header, Publisher
from common.telemetry import get_logger
from ingest.dead_letter import DeadLetterMessage

_log = get_logger(__name__)


class Entry(NamedTuple):
    """A letter of the journal, and the byte behind it."""

    letter: DeadLetterMessage
    end: int


class Journal:
    """One line of JSON a letter, oldest first. A letter that cannot be written or read costs itself alone, and the log says so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, letters: Iterable[DeadLetterMessage]) -> None:
        """Return when the letters are on disk; what a crash or a full disk has cut short before them makes way."""
        with self._path.open("ab+") as file:
            file.truncate(_whole_bytes(file))
            file.writelines(_lines(letters))
            file.flush()
            os.fsync(file.fileno())

    async def replace(self, letters: AsyncIterable[DeadLetterMessage]) -> None:
        """Hold these letters and no others, in one step; a failure on the way leaves it as it was."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            async for letter in letters:
                await asyncio.to_thread(file.writelines, _lines([letter]))
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        fresh.replace(self._path)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._path.stat().st_size if self._path.exists() else 0

    def letters(self, *, start: int = 0, end: int | None = None) -> Iterator[Entry]:
        """The letters between two bytes, all of them by default, one at a time. A last line that a crash has cut short was never
        published, so its offset was not committed."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            at = file.seek(start)
            for line in file:
                at += len(line)
                if (end is not None and at > end) or not line.endswith(b"\n"):
                    return
                if (letter := _letter(line)) is not None:
                    yield Entry(letter, at)


class JournallingPublisher:
    """A ``Publisher`` that writes letters down before it publishes them; those that come together are written together."""

    def __init__(self, publisher: Publisher, journal: Journal, *, topic: str) -> None:
        self._publisher = publisher
        self._journal = journal
        self._topic = topic
        self._waiting: list[tuple[DeadLetterMessage, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
    ) -> Coordinates:
        """As the publisher behind it. A letter that is tried again is written down again, and listed once.

        Raises ``Unavailable`` (transient) too where the disk takes nothing.
        """
        if topic == self._topic:
            await self._write(DeadLetterMessage(value, key, tuple(headers)))
        return await self._publisher.publish(topic, value, key=key, headers=headers)

    async def close(self) -> None:
        """Close the publisher behind it."""
        await self._publisher.close()

    async def _write(self, letter: DeadLetterMessage) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((letter, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_waiting(), name="write-journal")
        await written

    async def _write_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting, []
            failure: Unavailable | None = None
            try:
                await asyncio.to_thread(self._journal.append, [letter for letter, _ in taken])
            except Exception as exc:  # noqa: BLE001 - who waits tries again, whatever it is
                failure = Unavailable(f"The journal of dead letters cannot be written: {exc}.")
            for _, written in taken:
                if written.cancelled():
                    continue
                if failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(failure)
        self._writing = None


def _whole_bytes(file: BinaryIO) -> int:
    """How many bytes of the file are whole lines: mostly all of them, as its last byte tells."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read() in (b"", b"\n"):
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def _lines(letters: Iterable[DeadLetterMessage]) -> Iterator[bytes]:
    for letter in letters:
        try:
            yield _line(letter)
        except Exception as exc:  # noqa: BLE001 - whatever it is, one letter must not stop the others, or the process
            _log.error("A dead letter cannot be kept for the next start.", error=repr(exc), bytes=len(letter.value))


def _line(letter: DeadLetterMessage) -> bytes:
    members = {
        "value": _text(letter.value),
        "key": _text(letter.key),
        "headers": [[name, _text(value)] for name, value in letter.headers],
    }
    return json.dumps(members).encode() + b"\n"


def _letter(line: bytes) -> DeadLetterMessage | None:
    try:
        members = json.loads(line)
        headers = tuple((name, _raw(value)) for name, value in members["headers"])
        return DeadLetterMessage(_raw(members["value"]) or b"", _raw(members["key"]), headers)
    except (ValueError, KeyError, TypeError) as exc:
        _log.error("A line of the journal of dead letters cannot be read; it is left out.", error=repr(exc))
        return None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _raw(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
