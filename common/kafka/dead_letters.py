"""The topic of dead letters: list them, show one, publish it again to its topic, or drop it.

The worker publishes them (``ingest/dead_letter.py``); the command line and the API read and resolve them here. Kafka
cannot remove a record from the middle of a topic. So a further record in the same topic marks a dead letter as
resolved: its key is the id of the dead letter, its value is empty, its headers say how it was resolved, and which
rejection it was: a mark that reaches another broker than the one it was made for, where the id is of another dead
letter, resolves the right one. An id is ``<partition>-<offset>`` of the dead letter itself. A record that was delivered
twice was dead-lettered twice: the list shows each rejection once, by the coordinates and the timestamp of its record.
(A new broker counts offsets from 0 again.)
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

from pydantic import TypeAdapter

from common.errors import Conflict, InvalidInput, NotFound
from common.kafka.record import PROJECT_HEADER, Coordinates, Publisher, Record, RecordLog

PREFIX: Final = "clearspan-"
TOPIC_HEADER: Final = "clearspan-topic"
PARTITION_HEADER: Final = "clearspan-partition"
OFFSET_HEADER: Final = "clearspan-offset"
TIMESTAMP_HEADER: Final = "clearspan-timestamp"
SPAN_INDEX_HEADER: Final = "clearspan-span-index"
CODE_HEADER: Final = "clearspan-code"
REASON_HEADER: Final = "clearspan-reason"
SPAN_COUNT_HEADER: Final = "clearspan-span-count"
CODES_HEADER: Final = "clearspan-codes"
TIME_HEADER: Final = "clearspan-time"
RESOLVES_HEADER: Final = "clearspan-resolves"
RESOLUTION_HEADER: Final = "clearspan-resolution"
REJECTION_HEADER: Final = "clearspan-rejection"
"""Of a mark: the rejection that it is about, as ``_identity`` tells them apart. Marks of older versions have none."""

DEAD_LETTERS_MAX: Final = 100_000
"""Maximum of dead letters held in memory. If the topic has more, the list has the oldest ones and is marked as
incomplete.
"""

VALUE_NOT_KEPT: Final = "its project masks content, and its value is not kept."
PROJECT_CHARACTERS_MAX: Final = 100
_CODES: Final = TypeAdapter(dict[str, int] | None)
_IDENTITY_HEADERS: Final = (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER, TIMESTAMP_HEADER, SPAN_INDEX_HEADER)

Resolution = Literal["replayed", "dropped"]
Progress = Callable[[int], None]


class DeadLetter(NamedTuple):
    """One dead letter, without its bytes; the members and their order are those of contract §7.

    ``span_count`` and ``codes`` (spans per code) are set only for a dead letter that many spans share. ``project`` is
    what the header ``project-id`` of the original record says, ``published_ms`` the timestamp of the dead letter.
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
    project: str | None = None
    published_ms: int = 0


class OpenDeadLetters:
    """The dead letters that are neither replayed nor dropped, among the records that were taken, in any order.

    A rejection that was dead-lettered twice is kept once, and is open under both ids.
    """

    def __init__(self, max_count: int, *, earlier: OpenDeadLetters | None = None) -> None:
        """Keep the first ``max_count``. Those that an ``earlier`` read knows as resolved do not count."""
        self.is_complete = True
        """False if there were more than ``max_count``."""

        self._resolved_ids: set[str] = set(earlier._resolved_ids) if earlier else set()
        self._resolved: set[bytes] = set(earlier._resolved) if earlier else set()
        self._max_count = max_count
        self._dead_letters: dict[bytes, DeadLetter] = {}
        self._identity_of_id: dict[str, bytes] = {}

    @property
    def has_resolved(self) -> bool:
        """Whether any is known to be resolved."""
        return bool(self._resolved_ids or self._resolved)

    @property
    def dead_letters(self) -> Collection[DeadLetter]:
        """The open ones, in the order in which they were taken."""
        return self._dead_letters.values()

    def take(self, records: Iterable[Record]) -> None:
        """Take in records of the topic. Taking a record twice changes nothing."""
        for record in records:
            resolves, rejection = record.header(RESOLVES_HEADER), record.header(REJECTION_HEADER)
            if rejection is not None:
                self._resolve(rejection)
            elif resolves is not None:
                self.resolve(resolves.decode("ascii", "replace"))
            elif record.header(OFFSET_HEADER) is not None:
                self._add(dead_letter_of(record), _identity(record))

    def resolve(self, dead_letter_id: str) -> None:
        """Note that a dead letter was replayed or dropped."""
        self._resolved_ids.add(dead_letter_id)
        identity = self._identity_of_id.get(dead_letter_id)
        if identity is not None:
            self._resolve(identity)

    def forget(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Keep only the ids of these."""
        for dead_letter in dead_letters:
            self._dead_letters.pop(self._identity_of_id[dead_letter.id], None)

    def is_open(self, dead_letter_id: str) -> bool:
        """Return whether a dead letter was taken and not resolved, even if it was forgotten since."""
        identity = self._identity_of_id.get(dead_letter_id)
        return identity is not None and identity not in self._resolved

    def find(self, dead_letter_id: str) -> DeadLetter | None:
        """Return the open dead letter with this id; ``None`` if there is none."""
        identity = self._identity_of_id.get(dead_letter_id)
        return None if identity is None else self._dead_letters.get(identity)

    def open_ids(self) -> set[str]:
        """Return the ids of the open dead letters and of their duplicates."""
        return {
            dead_letter_id
            for dead_letter_id, identity in self._identity_of_id.items()
            if identity in self._dead_letters
        }

    def rejection_of(self, dead_letter_id: str) -> bytes | None:
        """Return which rejection a dead letter is about, if it was taken; for its mark."""
        return self._identity_of_id.get(dead_letter_id)

    def _resolve(self, identity: bytes) -> None:
        self._resolved.add(identity)
        self._dead_letters.pop(identity, None)

    def _add(self, dead_letter: DeadLetter, identity: bytes) -> None:
        if dead_letter.id in self._resolved_ids:
            self._resolve(identity)
        elif identity in self._resolved:
            return
        elif identity not in self._dead_letters and len(self._dead_letters) >= self._max_count:
            self.is_complete = False
        else:
            self._identity_of_id[dead_letter.id] = identity
            self._dead_letters.setdefault(identity, dead_letter)


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
    found = await _read_once(log, topic, OpenDeadLetters(max_count), progress)
    if not found.is_complete and found.has_resolved:
        # Resolved dead letters stay in the topic. If they are known from the start, they do not count against the
        # limit.
        found = await _read_once(log, topic, OpenDeadLetters(max_count, earlier=found), progress)
    oldest_first = sorted(found.dead_letters, key=lambda dead_letter: (dead_letter.created_at, dead_letter.id))
    return DeadLetterList(oldest_first, found.open_ids(), found.is_complete)


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
        source = dead_letter_of(await _fetch(log, topic, dead_letter_id)).topic
        if source not in topics:
            raise Conflict(
                f"{dead_letter_id} came from the topic {source}, which CLEARSPAN_KAFKA__TOPICS does not name."
            )


async def show(log: RecordLog, topic: str, dead_letter_id: str) -> tuple[DeadLetter, bytes]:
    """Return a dead letter, resolved or not, and its bytes. Raises ``NotFound``, or ``InvalidInput`` for a malformed
    id.
    """
    record = await _fetch(log, topic, dead_letter_id)
    return dead_letter_of(record), record.value or b""


async def replay(log: RecordLog, publisher: Publisher, topic: str, dead_letter_id: str) -> Coordinates:
    """Publish a dead letter to its topic again, then mark it as replayed; return its new coordinates.

    A failure between the two leaves it in the list, and replaying it again is harmless.
    Raises ``NotFound``, ``InvalidInput``, ``Unavailable``.
    """
    return await replay_record(publisher, topic, await _fetch(log, topic, dead_letter_id))


async def replay_record(publisher: Publisher, topic: str, record: Record) -> Coordinates:
    """Replay the dead letter that a record of the topic holds; see ``replay``.

    Raises ``Unavailable``, and ``Conflict`` if its value is not kept.
    """
    if not record.value:
        raise Conflict(f"{_id(record)} cannot be replayed: {VALUE_NOT_KEPT}")
    headers = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    source = _text(record, TOPIC_HEADER)
    went_to = await publisher.publish(source, record.value or b"", key=record.key, headers=headers)
    await resolve(publisher, topic, _id(record), "replayed", rejection=_identity(record))
    return went_to


async def drop(log: RecordLog, publisher: Publisher, topic: str, dead_letter_id: str) -> None:
    """Mark a dead letter as dropped; its bytes stay in the topic. Raises ``NotFound``, ``InvalidInput``,
    ``Unavailable``.
    """
    record = await _fetch(log, topic, dead_letter_id)
    await resolve(publisher, topic, dead_letter_id, "dropped", rejection=_identity(record))


async def _read_once(log: RecordLog, topic: str, found: OpenDeadLetters, progress: Progress | None) -> OpenDeadLetters:
    records_count = 0
    async for records in log.read(topic):
        found.take(records)
        records_count += len(records)
        if progress is not None:
            progress(records_count)
    return found


async def resolve(
    publisher: Publisher, topic: str, dead_letter_id: str, resolution: Resolution, *, rejection: bytes | None
) -> None:
    """Mark a dead letter as replayed or dropped. Raises ``Unavailable``."""
    headers = [(RESOLVES_HEADER, dead_letter_id.encode()), (RESOLUTION_HEADER, resolution.encode())]
    if rejection is not None:
        headers.append((REJECTION_HEADER, rejection))
    await publisher.publish(topic, b"", key=dead_letter_id.encode(), headers=headers)


def parse_id(dead_letter_id: str, topic: str) -> Coordinates:
    """Return where a dead letter is. Raises ``InvalidInput``."""
    parts = re.fullmatch(r"(\d{1,9})-(\d{1,18})", dead_letter_id, re.ASCII)
    if parts is None:
        raise InvalidInput(f"{dead_letter_id[:100]!r} is not the id of a dead letter; ids look like 0-17.")
    return Coordinates(topic, int(parts[1]), int(parts[2]))


async def _fetch(log: RecordLog, topic: str, dead_letter_id: str) -> Record:
    record = await log.fetch(parse_id(dead_letter_id, topic))
    if record is None or record.header(OFFSET_HEADER) is None:
        raise NotFound(f"There is no dead letter {dead_letter_id}.")
    return record


def dead_letter_of(record: Record) -> DeadLetter:
    """Return what the headers of a record of the topic say. A header that cannot be read counts as absent."""
    return DeadLetter(
        id=_id(record),
        topic=_text(record, TOPIC_HEADER),
        partition=_number(record, PARTITION_HEADER) or 0,
        offset=_number(record, OFFSET_HEADER) or 0,
        span_index=_number(record, SPAN_INDEX_HEADER),
        code=_text(record, CODE_HEADER),
        reason=_text(record, REASON_HEADER),
        created_at=_text(record, TIME_HEADER),
        bytes_count=len(record.value or b""),
        span_count=_number(record, SPAN_COUNT_HEADER),
        codes=_codes(record),
        project=_text(record, PROJECT_HEADER)[:PROJECT_CHARACTERS_MAX] or None,
        published_ms=record.timestamp_ms,
    )


def _id(record: Record) -> str:
    return f"{record.partition}-{record.offset}"


def _identity(record: Record) -> bytes:
    """Return a digest of what a dead letter of the same rejection has in common: a fifth of its memory."""
    texts = (_text(record, name) for name in _IDENTITY_HEADERS)
    return blake2b("/".join(texts).encode("utf-8", "replace"), digest_size=16).digest()


def _number(record: Record, name: str) -> int | None:
    text = _text(record, name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _codes(record: Record) -> dict[str, int] | None:
    try:
        return _CODES.validate_json(record.header(CODES_HEADER) or b"null")
    except ValueError:
        return None


def _text(record: Record, name: str) -> str:
    return (record.header(name) or b"").decode("utf-8", "replace")
