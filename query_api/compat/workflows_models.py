"""What is sent and answered about workflows (reference ``applications-api`` §7.7)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from query_api.registry.answered import Header, Lifecycle, ResolutionInfo, RetrievalInfo
from query_api.registry.applications_models import ApplicationData, Flags, ResolvedData
from query_api.registry.bodies import ResolveQuestion
from query_api.registry.environments_models import EnvironmentReferences
from query_api.registry.members import data_alone
from query_api.request.body_models import Strict
from query_api.request.references import ReferenceIn, Text

_OLDER: Final = "The same under another name."


class RetrieveWorkflowRevision(EnvironmentReferences):
    """References that lead to a revision: directly, or by what is deployed to an environment."""

    workflow_ref: ReferenceIn | None = None
    workflow_variant_ref: ReferenceIn | None = None
    workflow_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description="Under which it is deployed; `<workflow slug>.revision` if absent.")
    resolve: bool | None = Field(None, description="Whether embedded references are resolved.")


class InlineWorkflowRevision(Strict):
    """A revision that is sent and not stored. Only `data` counts; the other members that answers show are ignored."""

    data: ApplicationData | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_answered(cls, value: Any) -> Any:
        return data_alone(value, WorkflowRevision)


class ResolveWorkflowRevision(ResolveQuestion):
    """References that lead to a revision, or one that is sent, and how its embedded references are resolved."""

    workflow_ref: ReferenceIn | None = None
    workflow_variant_ref: ReferenceIn | None = None
    workflow_revision_ref: ReferenceIn | None = None
    workflow_revision: InlineWorkflowRevision | None = None


class WorkflowRevision(Header, Lifecycle):
    """A revision of an application, in the words of workflows."""

    version: str
    workflow_id: UUID
    artifact_id: UUID = Field(description=_OLDER)
    workflow_variant_id: UUID
    variant_id: UUID = Field(description=_OLDER)
    workflow_slug: str | None = None
    artifact_slug: str | None = None
    workflow_variant_slug: str | None = None
    variant_slug: str | None = None
    author: UUID
    date: datetime
    message: str | None = None
    flags: Flags
    data: ApplicationData | None = None


class WorkflowRetrievedResponse(BaseModel):
    """The revision that was named, or none."""

    count: int
    workflow_revision: WorkflowRevision | None = None
    resolution_info: ResolutionInfo | None = Field(None, description="Where resolving was asked for.")
    retrieval_info: RetrievalInfo | None = None


class WorkflowResolvedResponse(WorkflowRetrievedResponse):
    """The revision that was named, the data that was sent, or none."""

    workflow_revision: WorkflowRevision | ResolvedData | None = None  # type: ignore[assignment] # wider, in an answer
