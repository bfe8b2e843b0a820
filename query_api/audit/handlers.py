"""``GET /audit`` and ``GET /admin/audit``: pages of the audit log, newest first.

A page continues below the id of the last entry, so a walk returns everything that was there when it began exactly once,
except what is deleted meanwhile because it is too old.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from common.errors import InvalidCursor
from common.postgres.audit import NO_PROJECT, AuditEntry, AuditFilter, AuditLog
from common.scopes import KeyScope
from common.times import microseconds
from query_api.audit.schemas import (
    AuditEntryOut,
    AuditOfAllParameters,
    AuditParameters,
    AuditResponse,
)
from query_api.request.context import database_of
from query_api.request.json_body import json_response
from query_api.request.route import Access, Request, Response, Route
from query_api.spans.window import fingerprint, read_cursor, write_cursor
from query_api.spans.windowing import WindowingResponse

TAG: Final = "Audit log"
_POSITION: Final = struct.Struct(">q")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US: Final = microseconds(datetime(2, 1, 1, tzinfo=UTC))
_LAST_US: Final = microseconds(datetime(9999, 1, 1, tzinfo=UTC))


async def list_audit(request: Request) -> Response:
    """Return who changed what in the project of the key, and which requests with its keys were refused, newest first.

    Spans that are stored have no entries. A change has its entry before it begins; a refusal within seconds.
    """
    return await _page(request, request.query, request.project_id)


async def list_audit_of_all(request: Request) -> Response:
    """Return who changed what in any project, and which requests were refused, newest first."""
    parameters: AuditOfAllParameters = request.query
    return await _page(request, parameters, parameters.project)


async def _page(request: Request, parameters: AuditParameters, project_id: UUID | None) -> Response:
    context = request.context
    scope = _scope(request, parameters, project_id)
    before_id = None
    if parameters.next is not None:
        position = read_cursor(parameters.next, scope=scope, secret=context.cursor_secret).position
        if len(position) != _POSITION.size:
            raise InvalidCursor("The cursor in `next` cannot be read.")
        (before_id,) = _POSITION.unpack(position)
    wanted = AuditFilter(
        project_id,
        parameters.key_id,
        parameters.operation,
        parameters.outcome,
        parameters.entity_id,
        _bound(parameters.oldest),
        _bound(parameters.newest),
        before_id,
    )
    found = await AuditLog(database_of(context)).read(wanted, count_max=parameters.limit + 1)
    page, windowing = found[: parameters.limit], None
    if len(found) > len(page):
        cursor = write_cursor(_POSITION.pack(page[-1].id), scope=scope, secret=context.cursor_secret)
        windowing = WindowingResponse(next=cursor)
    entries = [_response_entry(entry) for entry in page]
    return json_response(AuditResponse(count=len(entries), entries=entries, windowing=windowing))


def _scope(request: Request, parameters: AuditParameters, project_id: UUID | None) -> bytes:
    rest = parameters.model_dump_json(exclude={"limit", "next"}).encode()
    return fingerprint([b"audit", request.project_id.bytes, str(project_id).encode(), rest])


def _bound(time: datetime | None) -> datetime | None:
    """Return a bound in UTC, the nearest one that Postgres and Python can hold."""
    if time is None:
        return None
    return _EPOCH + timedelta(microseconds=min(max(microseconds(time), _FIRST_US), _LAST_US))


def _response_entry(entry: AuditEntry) -> AuditEntryOut:
    members = entry._asdict()
    if entry.project_id == NO_PROJECT:
        members["project_id"] = None
    return AuditEntryOut(outcome=entry.outcome, **members)


AUDIT_ROUTES: Final = (
    Route(
        "GET",
        "/audit",
        list_audit,
        "List who changed what in the project.",
        TAG,
        AuditResponse,
        query=AuditParameters,
        needs=KeyScope.ADMIN,
    ),
    Route(
        "GET",
        "/admin/audit",
        list_audit_of_all,
        "List who changed what in any project.",
        TAG,
        AuditResponse,
        query=AuditOfAllParameters,
        access=Access.OPERATOR,
    ),
)
