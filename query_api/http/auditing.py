"""From requests to the audit log: which requests change something, and what is recorded of them (ADR 0023)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from common.errors import ServiceError
from common.ids import DEFAULT_USER_ID
from common.postgres.audit import AuditActor, AuditSubject, BegunWrite, Entities
from common.postgres.keys import KeyOwner
from query_api.audit.entities import entities_of_path, entities_of_response, united
from query_api.audit.recorder import AuditRecorder, ended
from query_api.http.authentication import ended_key
from query_api.http.operation_ids import operation_id
from query_api.request.context import ApiContext
from query_api.request.errors import INTERNAL_STATUS, status_of
from query_api.request.route import NO_PROJECT, Access, Request, Response, Route

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
