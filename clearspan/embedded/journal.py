"""Dead letters on disk: the embedded broker forgets everything when it ends, and what was refused must not go with it.

A letter is written here before it is published, so before the offsets behind it are committed. The next broker is given what
was not dealt with. With a real Kafka the topic itself is the journal.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from common.kafka.record import Coordinates, Publisher, Record


class Letter(NamedTuple):
    """What is published to the dead-letter topic."""

    value: bytes
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @staticmethod
    def of(record: Record) -> Letter:
        """The letter that a record of the topic is."""
        return Letter(record.value or b"", record.key, record.headers)


class Journal:
    """One line of JSON a letter, oldest first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, letter: Letter) -> None:
        """Return when the letter is on disk; what a crash or a full disk has cut short before it makes way."""
        with self._path.open("ab+") as file:
            file.truncate(_whole_bytes(file))
            file.write(_line(letter))
            file.flush()
            os.fsync(file.fileno())

    def replace(self, letters: Iterable[Letter]) -> None:
        """Hold these letters and no others, in one step."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(b"".join(map(_line, letters)))
        fresh.replace(self._path)

    def letters(self) -> list[Letter]:
        """All letters. A last line that a crash has cut short was never published, so its offset was not committed."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().split(b"\n")
        return [_letter(line) for line in lines[:-1]]


class JournallingPublisher:
    """A ``Publisher`` that writes letters down before it publishes them."""

    def __init__(self, publisher: Publisher, journal: Journal, *, topic: str) -> None:
        self._publisher = publisher
        self._journal = journal
        self._topic = topic

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> Coordinates:
        """As the publisher behind it. A letter that is tried again is written down again, and listed once."""
        if topic == self._topic:
            self._journal.append(Letter(value, key, tuple(headers)))
        return await self._publisher.publish(topic, value, key=key, headers=headers)

    async def close(self) -> None:
        """Close the publisher behind it."""
        await self._publisher.close()


def _whole_bytes(file: BinaryIO) -> int:
    """How many bytes of the file are whole lines: mostly all of them, as its last byte tells."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    if file.read() in (b"", b"\n"):
        return size
    file.seek(0)
    return file.read().rfind(b"\n") + 1


def _line(letter: Letter) -> bytes:
    members = {
        "value": _text(letter.value),
        "key": None if letter.key is None else _text(letter.key),
        "headers": [[name, _text(value)] for name, value in letter.headers],
    }
    return json.dumps(members).encode() + b"\n"


def _letter(line: bytes) -> Letter:
    members = json.loads(line)
    key = members["key"]
    headers = tuple((name, base64.b64decode(value)) for name, value in members["headers"])
    return Letter(base64.b64decode(members["value"]), None if key is None else base64.b64decode(key), headers)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
