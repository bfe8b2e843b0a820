"""Requests and responses of the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field

from common.postgres.audit import AuditActor, AuditKind, AuditOutcome
from query_api.request.json_body import Strict
from query_api.request.references import Time, refuse_nul
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


class AuditedEntity(BaseModel):
    """A thing that was changed."""

    id: str = Field(description="The id.")
    slug: str | None = Field(None, description="The slug, if it has one.")


class AuditEntryOut(BaseModel):
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


class AuditResponse(BaseModel):
    """A page of the audit log, the newest first."""

    count: int = Field(description="The number of entries in this response.")
    entries: list[AuditEntryOut] = Field(description="The entries, the newest first.")
    windowing: WindowingResponse | None = Field(None, description="Present if there is another page.")
