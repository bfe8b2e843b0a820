"""Replay and drop dead letters: one, or the oldest of those that match a filter.

The topic is read to its end before anything is done, and what is done here is known at once. Two requests of this
process never replay the same dead letter. Two processes can, within the moment between reading and publishing; its
spans are then sent twice and stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from common.errors import Conflict, NotFound, ServiceError, Unavailable
from common.fair_share import shielded
from common.kafka.dead_letters import VALUE_NOT_KEPT, DeadLetter, replay_record, resolve
from common.limits import MIB
from query_api.admin.dead_letters import (
    READ_S,
    examined_of,
    find,
    index_of,
    is_whole_topic,
    matching,
    summary_of,
)
from query_api.admin.schemas import (
    DeadLetterFilter,
    DeadLetterResolved,
    DeadLettersResolved,
    DeadLetterSummary,
    DryRunOption,
    ResolveDeadLetters,
    Skipped,
    WentTo,
)
from query_api.request.context import ApiContext
from query_api.request.json_body import json_response
from query_api.request.route import Request, Response

GROUP_MAX: Final = 200
GROUP_BYTES_MAX: Final = 16 * MIB
"""Dead letters that are read and published at once, and their bytes."""

Resolution: TypeAlias = Literal["replayed", "dropped"]
Outcome: TypeAlias = DeadLetterSummary | ServiceError
Act: TypeAlias = Callable[[ApiContext, Sequence[DeadLetter]], Awaitable[list[Outcome]]]


async def replay_dead_letter(request: Request) -> Response:
    """Publish a dead letter to its topic again, after its cause is fixed. It is then no longer open."""
    dead_letter = await _require_open(request)
    if (reason := _unreadable(dead_letter, request.context)) is not None:
        raise Conflict(reason)
    body: DryRunOption = request.body
    return await _resolve_one(request, dead_letter, _replay, is_dry_run=request.query.dry_run or body.dry_run)


async def drop_dead_letter(request: Request) -> Response:
    """Mark a dead letter as done without replaying it. It is then no longer open."""
    return await _resolve_one(request, await _require_open(request), _drop, is_dry_run=request.query.dry_run)


async def replay_dead_letters(request: Request) -> Response:
    """Replay the oldest of the open dead letters that match, in the order of their rejection."""
    return await _resolve_many(request, _replay, "replayed")


async def drop_dead_letters(request: Request) -> Response:
    """Drop the oldest of the open dead letters that match."""
    return await _resolve_many(request, _drop, "dropped")


async def drop_all_of_project(context: ApiContext, project: str) -> int:
    """Drop every open dead letter of a project; return how many they were.

    Raises ``Unavailable`` if Kafka cannot be reached, or if there are more than can be dropped at once.
    """
    known = await index_of(context).refreshed(timeout_s=READ_S)
    found = list(matching(known, DeadLetterFilter(project=project), context))[::-1]
    dropped = await _resolve_in_groups(context, found, _drop, "dropped")
    if len(dropped) < len(found):
        raise Unavailable(f"{len(dropped)} of {len(found)} dead letters of the project were dropped. Try again.")
    return len(dropped)


async def _require_open(request: Request) -> DeadLetter:
    dead_letter = await find(request)
    if dead_letter is None:
        dead_letter_id = request.path["dead_letter_id"]
        raise NotFound(f"{dead_letter_id} is not an open dead letter: it was replayed or dropped, or never existed.")
    return dead_letter


def _unreadable(dead_letter: DeadLetter, context: ApiContext) -> str | None:
    """Return why a dead letter cannot be replayed: it has no value, or no worker would read it; it would only disappear
    from the list."""
    if not dead_letter.bytes_count:
        return f"{dead_letter.id} cannot be replayed: {VALUE_NOT_KEPT}"
    if dead_letter.topic in context.settings.kafka.topics:
        return None
    return f"{dead_letter.id} came from the topic {dead_letter.topic}, which CLEARSPAN_KAFKA__TOPICS does not name."


async def _resolve_one(request: Request, dead_letter: DeadLetter, act: Act, *, is_dry_run: bool) -> Response:
    context = request.context
    if is_dry_run:
        return json_response(DeadLetterResolved(dead_letter=summary_of(dead_letter, context), dry_run=True))
    outcomes = await _resolve(context, [dead_letter], act)
    if not outcomes:
        raise Conflict(f"Another request replays or drops {dead_letter.id} now.")
    if isinstance(outcomes[0], ServiceError):
        raise outcomes[0]
    return json_response(DeadLetterResolved(dead_letter=outcomes[0]))


async def _resolve_many(request: Request, act: Act, resolution: Resolution) -> Response:
    context, wanted = request.context, request.body
    assert isinstance(wanted, ResolveDeadLetters)  # noqa: S101 - narrows the type: the body of these routes
    known = await index_of(context).refreshed(timeout_s=READ_S)
    oldest_first = list(matching(known, wanted, context))[::-1]
    skipped: list[Skipped] = []
    if resolution == "replayed":
        reasons = {dead_letter.id: _unreadable(dead_letter, context) for dead_letter in oldest_first}
        skipped = [Skipped(id=name, reason=reason) for name, reason in reasons.items() if reason is not None]
        oldest_first = [dead_letter for dead_letter in oldest_first if reasons[dead_letter.id] is None]
    chosen = oldest_first[: wanted.limit]
    if wanted.dry_run:
        resolved = [summary_of(dead_letter, context) for dead_letter in chosen]
    else:
        resolved = await _resolve_in_groups(context, chosen, act, resolution)
    return json_response(
        DeadLettersResolved(
            count=len(resolved),
            dead_letters=resolved,
            skipped=skipped[: wanted.limit] or None,
            remaining=len(oldest_first) - len(resolved),
            dry_run=wanted.dry_run or None,
            complete=None if is_whole_topic(known, wanted) else False,
            examined=examined_of(known, wanted),
        )
    )


async def _resolve_in_groups(
    context: ApiContext, dead_letters: Sequence[DeadLetter], act: Act, resolution: Resolution
) -> list[DeadLetterSummary]:
    """Replay or drop these in order, until the query budget has passed. Return those that are done.

    Raises the first error, with what was done before it.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + context.settings.query.budget_s
    resolved: list[DeadLetterSummary] = []
    for group in _groups(dead_letters):
        if loop.time() > deadline_s:
            break
        outcomes = await _resolve(context, group, act)
        resolved += [outcome for outcome in outcomes if not isinstance(outcome, ServiceError)]
        error = next((outcome for outcome in outcomes if isinstance(outcome, ServiceError)), None)
        if error is not None and resolved:
            done = f"{len(resolved)} dead letters were {resolution}, then: {error.public_message}"
            raise Unavailable(f"{done} Ask again for the rest.") from error
        if error is not None:
            raise error
    return resolved


async def _resolve(context: ApiContext, dead_letters: Sequence[DeadLetter], act: Act) -> list[Outcome]:
    """Replay or drop these, without those that another request replays or drops now."""

    async def claimed() -> list[Outcome]:
        with index_of(context).claim(dead_letters) as ours:
            return await act(context, ours)

    # A client that leaves must not separate a publish from the mark that follows it.
    return await shielded(asyncio.ensure_future(claimed()))


async def _replay(context: ApiContext, dead_letters: Sequence[DeadLetter]) -> list[Outcome]:
    index = index_of(context)
    records = await index.fetch(dead_letters)

    async def replay(dead_letter: DeadLetter) -> DeadLetterSummary:
        record = records.get(dead_letter.id)
        if record is None:
            raise NotFound(f"The topic {index.topic} no longer holds {dead_letter.id}.")
        where = await replay_record(context.publisher, index.topic, record)
        index.resolve(dead_letter.id)
        return summary_of(dead_letter, context).model_copy(update={"went_to": WentTo(**where._asdict())})

    return await _outcomes(replay(dead_letter) for dead_letter in dead_letters)


async def _drop(context: ApiContext, dead_letters: Sequence[DeadLetter]) -> list[Outcome]:
    index = index_of(context)

    async def drop(dead_letter: DeadLetter) -> DeadLetterSummary:
        rejection = index.rejection_of(dead_letter.id)
        await resolve(context.publisher, index.topic, dead_letter.id, "dropped", rejection=rejection)
        index.resolve(dead_letter.id)
        return summary_of(dead_letter, context)

    return await _outcomes(drop(dead_letter) for dead_letter in dead_letters)


async def _outcomes(running: Iterable[Coroutine[Any, Any, DeadLetterSummary]]) -> list[Outcome]:
    """Run all at once; return what each returned, or how it failed. Raises what is not a ``ServiceError``."""
    outcomes: list[Outcome] = []
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, ServiceError):
            raise outcome
        outcomes.append(outcome)
    return outcomes


def _groups(dead_letters: Sequence[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Divide dead letters into groups within the limits; a larger one is a group of its own."""
    group: list[DeadLetter] = []
    bytes_count = 0
    for dead_letter in dead_letters:
        if group and (len(group) >= GROUP_MAX or bytes_count + dead_letter.bytes_count > GROUP_BYTES_MAX):
            yield group
            group, bytes_count = [], 0
        group.append(dead_letter)
        bytes_count += dead_letter.bytes_count
    if group:
        yield group
