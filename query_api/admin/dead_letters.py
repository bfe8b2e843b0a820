"""``/admin/dead-letters``: list and show what was rejected, in all projects.

``resolve.py`` replays and drops.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final
from uuid import UUID

from common.errors import Conflict, InvalidCursor, Unavailable
from common.kafka.dead_letter_index import DeadLetterIndex, KnownDeadLetters, SortKey, sort_key, time_key
from common.kafka.dead_letters import DeadLetter, parse_id
from common.times import format_us, nearest_formattable_us
from query_api.admin.schemas import (
    DeadLetterFilter,
    DeadLetterResponse,
    DeadLettersParameters,
    DeadLettersResponse,
    DeadLetterSummary,
    DeadLetterWithValue,
    ExaminedRecords,
)
from query_api.request.context import ApiContext
from query_api.request.json_body import json_response
from query_api.request.route import NO_PROJECT, Request, Response
from query_api.spans.cursor import fingerprint, read_cursor, write_cursor
from query_api.spans.windowing import WindowingResponse, microseconds

READ_S: Final = 5.0
"""How long a request waits for the topic of dead letters to be read."""

_SEPARATOR: Final = "/"
_LATEST: Final = ("9999", 0, 0)


async def list_dead_letters(request: Request) -> Response:
    """Return the dead letters that are neither replayed nor dropped, the newest first."""
    parameters: DeadLettersParameters = request.query
    context = request.context
    known = await index_of(context).refreshed(timeout_s=READ_S)
    scope = _scope(parameters)
    after = None
    if parameters.next is not None:
        after = _unpack(read_cursor(parameters.next, scope=scope, secret=context.cursor_secret).position)
    found = list(islice(matching(known, parameters, context, after=after), parameters.limit + 1))
    page = found[: parameters.limit]
    last = None
    if len(found) > len(page):
        last = sort_key(page[-1])
    elif known.is_reading and not is_whole_topic(known, parameters):
        last = sort_key(page[-1]) if page else after or _LATEST
    windowing = None
    if last is not None:
        position = _SEPARATOR.join(map(str, last)).encode()
        windowing = WindowingResponse(next=write_cursor(position, scope=scope, secret=context.cursor_secret))
    return json_response(
        DeadLettersResponse(
            count=len(page),
            dead_letters=[summary_of(dead_letter, context) for dead_letter in page],
            windowing=windowing,
            complete=None if is_whole_topic(known, parameters) else False,
            examined=examined_of(known, parameters),
        )
    )


async def get_dead_letter(request: Request) -> Response:
    """Return an open dead letter with its bytes; a count of 0 if it was replayed or dropped, or never existed."""
    dead_letter = await find(request)
    if dead_letter is None:
        return json_response(DeadLetterResponse(count=0))
    record = (await index_of(request.context).fetch([dead_letter])).get(dead_letter.id)
    if record is None:
        return json_response(DeadLetterResponse(count=0))
    shown = DeadLetterWithValue(
        **summary_of(dead_letter, request.context).model_dump(),
        value_base64=base64.b64encode(record.value or b"").decode(),
    )
    return json_response(DeadLetterResponse(count=1, dead_letter=shown))


def index_of(context: ApiContext) -> DeadLetterIndex:
    """Return the index of dead letters, for the routes that need it."""
    assert context.dead_letters is not None, "this route needs Kafka"  # noqa: S101 - query_api/http/app.py opens it
    return context.dead_letters


async def find(request: Request) -> DeadLetter | None:
    """Return the open dead letter that the path names, or of which it names a duplicate.

    Raises ``InvalidInput`` if it is not an id, ``Unavailable`` if the topic cannot be read, and if the dead letter is
    so old that the topic has not been read back to it: ``Unavailable``, or ``Conflict`` if it will not be.
    """
    dead_letter_id = request.path["dead_letter_id"]
    index = index_of(request.context)
    where = parse_id(dead_letter_id, index.topic)
    known = await index.refreshed(timeout_s=READ_S)
    found = index.find(dead_letter_id)
    if found is None and index.may_be_older(where):
        since = f"The topic of dead letters has been read back to {known.since}Z,"
        if known.is_reading:
            raise Unavailable(f"{since} and {dead_letter_id} may be older. Its reading goes on: try again.")
        raise Conflict(f"{since} and {dead_letter_id} may be older. Replay or drop newer ones first.")
    return found


def matching(
    known: KnownDeadLetters, wanted: DeadLetterFilter, context: ApiContext, *, after: SortKey | None = None
) -> Iterator[DeadLetter]:
    """Yield the open dead letters that match, the newest first; with ``after`` those that follow this ``sort_key``."""
    oldest, newest = _bound(wanted.oldest), _bound(wanted.newest)
    project = None if wanted.project is None else _spelled_as_id(wanted.project)
    for dead_letter in known.newest_first:
        time = time_key(dead_letter.created_at)
        if (
            (after is None or sort_key(dead_letter) < after)
            and (wanted.code is None or dead_letter.code == wanted.code)
            and (wanted.topic is None or dead_letter.topic == wanted.topic)
            and (oldest is None or time >= oldest)
            and (newest is None or time < newest)
            and (project is None or project_of(dead_letter, context) == project)
        ):
            yield dead_letter


def summary_of(dead_letter: DeadLetter, context: ApiContext) -> DeadLetterSummary:
    """Return a dead letter as responses show it."""
    return DeadLetterSummary(**dead_letter._replace(project=project_of(dead_letter, context))._asdict())


def project_of(dead_letter: DeadLetter, context: ApiContext) -> str | None:
    """Return the project that the record's header names, else that of its topic."""
    if dead_letter.project is not None:
        return _spelled_as_id(dead_letter.project)
    topic = context.settings.kafka.topics.get(dead_letter.topic)
    return str(topic.project_id) if topic is not None and topic.project_id is not None else None


def is_whole_topic(known: KnownDeadLetters, wanted: DeadLetterFilter) -> bool:
    """Return whether every open dead letter that matches is known."""
    oldest = _bound(wanted.oldest)
    return known.since is None or (oldest is not None and oldest >= known.since)


def examined_of(known: KnownDeadLetters, wanted: DeadLetterFilter) -> ExaminedRecords | None:
    """Return what has been read, if not every dead letter that matches is known."""
    if is_whole_topic(known, wanted):
        return None
    return ExaminedRecords(oldest=f"{known.since}Z", records_count=known.records_count)


def _bound(time: datetime | None) -> str | None:
    return None if time is None else time_key(format_us(nearest_formattable_us(microseconds(time))))


def _spelled_as_id(project: str) -> str:
    """Return the id of a project in its usual spelling; another text as it is."""
    try:
        return str(UUID(project))
    except ValueError:
        return project


def _scope(parameters: DeadLettersParameters) -> bytes:
    bounds = [_bound(parameters.oldest), _bound(parameters.newest)]
    rest = repr([str(parameters.code), parameters.topic, parameters.project, *bounds]).encode()
    return fingerprint([b"dead letters", NO_PROJECT.bytes, rest])


def _unpack(position: bytes) -> SortKey:
    time, *numbers = position.decode("ascii", "replace").split(_SEPARATOR)
    if len(numbers) != 2 or not all(number.isdigit() for number in numbers):
        raise InvalidCursor("The cursor in `next` cannot be read.")
    return time, int(numbers[0]), int(numbers[1])
