"""From requests to the audit log: which requests change something, and what is recorded of them (ADR 0023).

An entry names what a change was about: ids from its path, ids and slugs from its response. Nothing else that a client
sends is recorded: a text in a path may be a key that somebody pasted there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import orjson

from common.errors import ServiceError
from common.ids import DEFAULT_USER_ID
from common.postgres.audit import AuditActor, AuditSubject, BegunWrite, Entities
from common.postgres.keys import KeyOwner
from query_api.audit.recorder import AuditRecorder, ended
from query_api.http.authentication import ended_key
from query_api.http.operation_ids import operation_id
from query_api.request.context import ApiContext
from query_api.request.errors import INTERNAL_STATUS, status_of
from query_api.request.route import NO_PROJECT, Access, Request, Response, Route

ENTITIES_MAX: Final = 10
"""Things of one entry."""

RESPONSE_BYTES_MAX: Final = 256 * 1_024
"""A longer response is not read: the ids of the path stand for it."""

SLUG_CHARACTERS_MAX: Final = 200
_LEVELS: Final = 6
_FREE: Final = frozenset({"attributes", "data", "flags", "links", "meta", "references", "tags"})
"""Members with what a client sent: an id there is not of the thing that was changed."""

_ID: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{16}"
    r"|[0-9]{1,10}-[0-9]{1,20}-[0-9a-f]{16}",
    re.I,
)
"""A UUID, a trace or span id, the id of a dead letter."""


def entities_of_path(path: Mapping[str, str]) -> Entities:
    """Return the ids in the segments of a path."""
    return [{"id": text.lower()} for text in path.values() if _ID.fullmatch(text)]


def entities_of_response(body: bytes) -> Entities:
    """Return the ids and slugs of what a response shows, at most ``ENTITIES_MAX``; none if it is long or no JSON."""
    if len(body) > RESPONSE_BYTES_MAX:
        return []
    try:
        value = orjson.loads(body)
    except ValueError:
        return []
    found: dict[str, dict[str, str]] = {}
    for entity in _found_in(value, _LEVELS):
        found.setdefault(entity["id"], entity)
        if len(found) >= ENTITIES_MAX:
            break
    return list(found.values())


def united(*groups: Entities) -> Entities:
    """Return what the groups name, each thing once, at most ``ENTITIES_MAX``."""
    by_id = {entity["id"]: entity for group in groups for entity in group}
    return list(by_id.values())[:ENTITIES_MAX]


def _found_in(value: Any, levels: int) -> Iterator[dict[str, str]]:
    """Yield every object with an id, but not what is below one: a revision refers to others."""
    if isinstance(value, list) and levels:
        for each in value:
            yield from _found_in(each, levels - 1)
    if not isinstance(value, dict) or not levels:
        return
    entity_id, slug = value.get("id"), value.get("slug")
    if isinstance(entity_id, str) and _ID.fullmatch(entity_id):
        is_short = isinstance(slug, str) and len(slug) <= SLUG_CHARACTERS_MAX
        yield {"id": entity_id, "slug": str(slug)} if is_short else {"id": entity_id}
        return
    for name, each in value.items():
        if name not in _FREE:
            yield from _found_in(each, levels - 1)


CLIENT_GONE_STATUS: Final = 499
"""The status of a request whose client left before the response, in log, metrics and audit log; it is never sent."""

UNKNOWN_PATH: Final = "unknown_path"
"""The operation of a refusal on a path or method that does not exist."""

Handle: TypeAlias = Callable[[Route, Request], Awaitable[Response]]


@dataclass(slots=True)
class Caller:
    """Who sends a request, as far as that is known."""

    address: str | None = None
    owner: KeyOwner | None = None
    """Known as soon as the request is authenticated."""

    is_recorded: bool = False
    """Whether the request has an entry: then a refusal gets no other one."""


async def record_change(
    recorder: AuditRecorder, caller: Caller, route: Route, request: Request, request_id: str, handle: Handle
) -> Response:
    """Call the handler of a route that changes something; write an entry first, and then the outcome.

    Raises ``Unavailable`` without calling it if the entry cannot be written.
    """
    if _is_dry_run(request):
        return await handle(route, request)
    named = entities_of_path(request.path)
    subject = _subject(request.context, caller, route)
    entry_id = await recorder.begin(BegunWrite(subject, request_id, named, route.is_in_postgres))
    caller.is_recorded = True
    status = INTERNAL_STATUS
    entities: Entities = []
    try:
        response = await handle(route, request)
        status = response.status
        if status < 300:
            changed = [{"id": str(changed_id)} for changed_id in response.changed_ids]
            entities = united(named, changed, entities_of_response(response.body))
    except ServiceError as error:
        status = status_of(error)
        raise
    except asyncio.CancelledError:
        status = CLIENT_GONE_STATUS
        raise
    finally:
        recorder.end(ended(entry_id, status, entities))
    return response


def record_refusal(
    recorder: AuditRecorder,
    context: ApiContext,
    caller: Caller,
    route: Route | None,
    headers: Mapping[str, str],
    status: int,
) -> None:
    """Count a response that refuses the request (``REFUSED_STATUSES``), unless the request has an entry."""
    if caller.is_recorded:
        return
    if caller.owner is None and context.keys is not None:
        caller.owner = ended_key(context.keys, headers)
    recorder.refuse(_subject(context, caller, route), status)


_operation_id = lru_cache(maxsize=1_024)(operation_id)


def _subject(context: ApiContext, caller: Caller, route: Route | None) -> AuditSubject:
    owner, address = caller.owner, caller.address[:64] if caller.address else None
    operation = UNKNOWN_PATH if route is None else _operation_id(route.method, route.path)
    if owner is None:
        return AuditSubject(NO_PROJECT, AuditActor.NOBODY, operation, address=address)
    if owner.key_id is not None:
        user_id = None if owner.user_id == DEFAULT_USER_ID else owner.user_id
        return AuditSubject(owner.project_id, AuditActor.KEY, operation, owner.key_id, user_id, address)
    proved_admin = route is not None and (
        route.access is Access.ADMIN or (route.access is Access.OPERATOR and context.keys is not None)
    )
    actor = AuditActor.ADMINISTRATOR if proved_admin else AuditActor.NOBODY
    return AuditSubject(owner.project_id, actor, operation, address=address)


def _is_dry_run(request: Request) -> bool:
    return any(getattr(sent, "dry_run", False) for sent in (request.query, request.body))
