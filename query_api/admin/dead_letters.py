"""``/admin/dead-letters``: list, show, replay and drop what was rejected, in all projects.

One request of the installation replays or drops at a time, under a lock in Postgres. It reads what is open when it has
the lock, so two processes never replay the same dead letter.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from common.clickhouse.dead_letters import DeadLetter, DeadLetterSelection, DeadLetterTable, SortKey
from common.errors import Conflict, InvalidCursor, InvalidInput, NotFound, Overloaded, ServiceError, Unavailable
from common.fair_share import shielded
from common.times import format_us, microseconds
from query_api.admin.schemas import (
    DeadLetterFilter,
    DeadLetterResolved,
    DeadLetterResponse,
    DeadLettersParameters,
    DeadLettersResolved,
    DeadLettersResponse,
    DeadLetterSummary,
    DeadLetterWithValue,
    DryRunOption,
    ResolveDeadLetters,
    Skipped,
    WentTo,
)
from query_api.request.context import ApiContext, database_of
from query_api.request.json_body import json_response
from query_api.request.route import NO_PROJECT, Request, Response
from query_api.spans.window import fingerprint, read_cursor, write_cursor
from query_api.spans.windowing import WindowingResponse

LOCK_KEY: Final = 0x64656164  # "dead" in ASCII
LOCK_WAIT: Final = "2s"
"""How long a request waits for another one that replays or drops, as Postgres writes it."""

VALUE_NOT_KEPT: Final = "its project masks content, and its value is not kept."
_ID: Final = re.compile(r"\d{1,10}-\d{1,19}-[0-9a-f]{16}", re.ASCII)
_SEPARATOR: Final = "/"

Resolution: TypeAlias = Literal["replayed", "dropped"]
Outcome: TypeAlias = DeadLetterSummary | ServiceError
Act: TypeAlias = Callable[[ApiContext, Sequence[DeadLetter]], Awaitable[list[Outcome]]]


async def list_dead_letters(request: Request) -> Response:
    """Return the dead letters that are neither replayed nor dropped, the newest first."""
    parameters: DeadLettersParameters = request.query
    context = request.context
    scope = _scope(parameters)
    before = None
    if parameters.next is not None:
        before = _unpack(read_cursor(parameters.next, scope=scope, secret=context.cursor_secret).position)
    matching = await table_of(context).select(_selection(parameters), limit=parameters.limit + 1, before=before)
    page = matching[: parameters.limit]
    windowing = None
    if len(matching) > len(page):
        position = _SEPARATOR.join(map(str, page[-1].sort_key)).encode()
        windowing = WindowingResponse(next=write_cursor(position, scope=scope, secret=context.cursor_secret))
    return json_response(
        DeadLettersResponse(count=len(page), dead_letters=[_summary(each) for each in page], windowing=windowing)
    )


async def get_dead_letter(request: Request) -> Response:
    """Return an open dead letter with its bytes; a count of 0 if it was replayed or dropped, or never existed."""
    dead_letter_id = _id_in(request)
    table = table_of(request.context)
    dead_letter = await table.find(dead_letter_id)
    content = None if dead_letter is None else (await table.contents([dead_letter_id])).get(dead_letter_id)
    if dead_letter is None or content is None:
        return json_response(DeadLetterResponse(count=0))
    visible = DeadLetterWithValue(
        **_summary(dead_letter).model_dump(), value_base64=base64.b64encode(content.value).decode()
    )
    return json_response(DeadLetterResponse(count=1, dead_letter=visible))


async def replay_dead_letter(request: Request) -> Response:
    """Publish a dead letter to its topic again, after its cause is fixed. It is then no longer open."""
    body: DryRunOption = request.body
    return await _resolve_one(request, _replay, is_dry_run=request.query.dry_run or body.dry_run)


async def drop_dead_letter(request: Request) -> Response:
    """Mark a dead letter as done without replaying it. It is then no longer open."""
    return await _resolve_one(request, _drop, is_dry_run=request.query.dry_run)


async def replay_dead_letters(request: Request) -> Response:
    """Replay the oldest of the open dead letters that match, in the order of their rejection."""
    return await shielded(asyncio.ensure_future(_resolve_many(request.context, request.body, _replay, "replayed")))


async def drop_dead_letters(request: Request) -> Response:
    """Drop the oldest of the open dead letters that match."""
    return await shielded(asyncio.ensure_future(_resolve_many(request.context, request.body, _drop, "dropped")))


def table_of(context: ApiContext) -> DeadLetterTable:
    """Return the table of dead letters; a statement may take as long as a query."""
    return DeadLetterTable(context.store, deadline_s=context.settings.query.budget_s)


@asynccontextmanager
async def _turn(context: ApiContext) -> AsyncIterator[None]:
    """Let one request at a time replay or drop. Raises ``Conflict`` if another one does so for too long."""
    async with database_of(context).transaction() as transaction:
        try:
            await transaction.fetch_one("SELECT set_config('lock_timeout', $1, true)", LOCK_WAIT)
            await transaction.fetch_one("SELECT pg_advisory_xact_lock($1)", LOCK_KEY)
        except Overloaded:
            raise Conflict("Another request replays or drops dead letters now: ask again.") from None
        yield


async def _resolve_one(request: Request, act: Act, *, is_dry_run: bool) -> Response:
    dead_letter_id = _id_in(request)
    # A client that leaves must not separate a publish from the mark that follows it.
    return await shielded(
        asyncio.ensure_future(_resolve_id(request.context, dead_letter_id, act, is_dry_run=is_dry_run))
    )


async def _resolve_id(context: ApiContext, dead_letter_id: str, act: Act, *, is_dry_run: bool) -> Response:
    async with nullcontext() if is_dry_run else _turn(context):
        dead_letter = await table_of(context).find(dead_letter_id)
        if dead_letter is None:
            raise NotFound(
                f"{dead_letter_id} is not an open dead letter: it was replayed or dropped, or never existed."
            )
        if act is _replay and (reason := _unreadable(dead_letter, context)) is not None:
            raise Conflict(reason)
        if is_dry_run:
            return json_response(DeadLetterResolved(dead_letter=_summary(dead_letter), dry_run=True))
        [outcome] = await act(context, [dead_letter])
    if isinstance(outcome, ServiceError):
        raise outcome
    return json_response(DeadLetterResolved(dead_letter=outcome))


async def _resolve_many(context: ApiContext, wanted: ResolveDeadLetters, act: Act, resolution: Resolution) -> Response:
    table, selection = table_of(context), _selection(wanted)
    skipped: list[DeadLetter] = []
    async with nullcontext() if wanted.dry_run else _turn(context):
        if resolution == "replayed":
            selection = replace(selection, topics=context.settings.kafka.topics, is_replayable=False)
            skipped = await table.select(selection, limit=wanted.limit, oldest_first=True)
            selection = replace(selection, is_replayable=True)
        matching_count = await table.count(selection)
        chosen = await table.select(selection, limit=wanted.limit, oldest_first=True)
        if wanted.dry_run:
            resolved = [_summary(dead_letter) for dead_letter in chosen]
        else:
            resolved = await _resolve_in_groups(context, chosen, act, resolution)
    return json_response(
        DeadLettersResolved(
            count=len(resolved),
            dead_letters=resolved,
            skipped=[Skipped(id=each.id, reason=str(_unreadable(each, context))) for each in skipped] or None,
            remaining=matching_count - len(resolved),
            dry_run=wanted.dry_run or None,
        )
    )


def _unreadable(dead_letter: DeadLetter, context: ApiContext) -> str | None:
    """Return why a dead letter cannot be replayed: it has no value, or no worker would read it; it would only disappear
    from the list."""
    if not dead_letter.bytes_count:
        return f"{dead_letter.id} cannot be replayed: {VALUE_NOT_KEPT}"
    if dead_letter.topic in context.settings.kafka.topics:
        return None
    return f"{dead_letter.id} came from the topic {dead_letter.topic}, which CLEARSPAN_KAFKA__TOPICS does not name."


async def _resolve_in_groups(
    context: ApiContext, dead_letters: Sequence[DeadLetter], act: Act, resolution: Resolution
) -> list[DeadLetterSummary]:
    """Replay or drop these in order, until the query budget has passed. Return those that are done.

    Raises the first error, with what was done before it.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + context.settings.query.budget_s
    resolved: list[DeadLetterSummary] = []
    for group in _groups(dead_letters, context):
        if loop.time() > deadline_s:
            break
        outcomes = await act(context, group)
        resolved += [outcome for outcome in outcomes if not isinstance(outcome, ServiceError)]
        error = next((outcome for outcome in outcomes if isinstance(outcome, ServiceError)), None)
        if error is not None and resolved:
            done = f"{len(resolved)} dead letters were {resolution}, then: {error.public_message}"
            raise Unavailable(f"{done} Ask again for the rest.") from error
        if error is not None:
            raise error
    return resolved


async def _replay(context: ApiContext, dead_letters: Sequence[DeadLetter]) -> list[Outcome]:
    table = table_of(context)
    contents = await table.contents([dead_letter.id for dead_letter in dead_letters])

    async def publish(dead_letter: DeadLetter) -> DeadLetterSummary:
        if (content := contents.get(dead_letter.id)) is None:
            raise Unavailable(f"ClickHouse does not return the bytes of {dead_letter.id} now: ask again.")
        envelope = content.envelope
        where = await context.publisher.publish(
            dead_letter.topic, content.value, key=envelope.key, headers=envelope.headers
        )
        return _summary(dead_letter).model_copy(update={"went_to": WentTo(**where._asdict())})

    outcomes = await _outcomes(publish(dead_letter) for dead_letter in dead_letters)
    pairs = zip(dead_letters, outcomes, strict=True)
    published = [dead_letter for dead_letter, outcome in pairs if not isinstance(outcome, ServiceError)]
    if published:
        await table.resolve(published)
    return outcomes


async def _drop(context: ApiContext, dead_letters: Sequence[DeadLetter]) -> list[Outcome]:
    await table_of(context).resolve(dead_letters)
    return [_summary(dead_letter) for dead_letter in dead_letters]


async def _outcomes(running: Iterable[Coroutine[Any, Any, DeadLetterSummary]]) -> list[Outcome]:
    """Run all at once; return what each returned, or how it failed. Raises what is not a ``ServiceError``."""
    outcomes: list[Outcome] = []
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, ServiceError):
            raise outcome
        outcomes.append(outcome)
    return outcomes


def _groups(dead_letters: Sequence[DeadLetter], context: ApiContext) -> Iterator[list[DeadLetter]]:
    """Divide dead letters into groups within the limits; a larger one is a group of its own."""
    limits = context.limits
    group: list[DeadLetter] = []
    bytes_count = 0
    for dead_letter in dead_letters:
        is_larger = bytes_count + dead_letter.bytes_count > limits.replayed_bytes
        if group and (len(group) >= limits.replayed_together or is_larger):
            yield group
            group, bytes_count = [], 0
        group.append(dead_letter)
        bytes_count += dead_letter.bytes_count
    if group:
        yield group


def _id_in(request: Request) -> str:
    """Return the id that the path names. Raises ``InvalidInput``."""
    dead_letter_id = request.path["dead_letter_id"]
    if _ID.fullmatch(dead_letter_id) is None:
        raise InvalidInput(
            f"{dead_letter_id[:100]!r} is not the id of a dead letter; ids look like 0-17-5f2e9a60c3d41b7e."
        )
    return dead_letter_id


def _selection(wanted: DeadLetterFilter) -> DeadLetterSelection:
    return DeadLetterSelection(
        code=wanted.code,
        topic=wanted.topic,
        project=None if wanted.project is None else _spelled_as_id(wanted.project),
        oldest_us=None if wanted.oldest is None else microseconds(wanted.oldest),
        newest_us=None if wanted.newest is None else microseconds(wanted.newest),
    )


def _summary(dead_letter: DeadLetter) -> DeadLetterSummary:
    return DeadLetterSummary(
        id=dead_letter.id,
        topic=dead_letter.topic,
        partition=dead_letter.partition,
        offset=dead_letter.offset,
        span_index=dead_letter.span_index,
        code=dead_letter.code,
        reason=dead_letter.reason,
        created_at=format_us(dead_letter.created_us),
        bytes_count=dead_letter.bytes_count,
        span_count=sum(dead_letter.codes.values()) if dead_letter.codes else None,
        codes=dict(dead_letter.codes) if dead_letter.codes else None,
        project=dead_letter.project,
    )


def _spelled_as_id(project: str) -> str:
    """Return the id of a project in its usual spelling; another text as it is."""
    try:
        return str(UUID(project))
    except ValueError:
        return project


def _scope(parameters: DeadLettersParameters) -> bytes:
    return fingerprint([b"dead letters", NO_PROJECT.bytes, repr(_selection(parameters)).encode()])


def _unpack(position: bytes) -> SortKey:
    *numbers, dead_letter_id = position.decode("ascii", "replace").split(_SEPARATOR)
    if len(numbers) != 4 or not all(number.isdigit() for number in numbers):
        raise InvalidCursor("The cursor in `next` cannot be read.")
    created_us, partition, offset, span_index = map(int, numbers)
    return created_us, partition, offset, span_index, dead_letter_id
