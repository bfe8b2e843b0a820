"""What is sent and answered about environments (reference ``applications-api`` §7.5 and §7.6). What every kind shares: ``lineage/bodies.py``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, TypeAlias
from uuid import UUID

from pydantic import BaseModel, Field

from query_api.lineage.answered import ForkedFrom, Header, Lifecycle, ResolutionInfo, RetrievalInfo
from query_api.lineage.bodies import (
    ArtifactAsked,
    ArtifactCreate,
    ArtifactEdit,
    Asked,
    Delta,
    EntityEdit,
    LogAsked,
    Question,
    RevisionAsked,
    RevisionCommit,
    RevisionCreate,
    RevisionData,
    SimpleCreate,
    SimpleEdit,
    VariantCreate,
)
from query_api.lineage.models import Loose, ReferenceIn, Text

_OLDER: Final = "The same under another name."

Deployment: TypeAlias = dict[Text, ReferenceIn]
"""The references that lead to one deployed revision: ``application``, ``application_variant``, ``application_revision``."""

Deployments: TypeAlias = dict[Annotated[Text, Field(min_length=1)], Deployment]
"""What is deployed, by key; by default the key is the application's slug with ``.revision`` behind it."""


class EnvironmentData(RevisionData):
    """What a revision of an environment holds."""

    references: Deployments | None = None


class EnvironmentDelta(Delta):
    """A change of the head's references, key by key."""

    set: Deployments | None = Field(None, description="Deployed under these keys, in place of what was there.")
    remove: list[Text] | None = Field(None, description="Keys under which nothing is deployed any more.")


class ChosenEnvironmentId(Loose):
    """The id of what is created, if the caller chooses it."""

    environment_id: UUID | None = None


class CreateEnvironment(Loose):
    """A new environment."""

    environment: ArtifactCreate


class EditEnvironment(Loose):
    """A change of an environment."""

    environment: ArtifactEdit


class QueryEnvironments(Question):
    """Which environments."""

    environment: ArtifactAsked | None = None
    environment_refs: list[ReferenceIn] | None = None


class ForkEnvironmentVariant(Loose):
    """A new variant with the history of another."""

    environment_variant: VariantCreate
    environment_variant_ref: ReferenceIn = Field(description="The variant to fork, by id or slug.")
    environment_revision_ref: ReferenceIn | None = Field(
        None, description="The last revision to copy; the newest if absent."
    )


class EnvironmentVariantCreate(VariantCreate):
    """A new variant."""

    environment_id: UUID | None = Field(None, description="Its parent.")
    artifact_id: UUID | None = Field(None, description=_OLDER)


class CreateEnvironmentVariant(Loose):
    """A new variant of an environment."""

    environment_variant: EnvironmentVariantCreate


class EditEnvironmentVariant(Loose):
    """What is written about a variant."""

    environment_variant: EntityEdit


class QueryEnvironmentVariants(Question):
    """Which variants."""

    environment_variant: Asked | None = None
    environment_refs: list[ReferenceIn] | None = None
    environment_variant_refs: list[ReferenceIn] | None = None


class EnvironmentRevisionIds(Loose):
    """Where a commit goes."""

    environment_variant_id: UUID | None = Field(None, description="The variant.")
    variant_id: UUID | None = Field(None, description=_OLDER)
    environment_id: UUID | None = Field(None, description="Its environment; has to be true if given.")
    artifact_id: UUID | None = Field(None, description=_OLDER)


class EnvironmentRevisionCreate(RevisionCreate, EnvironmentRevisionIds):
    """The first revision of a variant."""


class CreateEnvironmentRevision(Loose):
    """The first revision of a variant, without data."""

    environment_revision: EnvironmentRevisionCreate


class EnvironmentRevisionCommit(RevisionCommit, EnvironmentRevisionIds):
    """A new head of a variant."""

    data: EnvironmentData | None = Field(None, description="All of it: nothing is taken over from the head.")
    delta: EnvironmentDelta | None = Field(
        None, description="In place of `data`: what changes of the head's references."
    )


class CommitEnvironmentRevision(Loose):
    """A commit."""

    environment_revision: EnvironmentRevisionCommit


class EditEnvironmentRevision(Loose):
    """What is written about a revision."""

    environment_revision: EntityEdit


class QueryEnvironmentRevisions(Question):
    """Which revisions."""

    environment_revision: RevisionAsked | None = None
    environment_refs: list[ReferenceIn] | None = None
    environment_variant_refs: list[ReferenceIn] | None = None
    environment_revision_refs: list[ReferenceIn] | None = None


class EnvironmentLogAsked(LogAsked):
    """Whose log."""

    environment_revision_id: UUID | None = None
    revision_id: UUID | None = None
    environment_variant_id: UUID | None = None
    variant_id: UUID | None = None
    environment_id: UUID | None = None
    artifact_id: UUID | None = None


class LogEnvironmentRevisions(Loose):
    """A log."""

    environment_revisions: EnvironmentLogAsked


class EnvironmentReferences(Loose):
    """Names a revision of an environment."""

    environment_ref: ReferenceIn | None = None
    environment_variant_ref: ReferenceIn | None = None
    environment_revision_ref: ReferenceIn | None = None


class RetrieveEnvironmentRevision(EnvironmentReferences):
    """Which revision."""

    resolve: bool | None = Field(
        None, description="Data is answered as it was committed, and `resolution_info` says so."
    )


class SimpleEnvironmentCreate(SimpleCreate):
    """An environment with what is deployed there."""

    data: EnvironmentData | None = None


class CreateSimpleEnvironment(Loose):
    """A new environment with a variant and two revisions."""

    environment: SimpleEnvironmentCreate


class SimpleEnvironmentEdit(SimpleEdit):
    """What changes; anything but `id` makes a revision."""

    data: EnvironmentData | None = None


class EditSimpleEnvironment(Loose):
    """A change of an environment or of what is deployed there."""

    environment: SimpleEnvironmentEdit


class DeployApplication(EnvironmentReferences):
    """What is deployed, and where. What is named has to be there."""

    application_ref: ReferenceIn | None = None
    application_variant_ref: ReferenceIn | None = None
    application_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description="Under which it is deployed; `<application slug>.revision` if absent.")
    message: Text | None = Field(None, description="Of the commit on the environment.")


# Answers


class Environment(Header, Lifecycle):
    """An environment."""

    folder_id: UUID | None = None


class EnvironmentVariant(Header, Lifecycle):
    """A variant of an environment."""

    environment_id: UUID
    artifact_id: UUID = Field(description=_OLDER)
    environment_slug: str | None = None
    artifact_slug: str | None = None
    forked_from: ForkedFrom | None = None


class EnvironmentRevision(Header, Lifecycle):
    """A revision of a variant: what is deployed, and since when."""

    version: str = Field(description='"0", "1", "2", … without a gap.')
    environment_id: UUID
    artifact_id: UUID = Field(description=_OLDER)
    environment_variant_id: UUID
    variant_id: UUID = Field(description=_OLDER)
    environment_slug: str | None = None
    artifact_slug: str | None = None
    environment_variant_slug: str | None = None
    variant_slug: str | None = None
    author: UUID
    date: datetime
    message: str | None = None
    data: EnvironmentData | None = None


class SimpleEnvironment(Environment):
    """An environment with what is deployed there now."""

    data: EnvironmentData
    variant_id: UUID
    revision_id: UUID


class EnvironmentAnswer(BaseModel):
    """One environment, or none."""

    count: int
    environment: Environment | None = None


class EnvironmentsAnswer(BaseModel):
    """A page of environments."""

    count: int
    environments: list[Environment]


class EnvironmentVariantAnswer(BaseModel):
    """One variant, or none."""

    count: int
    environment_variant: EnvironmentVariant | None = None


class EnvironmentVariantsAnswer(BaseModel):
    """A page of variants."""

    count: int
    environment_variants: list[EnvironmentVariant]


class EnvironmentRevisionAnswer(BaseModel):
    """One revision, or none."""

    count: int
    environment_revision: EnvironmentRevision | None = None


class EnvironmentRevisionsAnswer(BaseModel):
    """A page of revisions, or a log."""

    count: int
    environment_revisions: list[EnvironmentRevision]


class EnvironmentRetrievedAnswer(EnvironmentRevisionAnswer):
    """The revision that was named, or none."""

    resolution_info: ResolutionInfo | None = Field(None, description="Where resolving was asked for.")
    retrieval_info: RetrievalInfo | None = None


class SimpleEnvironmentAnswer(BaseModel):
    """One environment, or none."""

    count: int
    environment: SimpleEnvironment | None = None


class SimpleEnvironmentsAnswer(BaseModel):
    """A page of environments."""

    count: int
    environments: list[SimpleEnvironment]
