"""What the application routes take and give, as pydantic models (reference ``applications-api`` §1.2, §1.4, §4–§8)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Json

from common.filter.models import FilteringModel
from query_api.analytics.models import Moment as StartTime
from query_api.applications.json_schemas import check_json_schema
from query_api.lineage.answered import ForkedFrom, Header, Lifecycle, ResolutionInfo, RetrievalInfo
from query_api.lineage.bodies import (
    ArtifactAsked,
    ArtifactCreate,
    ArtifactEdit,
    Asked,
    EntityEdit,
    FlagsIn,
    LogAsked,
    Question,
    RevisionAsked,
    RevisionCommit,
    RevisionCreate,
    RevisionData,
    RevisionRevert,
    SimpleCreate,
    SimpleEdit,
    VariantCreate,
)
from query_api.lineage.models import Loose, Meta, Moment, Order, ReferenceIn, Slug, Tags, Text

_OLDER: Final = "An older name of the same."


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # a port that is none raises
        raise ValueError("A URL begins with http:// or https:// and names a host.")
    return text


WebAddress = Annotated[Text, AfterValidator(_web_address)]
JsonSchema = Annotated[Meta, AfterValidator(check_json_schema)]


class Runtime(StrEnum):
    """What runs a script."""

    PYTHON = "python"
    TYPESCRIPT = "typescript"
    JAVASCRIPT = "javascript"


class Schemas(Loose):
    """What an application takes and gives, as JSON Schemas."""

    parameters: JsonSchema | None = None
    inputs: JsonSchema | None = None
    outputs: JsonSchema | None = None


class ApplicationData(RevisionData):
    """What a revision of an application holds."""

    uri: Text | None = Field(None, description="provider:kind:key:version")
    url: WebAddress | None = None
    headers: dict[Text, Text | ReferenceIn] | None = None
    runtime: Runtime | None = None
    script: Text | None = None
    schemas: Schemas | None = None
    parameters: Meta | None = Field(None, description="Free: prompts, models, temperatures, …")


class Roles(FlagsIn):
    """What an artifact is. Always an application here."""

    is_application: bool | None = None
    is_evaluator: bool | None = None
    is_snippet: bool | None = None


class Flags(Roles):
    """All flags. Those besides the roles follow from what a revision holds."""

    is_managed: bool | None = None
    is_custom: bool | None = None
    is_llm: bool | None = None
    is_hook: bool | None = None
    is_code: bool | None = None
    is_match: bool | None = None
    is_feedback: bool | None = None
    is_agent: bool | None = None
    is_skill: bool | None = None
    is_chat: bool | None = None
    has_url: bool | None = None
    has_script: bool | None = None
    has_handler: bool | None = None
    is_static: bool | None = None


class OfApplication(Loose):
    """The application, by its id."""

    application_id: UUID | None = None
    workflow_id: UUID | None = Field(None, description=_OLDER)
    artifact_id: UUID | None = Field(None, description=_OLDER)


class OfVariant(OfApplication):
    """The variant, by its id."""

    application_variant_id: UUID | None = None
    workflow_variant_id: UUID | None = Field(None, description=_OLDER)
    variant_id: UUID | None = Field(None, description=_OLDER)


class ChosenId(Loose):
    """The id that a new application gets, if the caller chooses it."""

    application_id: UUID | None = None


# Applications


class ApplicationCreate(ArtifactCreate):
    """A new application."""

    flags: Roles | None = None


class ApplicationEdit(ArtifactEdit):
    """What changes of an application; what is absent stays."""

    flags: Roles | None = None


class ApplicationAsked(ArtifactAsked):
    """What applications have in common."""

    flags: Roles | None = None


class CreateApplication(Loose):
    """An application to be made."""

    model_config = ConfigDict(
        frozen=True, json_schema_extra={"examples": [{"application": {"slug": "faq-bot", "name": "FAQ bot"}}]}
    )

    application: ApplicationCreate


class EditApplication(Loose):
    """The changes of an application."""

    application: ApplicationEdit


class ApplicationsQuestion(Question):
    """A question about applications."""

    application: ApplicationAsked | None = None
    application_refs: list[ReferenceIn] | None = None


# Variants


class ApplicationVariantCreate(VariantCreate, OfApplication):
    """A new variant of an application."""

    flags: Roles | None = Field(None, description="Ignored: a variant shows its application's.")


class ApplicationVariantFork(VariantCreate):
    """The variant that a fork makes."""

    flags: Roles | None = Field(None, description="Ignored: a variant shows its application's.")


class VariantAsked(Asked):
    """What variants have in common."""

    flags: Roles | None = Field(None, description="Those of the application.")


class CreateVariant(Loose):
    """A variant to be made."""

    application_variant: ApplicationVariantCreate


class EditVariant(Loose):
    """What is written about a variant."""

    application_variant: EntityEdit


class ForkVariant(Loose):
    """A fork to be made."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "application_variant": {"slug": "faq-bot.experiment"},
                    "application_variant_ref": {"slug": "faq-bot.main"},
                    "application_revision_ref": {"version": "1"},
                }
            ]
        },
    )

    application_variant: ApplicationVariantFork
    application_variant_ref: ReferenceIn = Field(description="The variant to fork, by id or slug.")
    application_revision_ref: ReferenceIn | None = Field(
        None, description="The last revision to copy; the newest if absent."
    )


class ForkParameters(Loose):
    """The variant to fork, another way to say it."""

    application_variant_id: UUID | None = None


class VariantsQuestion(Question):
    """A question about variants."""

    application_variant: VariantAsked | None = None
    application_refs: list[ReferenceIn] | None = None
    application_variant_refs: list[ReferenceIn] | None = None


class VariantsParameters(Loose):
    """The same question in the query string; what the body says wins."""

    application_id: list[UUID] = Field([])
    application_ids: list[UUID] = Field([])
    application_slug: list[Slug] = Field([])
    application_slugs: list[Slug] = Field([])
    application_variant_id: list[UUID] = Field([])
    application_variant_ids: list[UUID] = Field([])
    application_variant_slug: list[Slug] = Field([])
    application_variant_slugs: list[Slug] = Field([])
    name: Text | None = None
    description: Text | None = None
    flags: Json[Roles] | None = Field(None, description="A JSON object.")
    tags: Json[Tags] | None = Field(None, description="A JSON object.")
    meta: Json[Meta] | None = Field(None, description="A JSON object.")
    include_archived: bool | None = None
    next: UUID | None = Field(None, description="The id of the last row of the page before.")
    newest: Moment | None = None
    oldest: Moment | None = None
    limit: int | None = None
    order: Order | None = None


# Revisions


class ApplicationRevisionCommit(RevisionCommit, OfVariant):
    """A commit on a variant."""

    flags: Flags | None = Field(None, description="Ignored: they follow from the data.")
    data: ApplicationData | None = Field(None, description="All of it: nothing is taken over from the head.")


class ApplicationRevisionCreate(RevisionCreate, OfVariant):
    """Version 0 of a variant, without data."""

    flags: Flags | None = Field(None, description="Ignored: they follow from the data.")


class ApplicationRevisionEdit(EntityEdit):
    """What is written about a revision, as a whole: what is absent is cleared."""

    flags: Flags | None = Field(None, description="Ignored: they follow from the data.")


class ApplicationRevisionAsked(RevisionAsked):
    """What revisions have in common."""

    flags: Flags | None = None


class ApplicationRevisionsLog(LogAsked, OfVariant):
    """Whose log: back from a revision, else of a variant, else of the first variant of an application."""

    application_revision_id: UUID | None = None
    workflow_revision_id: UUID | None = Field(None, description=_OLDER)
    revision_id: UUID | None = Field(None, description=_OLDER)


class CommitRevision(Loose):
    """A commit to be made."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "application_revision": {
                        "application_variant_id": "01a1fbd8-c525-7140-a8ae-e79b3fba464c",
                        "message": "tighter tone",
                        "data": {"parameters": {"prompt": "Be brief."}},
                    }
                }
            ]
        },
    )

    application_revision: ApplicationRevisionCommit


class CreateRevision(Loose):
    """The first revision of a variant."""

    application_revision: ApplicationRevisionCreate


class EditRevision(Loose):
    """What is written about a revision."""

    application_revision: ApplicationRevisionEdit


class RevisionParameters(Loose):
    """What to tell besides the revision: what the spans that refer to it took, in a window of their start_time."""

    include_counts: bool | None = Field(None, description="Whether the spans of the revision are counted.")
    oldest: StartTime = Field(None, description="Where the window begins; default 30 days before newest.")
    newest: StartTime = Field(None, description="Where it ends, itself not in it; default the next midnight, UTC.")


class RevertRevision(Loose):
    """How a revert is committed; everything may be absent."""

    application_revision: RevisionRevert | None = None


class RevisionsQuestion(Question):
    """A question about revisions."""

    application_revision: ApplicationRevisionAsked | None = None
    application_refs: list[ReferenceIn] | None = None
    application_variant_refs: list[ReferenceIn] | None = None
    application_revision_refs: list[ReferenceIn] | None = None


class LogRevisions(Loose):
    """Whose log."""

    application_revisions: ApplicationRevisionsLog


class RetrieveRevision(Loose):
    """References that lead to a revision: directly, or by what is deployed to an environment."""

    application_ref: ReferenceIn | None = None
    application_variant_ref: ReferenceIn | None = None
    application_revision_ref: ReferenceIn | None = None
    environment_ref: ReferenceIn | None = None
    environment_variant_ref: ReferenceIn | None = None
    environment_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description="Under which it is deployed; `<application slug>.revision` if absent.")
    resolve: bool | None = Field(None, description="Tell also what was embedded in the data.")


class InlineRevision(Loose):
    """A revision that is sent and not stored."""

    data: ApplicationData | None = None


class ErrorPolicy(StrEnum):
    """What becomes of an embedded reference that leads nowhere."""

    EXCEPTION = "exception"
    PLACEHOLDER = "placeholder"
    KEEP = "keep"


class ResolveRevision(Loose):
    """References that lead to a revision, or one that is sent."""

    application_ref: ReferenceIn | None = None
    application_variant_ref: ReferenceIn | None = None
    application_revision_ref: ReferenceIn | None = None
    application_revision: InlineRevision | None = None
    max_depth: int = 10
    max_embeds: int = 100
    error_policy: ErrorPolicy = ErrorPolicy.EXCEPTION


# Simple applications


class SimpleApplicationCreate(SimpleCreate):
    """An application with what its first revision holds."""

    flags: Flags | None = None
    data: ApplicationData | None = None


class SimpleApplicationEdit(SimpleEdit):
    """What changes; anything but `id` makes a revision."""

    flags: Flags | None = None
    data: ApplicationData | None = None


class SimpleApplicationAsked(ArtifactAsked):
    """What applications have in common, with the newest revision of their first variant."""

    flags: Flags | None = None


class CreateSimpleApplication(Loose):
    """An application to be made, with a variant and its first revisions."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [{"application": {"slug": "faq-bot", "data": {"parameters": {"prompt": "Be kind."}}}}]
        },
    )

    application: SimpleApplicationCreate


class EditSimpleApplication(Loose):
    """The changes of an application."""

    application: SimpleApplicationEdit


class SimpleApplicationsQuestion(Question):
    """A question about applications."""

    application: SimpleApplicationAsked | None = None
    application_refs: list[ReferenceIn] | None = None


# Answers


class Application(Header, Lifecycle):
    """An application."""

    flags: Roles
    folder_id: UUID | None = None


class ApplicationVariant(Header, Lifecycle):
    """A variant of an application."""

    application_id: UUID
    workflow_id: UUID = Field(description=_OLDER)
    artifact_id: UUID = Field(description=_OLDER)
    application_slug: str | None = None
    workflow_slug: str | None = None
    artifact_slug: str | None = None
    flags: Roles
    forked_from: ForkedFrom | None = None


class ApplicationRevision(Header, Lifecycle):
    """A revision of a variant."""

    version: str = Field(description='"0", "1", "2", … without a gap.')
    application_id: UUID
    workflow_id: UUID = Field(description=_OLDER)
    artifact_id: UUID = Field(description=_OLDER)
    application_variant_id: UUID
    workflow_variant_id: UUID = Field(description=_OLDER)
    variant_id: UUID = Field(description=_OLDER)
    application_slug: str | None = None
    workflow_slug: str | None = None
    artifact_slug: str | None = None
    application_variant_slug: str | None = None
    workflow_variant_slug: str | None = None
    variant_slug: str | None = None
    author: UUID
    date: datetime
    message: str | None = None
    flags: Flags
    data: ApplicationData | None = None


class SimpleApplication(Header, Lifecycle):
    """An application with what the newest revision of its first variant holds."""

    flags: Flags
    data: ApplicationData
    variant_id: UUID
    revision_id: UUID


class ApplicationAnswer(BaseModel):
    """One application, or none."""

    count: int
    application: Application | None = None


class ApplicationsAnswer(BaseModel):
    """A page of applications."""

    count: int
    applications: list[Application]


class VariantAnswer(BaseModel):
    """One variant, or none."""

    count: int
    application_variant: ApplicationVariant | None = None


class VariantsAnswer(BaseModel):
    """A page of variants."""

    count: int
    application_variants: list[ApplicationVariant]


class RevisionAnswer(BaseModel):
    """One revision, or none."""

    count: int
    application_revision: ApplicationRevision | None = None


class CountedWindow(BaseModel):
    """The window, as `/spans/query` takes it."""

    newest: str
    oldest: str


class Used(BaseModel):
    """What the spans used; what one repeats of those below it counts once."""

    prompt: float
    completion: float
    total: float


class Lasted(BaseModel):
    """Percentiles, between two values by straight line."""

    p50: float
    p90: float
    p95: float
    p99: float


class RevisionCounts(BaseModel):
    """What the spans took that refer to a revision and start in a window."""

    windowing: CountedWindow
    filtering: FilteringModel = Field(
        description="Which spans: with `windowing` a body of `/spans/query` that lists them."
    )
    spans: int
    traces: int = Field(description="In which they stand.")
    calls: int = Field(description="Of models: spans of the types llm, chat, completion, embedding and rerank.")
    errors: int = Field(description="Spans whose status is an error, or that have an event named exception.")
    tokens: Used
    costs: Used
    duration_ms: Lasted | None = Field(
        None, description="Of a run: in each trace from their first start to their last end. Absent without spans."
    )


class CountedRevisionAnswer(RevisionAnswer):
    """One revision, or none."""

    counts: RevisionCounts | None = Field(None, description="Where they were asked for.")


class RevisionsAnswer(BaseModel):
    """A page of revisions, or a log."""

    count: int
    application_revisions: list[ApplicationRevision]


class RetrievedAnswer(RevisionAnswer):
    """The revision that was named, or none."""

    resolution_info: ResolutionInfo | None = Field(None, description="Where resolving was asked for.")
    retrieval_info: RetrievalInfo | None = None


class SimpleApplicationAnswer(BaseModel):
    """One application, or none."""

    count: int
    application: SimpleApplication | None = None


class SimpleApplicationsAnswer(BaseModel):
    """A page of applications."""

    count: int
    applications: list[SimpleApplication]
