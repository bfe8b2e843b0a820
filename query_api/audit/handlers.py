"""``GET /audit`` and ``GET /admin/audit``: pages of the audit log, newest first.

A page continues below the id of the last entry, so a walk returns everything that was there when it began exactly once,
except what is deleted meanwhile because it is too old.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, Field

from common.errors import InvalidCursor
from common.postgres.audit import NO_PROJECT, AuditActor, AuditEntry, AuditFilter, AuditKind, AuditLog, AuditOutcome
from common.scopes import KeyScope
from common.times import microseconds
from query_api.request.context import database_of
from query_api.request.json_body import ApiModel, Strict, json_response
from query_api.request.references import Time, refuse_nul
from query_api.request.route import Access, Request, Response, Route
from query_api.spans.window import fingerprint, read_cursor, write_cursor
from query_api.spans.windowing import WindowingResponse

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
"""Entries on a page."""

_NAME_CHARACTERS_MAX: Final = 200

_Name = Annotated[str, Field(max_length=_NAME_CHARACTERS_MAX), AfterValidator(refuse_nul)]


class AuditParameters(Strict):
    """Which entries of the audit log, and the page. Every member that is given must match."""

    key_id: UUID | None = Field(None, description="Only what was done with this key.")
    operation: _Name | None = Field(
        None, description="Only this operation: the `operationId` of this document, such as `create_key`."
    )
    outcome: AuditOutcome | None = Field(
        None,
        description="`done`; `failed`: it changed nothing; `refused`: 401, 403 or 429; `unknown`: it is running, or its"
        " process ended, or it failed and may have changed something.",
    )
    entity_id: _Name | None = Field(None, description="Only changes of the thing with this id.")
    oldest: Time | None = Field(None, description="The first time; included.")
    newest: Time | None = Field(None, description="The end of the time; excluded.")
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="Entries on a page.")] = PAGE_DEFAULT
    next: str | None = Field(None, max_length=1_000, description="The cursor that the last page returned.")


class AuditOfAllParameters(AuditParameters):
    """Which entries of the audit log of all projects, and the page."""

    project: UUID | None = Field(
        None, description="Only this project, also one that was deleted; zeros: only what is of no project."
    )


class AuditedEntity(ApiModel):
    """A thing that was changed."""

    id: str = Field(description="The id.")
    slug: str | None = Field(None, description="The slug, if it has one.")


class AuditEntryOut(ApiModel):
    """A change, or refused requests that are equal."""

    id: int = Field(description="The id of the entry. Later entries have larger ids.")
    kind: AuditKind = Field(description="`write` is a change, `refusal` a request that was refused before it began.")
    outcome: AuditOutcome = Field(description="How the request ended.")
    at: datetime = Field(description="When it began; of refusals, when the first was refused.")
    until: datetime | None = Field(None, description="Of refusals: when the last was refused.")
    requests_count: int = Field(description="How many requests the entry stands for.")
    operation: str = Field(
        description="The `operationId` of this document, or a command such as `clearspan keys create`;"
        " `unknown_path`; or `several`, if too many different requests were refused."
    )
    status: int | None = Field(None, description="The status of the response. Absent: the outcome is not known.")
    actor: AuditActor = Field(
        description="`key`; `administrator`: the admin key; `command_line`: a command on a server; `nobody`: no valid"
        " key, or no authentication."
    )
    actor_name: str | None = Field(None, description="The name of the key, or the user of the command line.")
    key_id: UUID | None = Field(None, description="The id of the key.")
    user_id: UUID | None = Field(None, description="The user of the key, if it has one.")
    address: str | None = Field(None, description="The address from which the connection came.")
    project_id: UUID | None = Field(None, description="The project. Absent: none.")
    request_id: str | None = Field(None, description="The `X-Request-Id` of the response, as in the log.")
    entities: list[AuditedEntity] = Field(description="What was changed, at most 10.")


class AuditResponse(ApiModel):
    """A page of the audit log, the newest first."""

    count: int = Field(description="The number of entries in this response.")
    entries: list[AuditEntryOut] = Field(description="The entries, the newest first.")
    windowing: WindowingResponse | None = Field(None, description="Present if there is another page.")


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
