"""Read dead letters back: list them, show one, publish it again to its topic, or drop it.

Kafka cannot remove a record from the middle of a topic. So a further record in the same topic marks a dead letter as
resolved: its key is the id of the dead letter, its value is empty, its header says how it was resolved. An id is
``<partition>-<offset>`` of the dead letter itself. A record that was delivered twice was dead-lettered twice: the list
shows each rejection once, by the coordinates and the timestamp of its record. (A new broker counts offsets from 0
again.)
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
DEAD_LETTERS_MAX: Final = 100_000
"""Maximum of dead letters held in memory. If the topic has more, the list has the oldest ones and is marked as
incomplete.
"""

Resolution = Literal["replayed", "dropped"]
Progress = Callable[[int], None]


class DeadLetter(NamedTuple):
    """One dead letter, without its bytes; the members and their order are those of contract §7.

    ``span_count`` and ``codes`` (spans per code) are set only for a dead letter that many spans share.
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
    """Open dead letters, one per rejection, oldest first by ``created_at``.

    ``open_ids`` are the ids of their duplicates too. ``is_complete`` is false past ``DEAD_LETTERS_MAX``.
    """

    dead_letters: list[DeadLetter]
    open_ids: set[str]
    is_complete: bool


async def list_dead_letters(
    log: RecordLog, topic: str, *, progress: Progress | None = None, max_count: int | None = None
) -> DeadLetterList:
    """Return every rejection that is neither replayed nor dropped. Reads the whole topic; calls ``progress`` with the
    records read so far. ``max_count`` is ``DEAD_LETTERS_MAX`` by default.
    """
    max_count = DEAD_LETTERS_MAX if max_count is None else max_count
    resolved_ids: set[str] = set()
    found = await _read_once(log, topic, progress, resolved_ids, max_count)
    if not found.is_complete and resolved_ids:
        # Resolved dead letters stay in the topic. If they are known from the start, they do not count against the
        # limit.
        found = await _read_once(log, topic, progress, resolved_ids, max_count)
    return found


async def open_dead_letters(log: RecordLog, topic: str) -> AsyncIterator[Record]:
    """Yield the records of all dead letters that are neither replayed nor dropped, to carry them over to another
    broker.
    """
    found = await list_dead_letters(log, topic, max_count=sys.maxsize)
    open_ids = {dead_letter.id for dead_letter in found.dead_letters}
    async for records in log.read(topic):
        for record in records:
            if _id(record) in open_ids:
                yield record


async def require_open(log: RecordLog, topic: str, dead_letter_ids: Sequence[str]) -> None:
    """Raise ``Conflict`` if any of these dead letters is resolved: replaying it again could bring back an old version
    of a span.

    Raises ``NotFound`` and ``InvalidInput`` as ``show`` does.
    """
    for dead_letter_id in dead_letter_ids:
        await _fetch(log, topic, dead_letter_id)
    found = await list_dead_letters(log, topic)
    others = ", ".join(dead_letter_id for dead_letter_id in dead_letter_ids if dead_letter_id not in found.open_ids)
    if others and not found.is_complete:
        raise Conflict(
            f"Not among the first {DEAD_LETTERS_MAX:,} open dead letters: {others}. "
            "They are resolved already, or come later. Replay or drop earlier ones first."
        )
    if others:
        raise Conflict(f"Already replayed or dropped: {others}.")


async def require_read(log: RecordLog, topic: str, dead_letter_ids: Sequence[str], *, topics: Collection[str]) -> None:
    """Raise ``Conflict`` if any of these dead letters came from a topic that is not in ``topics``.

    No worker would read it there, and it would disappear from the list. Raises ``NotFound`` and ``InvalidInput`` as
    ``show`` does.
    """
    for dead_letter_id in dead_letter_ids:
        source = _dead_letter(await _fetch(log, topic, dead_letter_id)).topic
        if source not in topics:
            raise Conflict(
                f"{dead_letter_id} came from the topic {source}, which CLEARSPAN_KAFKA__TOPICS does not name."
            )


async def show(log: RecordLog, topic: str, dead_letter_id: str) -> tuple[DeadLetter, bytes]:
    """Return a dead letter, resolved or not, and its bytes. Raises ``NotFound``, or ``InvalidInput`` for a malformed
    id.
    """
    record = await _fetch(log, topic, dead_letter_id)
    return _dead_letter(record), record.value or b""


async def replay(log: RecordLog, publisher: Publisher, topic: str, dead_letter_id: str) -> Coordinates:
    """Publish a dead letter to its topic again, then mark it as replayed; return its new coordinates.

    A failure between the two leaves it in the list, and replaying it again is harmless.
    Raises ``NotFound``, ``InvalidInput``, ``Unavailable``.
    """
    record = await _fetch(log, topic, dead_letter_id)
    headers = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    went_to = await publisher.publish(_dead_letter(record).topic, record.value or b"", key=record.key, headers=headers)
    await _resolve(publisher, topic, dead_letter_id, "replayed")
    return went_to


async def drop(log: RecordLog, publisher: Publisher, topic: str, dead_letter_id: str) -> None:
    """Mark a dead letter as dropped; its bytes stay in the topic. Raises ``NotFound``, ``InvalidInput``,
    ``Unavailable``.
    """
    await _fetch(log, topic, dead_letter_id)
    await _resolve(publisher, topic, dead_letter_id, "dropped")


_Identity = tuple[str, int, int, str, int | None]


async def _read_once(
    log: RecordLog, topic: str, progress: Progress | None, resolved_ids: set[str], max_count: int
) -> DeadLetterList:
    """Return the open ones of the first ``max_count`` dead letters. Adds the resolved ids that it finds to
    ``resolved_ids``.
    """
    known_ids = frozenset(resolved_ids)
    dead_letters: dict[_Identity, DeadLetter] = {}
    identity_of_id: dict[str, _Identity] = {}
    resolved: set[_Identity] = set()
    records_count, is_complete = 0, True
    async for records in log.read(topic):
        for record in records:
            resolves = record.header(RESOLVES_HEADER)
            if resolves is not None:
                resolved_ids.add(resolves.decode("ascii", "replace"))
            elif record.header(OFFSET_HEADER) is not None:
                dead_letter = _dead_letter(record)
                if dead_letter.id in known_ids:
                    resolved.add(_identity(record, dead_letter))
                elif len(identity_of_id) >= max_count:
                    is_complete = False
                else:
                    identity_of_id[dead_letter.id] = _identity(record, dead_letter)
                    dead_letters.setdefault(identity_of_id[dead_letter.id], dead_letter)
        records_count += len(records)
        if progress is not None:
            progress(records_count)
    resolved |= {identity_of_id[dead_letter_id] for dead_letter_id in resolved_ids & identity_of_id.keys()}
    open_ones = [dead_letter for identity, dead_letter in dead_letters.items() if identity not in resolved]
    return DeadLetterList(
        sorted(open_ones, key=lambda dead_letter: (dead_letter.created_at, dead_letter.id)),
        {dead_letter_id for dead_letter_id, identity in identity_of_id.items() if identity not in resolved},
        is_complete,
    )


def _identity(record: Record, dead_letter: DeadLetter) -> _Identity:
    return (
        dead_letter.topic,
        dead_letter.partition,
        dead_letter.offset,
        _text(record, TIMESTAMP_HEADER),
        dead_letter.span_index,
    )


async def _resolve(publisher: Publisher, topic: str, dead_letter_id: str, resolution: Resolution) -> None:
    headers = [(RESOLVES_HEADER, dead_letter_id.encode()), (RESOLUTION_HEADER, resolution.encode())]
    await publisher.publish(topic, b"", key=dead_letter_id.encode(), headers=headers)


async def _fetch(log: RecordLog, topic: str, dead_letter_id: str) -> Record:
    parts = re.fullmatch(r"(\d{1,9})-(\d{1,18})", dead_letter_id, re.ASCII)
    if parts is None:
        raise InvalidInput(f"{dead_letter_id!r} is not the id of a dead letter; ids look like 0-17.")
    record = await log.fetch(Coordinates(topic, int(parts[1]), int(parts[2])))
    if record is None or record.header(OFFSET_HEADER) is None:
        raise NotFound(f"There is no dead letter {dead_letter_id}.")
    return record


def _dead_letter(record: Record) -> DeadLetter:
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
