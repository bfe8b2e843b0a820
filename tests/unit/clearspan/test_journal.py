"""Dead letters on disk: a line that a crash cut off affects no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from clearspan.embedded.journal import Journal, JournallingPublisher
from common.errors import Unavailable
from ingest.dead_letter import DeadLetterMessage
from tests.fakes.kafka import MemoryBroker


def dead_letter(value: bytes) -> DeadLetterMessage:
    return DeadLetterMessage(value, b"key", (("clearspan-code", b"absurd_time"),))


def kept(journal: Journal) -> list[DeadLetterMessage]:
    return [entry.dead_letter for entry in journal.dead_letters()]


async def these(*dead_letters: DeadLetterMessage) -> AsyncIterator[DeadLetterMessage]:
    for dead_letter in dead_letters:
        yield dead_letter


def test_dead_letters_are_read_as_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")

    journal.append([dead_letter(b"\0\n\xff")])
    journal.append([DeadLetterMessage(b"", None, ())])

    assert kept(journal) == [dead_letter(b"\0\n\xff"), DeadLetterMessage(b"", None, ())]


async def test_null_header_value_stays_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    without = DeadLetterMessage(b"v", None, (("empty", b""), ("null", None)))

    journal.append([without])
    assert kept(journal) == [without]
    await journal.replace(these(*kept(journal)))

    assert kept(journal) == [without]


async def test_unwritable_dead_letter_affects_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    invalid = DeadLetterMessage(b"v", None, (("number", cast(Any, 7)),))

    journal.append([dead_letter(b"first"), invalid, dead_letter(b"second")])
    assert kept(journal) == [dead_letter(b"first"), dead_letter(b"second")]
    await journal.replace(these(invalid, dead_letter(b"replaced")))

    assert kept(journal) == [dead_letter(b"replaced")]


def test_unreadable_line_affects_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    journal.append([dead_letter(b"first")])
    with (tmp_path / "letters.jsonl").open("ab") as file:
        file.write(b"no json\n{}\n")
    journal.append([dead_letter(b"second")])

    assert kept(journal) == [dead_letter(b"first"), dead_letter(b"second")]


def test_dead_letters_are_read_from_a_position(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    journal.append([dead_letter(b"%d" % number) for number in range(4)])
    ends = [entry.end for entry in journal.dead_letters()]

    assert ends[-1] == journal.size
    assert [entry.dead_letter.value for entry in journal.dead_letters(start=ends[0], end=ends[2])] == [
        b"1",
        b"2",
    ]


class CountedJournal(Journal):
    """Counts its writes; its disk is full if the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.appends_count = 0
        self.is_full = False

    def append(self, dead_letters: Iterable[DeadLetterMessage]) -> None:
        self.appends_count += 1
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().append(dead_letters)


async def test_concurrent_dead_letters_are_journalled_together_before_publishing(tmp_path: Path) -> None:
    broker, journal = MemoryBroker(partitions=1), CountedJournal(tmp_path / "letters.jsonl")
    publisher = JournallingPublisher(broker.publisher(), journal, topic="dead")

    await asyncio.gather(*[publisher.publish("dead", b"%d" % number) for number in range(500)])
    await publisher.publish("other", b"no letter")

    assert journal.appends_count <= 3
    assert [dead_letter.value for dead_letter in kept(journal)] == [b"%d" % number for number in range(500)]
    assert len(broker.records("dead")) == 500


async def test_dead_letter_is_not_published_if_the_disk_is_full(tmp_path: Path) -> None:
    broker, journal = MemoryBroker(partitions=1), CountedJournal(tmp_path / "letters.jsonl")
    publisher = JournallingPublisher(broker.publisher(), journal, topic="dead")
    journal.is_full = True

    with pytest.raises(Unavailable, match="No space left"):
        await publisher.publish("dead", b"letter")
    assert broker.records("dead") == []
    journal.is_full = False
    await publisher.publish("dead", b"letter")

    assert [record.value for record in broker.records("dead")] == [b"letter"]


def test_truncated_line_affects_no_later_dead_letter(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "letters.jsonl")
    journal.append([dead_letter(b"first")])
    with (tmp_path / "letters.jsonl").open("ab") as file:
        file.write(b'{"value": "Zmly')

    journal.append([dead_letter(b"second")])

    assert kept(journal) == [dead_letter(b"first"), dead_letter(b"second")]
