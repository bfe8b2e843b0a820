"""Dead letters read back: listed, shown, published again to where they came from, or dropped.

Kafka cannot take a record out of the middle of a topic, so a letter that has been dealt with is named by a further
record in the same topic: its key is the letter's id, its value is empty, its header says what became of it. An id is
``<partition>-<offset>`` of the letter itself. A record that was delivered twice was buried twice: the list shows each
refusal once, by the coordinates and the timestamp of its record: a broker that was made anew counts offsets from 0 again.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final, Literal, NamedTuple

from common.errors import Conflict, InvalidInput, NotFound
from common.kafka.record import Coordinates, Publisher, Record, RecordLog
from ingest.dead_letter import (
    CODE_HEADER,
    CODES_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PREFIX,
    REASON_HEADER,
    SPAN_COUNT_HEADER,
    SPAN_INDEX_HEADER,
    TIME_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)

RESOLVES_HEADER: Final = "clearspan-resolves"
RESOLUTION_HEADER: Final = "clearspan-resolution"
LETTERS_MAX: Final = 100_000
"""Letters that are held at once; a topic with more is listed up to here, oldest first, and says so."""

Resolution = Literal["replayed", "dropped"]
Progress = Callable[[int], None]


class DeadLetter(NamedTuple):
    """One dead letter, without its bytes; the members and their order are those of contract §7.

    ``span_count`` and ``codes`` (how many spans have which code) are those of a letter that many spans share; of others ``None``.
    """

    id: str
    topic: str
    partition: int
    offset: int
    span_index: int | None
    code: str
    reason: str
    created_at: str
    bytes_count: int
    span_count: int | None = None
    codes: dict[str, int] | None = None


class DeadLetterList(NamedTuple):
    """What is not dealt with, oldest first by ``created_at``; ``is_complete`` is false past ``LETTERS_MAX``."""

    letters: list[DeadLetter]
    is_complete: bool


async def list_dead_letters(log: RecordLog, topic: str, *, progress: Progress | None = None) -> DeadLetterList:
    """Every refusal that is neither replayed nor dropped. Reads the whole topic; ``progress`` hears records read so far."""
    found = await _read_letters(log, topic, progress)
    return DeadLetterList(sorted(found.letters, key=lambda each: (each.created_at, each.id)), found.is_complete)


async def open_dead_letters(log: RecordLog, topic: str) -> AsyncIterator[Record]:
    """The letters that are neither replayed nor dropped, as records: what is carried over to another broker, so all of them."""
    open_ids = {letter.id for letter in (await _read_letters(log, topic, letters_max=sys.maxsize)).letters}
    async for records in log.read(topic):
        for record in records:
            if _id(record) in open_ids:
                yield record


async def require_open(log: RecordLog, topic: str, letter_ids: Sequence[str]) -> None:
    """Raise ``Conflict`` that names the letters among these which are dealt with; replaying one again could bring an old
    version of a span back. Raises ``NotFound`` and ``InvalidInput`` as ``show`` does.
    """
    for letter_id in letter_ids:
        await _fetch(log, topic, letter_id)
    found = await _read_letters(log, topic)
    others = ", ".join(each for each in letter_ids if each not in found.open_ids)
    if others and not found.is_complete:
        raise Conflict(
            f"Not among the first {LETTERS_MAX:,} open letters, so already dealt with or behind them: {others}."
            " Replay or drop some of the first before those behind."
        )
    if others:
        raise Conflict(f"Not in the list of open letters, so already dealt with: {others}.")


async def require_read(log: RecordLog, topic: str, letter_ids: Sequence[str], *, topics: Collection[str]) -> None:
    """Raise ``Conflict`` that names a letter among these which came from none of ``topics``: replayed there, where nobody
    reads, it would be off the list and nowhere else. Raises ``NotFound`` and ``InvalidInput`` as ``show`` does.
    """
    for letter_id in letter_ids:
        source = _letter(await _fetch(log, topic, letter_id)).topic
        if source not in topics:
            raise Conflict(f"{letter_id} came from the topic {source}, which CLEARSPAN_KAFKA__TOPICS does not name.")


async def show(log: RecordLog, topic: str, letter_id: str) -> tuple[DeadLetter, bytes]:
    """A letter and its bytes, dealt with or not. Raises ``NotFound``; ``InvalidInput`` where the id is none."""
    record = await _fetch(log, topic, letter_id)
    return _letter(record), record.value or b""


async def replay(log: RecordLog, publisher: Publisher, topic: str, letter_id: str) -> Coordinates:
    """Publish the letter to where it came from, then mark it; returns where it went.

    Marked after it is published: a failure between the two leaves it in the list, and replaying it again is harmless.
    Raises ``NotFound``, ``InvalidInput``, ``Unavailable``.
    """
    record = await _fetch(log, topic, letter_id)
    headers = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    went_to = await publisher.publish(_letter(record).topic, record.value or b"", key=record.key, headers=headers)
    await _resolve(publisher, topic, letter_id, "replayed")
    return went_to


async def drop(log: RecordLog, publisher: Publisher, topic: str, letter_id: str) -> None:
    """Mark the letter as given up; its bytes stay in the topic. Raises ``NotFound``, ``InvalidInput``, ``Unavailable``."""
    await _fetch(log, topic, letter_id)
    await _resolve(publisher, topic, letter_id, "dropped")


_Refused = tuple[str, int, int, str, int | None]


class _Read(NamedTuple):
    """``letters`` are one a refusal, ``open_ids`` those of its duplicates too."""

    letters: list[DeadLetter]
    open_ids: set[str]
    is_complete: bool


async def _read_letters(
    log: RecordLog, topic: str, progress: Progress | None = None, *, letters_max: int | None = None
) -> _Read:
    most = LETTERS_MAX if letters_max is None else letters_max
    resolved_ids: set[str] = set()
    found = await _read_once(log, topic, progress, resolved_ids, most)
    if not found.is_complete and resolved_ids:
        # Letters that are dealt with stay in the topic for ever. Known from the start, they take no place any more.
        found = await _read_once(log, topic, progress, resolved_ids, most)
    return found


async def _read_once(
    log: RecordLog, topic: str, progress: Progress | None, resolved_ids: set[str], letters_max: int
) -> _Read:
    """The open letters among the first ``letters_max`` that are not in ``resolved_ids``, to which those met are added."""
    known_ids = frozenset(resolved_ids)
    letters: dict[_Refused, DeadLetter] = {}
    refused_of_id: dict[str, _Refused] = {}
    resolved: set[_Refused] = set()
    records_count, is_complete = 0, True
    async for records in log.read(topic):
        for record in records:
            resolves = record.header(RESOLVES_HEADER)
            if resolves is not None:
                resolved_ids.add(resolves.decode("ascii", "replace"))
            elif record.header(OFFSET_HEADER) is not None:
                letter = _letter(record)
                if letter.id in known_ids:
                    resolved.add(_refused(record, letter))
                elif len(refused_of_id) >= letters_max:
                    is_complete = False
                else:
                    refused_of_id[letter.id] = _refused(record, letter)
                    letters.setdefault(refused_of_id[letter.id], letter)
        records_count += len(records)
        if progress is not None:
            progress(records_count)
    resolved |= {refused_of_id[each] for each in resolved_ids & refused_of_id.keys()}
    return _Read(
        [letter for refused, letter in letters.items() if refused not in resolved],
        {letter_id for letter_id, refused in refused_of_id.items() if refused not in resolved},
        is_complete,
    )


def _refused(record: Record, letter: DeadLetter) -> _Refused:
    return letter.topic, letter.partition, letter.offset, _text(record, TIMESTAMP_HEADER), letter.span_index


async def _resolve(publisher: Publisher, topic: str, letter_id: str, resolution: Resolution) -> None:
    headers = [(RESOLVES_HEADER, letter_id.encode()), (RESOLUTION_HEADER, resolution.encode())]
    await publisher.publish(topic, b"", key=letter_id.encode(), headers=headers)


async def _fetch(log: RecordLog, topic: str, letter_id: str) -> Record:
    parts = re.fullmatch(r"(\d{1,9})-(\d{1,18})", letter_id, re.ASCII)
    if parts is None:
        raise InvalidInput(f"{letter_id!r} is not the id of a dead letter; ids look like 0-17.")
    record = await log.fetch(Coordinates(topic, int(parts[1]), int(parts[2])))
    if record is None or record.header(OFFSET_HEADER) is None:
        raise NotFound(f"There is no dead letter {letter_id}.")
    return record


def _letter(record: Record) -> DeadLetter:
    span_index, span_count = _text(record, SPAN_INDEX_HEADER), _text(record, SPAN_COUNT_HEADER)
    codes = _text(record, CODES_HEADER)
    return DeadLetter(
        id=_id(record),
        topic=_text(record, TOPIC_HEADER),
        partition=int(_text(record, PARTITION_HEADER) or 0),
        offset=int(_text(record, OFFSET_HEADER) or 0),
        span_index=int(span_index) if span_index else None,
        code=_text(record, CODE_HEADER),
        reason=_text(record, REASON_HEADER),
        created_at=_text(record, TIME_HEADER),
        bytes_count=len(record.value or b""),
        span_count=int(span_count) if span_count else None,
        codes=json.loads(codes) if codes else None,
    )


def _id(record: Record) -> str:
    return f"{record.partition}-{record.offset}"


def _text(record: Record, name: str) -> str:
    return (record.header(name) or b"").decode("utf-8", "replace")
