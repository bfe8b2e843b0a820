"""What an application holds, and what its routes take and give besides what those of every kind do (``registry/shapes.py``).

Source: reference ``applications-api`` §1.4, §7, §8.3; what a revision's spans took is ours.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, create_model, model_validator

from query_api.filter.models import FilteringModel
from query_api.registry.bodies import FlagsIn, ResolveQuestion, RevisionData
from query_api.registry.environments_models import EnvironmentReferences
from query_api.registry.json_schemas import check_json_schema
from query_api.registry.members import data_alone, revision_shown
from query_api.registry.models import Loose, Meta
from query_api.registry.names import APPLICATIONS
from query_api.registry.shapes import Example, Held
from query_api.registry.shaping import shapes_of
from query_api.request.body_models import Named, Strict
from query_api.request.references import ReferenceIn, Text
from query_api.spans.windowing import Moment as StartTime

_STRIPPED: Final = re.compile(r"^ |[\x00-\x1f\x7f]")


def _web_address(text: str) -> str:
    if _STRIPPED.search(text):  # `urlsplit` does not see them, and they would be stored
        raise ValueError("A URL holds no control characters, and no space before it.")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # a port that is none raises
        raise ValueError("A URL begins with http:// or https:// and names a host.")
    return text


WebAddress = Annotated[Text, AfterValidator(_web_address)]
JsonSchema = Annotated[Meta, AfterValidator(check_json_schema)]


def _form(value: Any) -> str:
    return "object" if isinstance(value, dict | ReferenceIn) else "text"


HeaderValue: TypeAlias = Annotated[
    Annotated[Text, Tag("text")] | Annotated[ReferenceIn, Tag("object")], Discriminator(_form)
]
"""A text, or a reference to what holds it."""


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
    headers: Named[Text, HeaderValue] | None = None
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


class FlagsAsked(Flags, Strict):
    """Flags in a question: an unknown one is refused."""


class RetrieveRevision(EnvironmentReferences):
    """References that lead to a revision: directly, or by what is deployed to an environment."""

    application_ref: ReferenceIn | None = None
    application_variant_ref: ReferenceIn | None = None
    application_revision_ref: ReferenceIn | None = None
    key: Text | None = Field(None, description="Under which it is deployed; `<application slug>.revision` if absent.")
    resolve: bool | None = Field(None, description="Whether embedded references are resolved.")


class InlineRevision(Strict):
    """A revision that is sent and not stored. Only `data` counts; the other members that answers show are ignored."""

    data: ApplicationData | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_answered(cls, value: Any) -> Any:
        return data_alone(value, ApplicationRevision)


class ResolvedData(BaseModel):
    """What was sent, with what is embedded in it."""

    data: ApplicationData


class ResolveRevision(ResolveQuestion):
    """References that lead to a revision, or one that is sent, and how its embedded references are resolved."""

    application_ref: ReferenceIn | None = None
    application_variant_ref: ReferenceIn | None = None
    application_revision_ref: ReferenceIn | None = None
    application_revision: InlineRevision | None = None


class RevisionParameters(Strict):
    """What to tell besides the revision: what the spans that refer to it took, in a window of their start_time."""

    include_counts: bool | None = Field(None, description="Whether the spans of the revision are counted.")
    oldest: StartTime = Field(None, description="Where the window begins; default 30 days before newest.")
    newest: StartTime = Field(None, description="Where it ends, itself not in it; default the next midnight, UTC.")


class CountedWindow(BaseModel):
    """The window, as `/spans/query` takes it."""

    newest: str
    oldest: str


class Used(BaseModel):
    """What the spans used; what one repeats of those below it counts once."""

    prompt: float | None = Field(
        None, description="Absent where something was used and no span reports this part of it."
    )
    completion: float | None = Field(None, description="Absent likewise.")
    total: float | None = Field(None, description="Absent likewise.")


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


_EXAMPLE: Final = Example(slug="faq-bot", name="FAQ bot", data={"parameters": {"prompt": "Be brief."}})
_MADE: Final = shapes_of(
    APPLICATIONS, Held(data=ApplicationData, roles=Roles, flags=Flags, asked_flags=FlagsAsked, example=_EXAMPLE)
)
_COUNTED: Final = create_model(
    "CountedRevisionResponse",
    __base__=_MADE.revisions.one,
    __doc__="One revision, or none.",
    __module__=__name__,
    counts=(RevisionCounts | None, Field(None, description="Where they were asked for.")),
)
ApplicationRevision: Final[Any] = revision_shown(_MADE.revisions, APPLICATIONS)
RESOLVED: Final = create_model(
    "ResolvedRevisionResponse",
    __base__=_MADE.revisions.retrieved,
    __doc__="The revision that was named, the data that were sent, or none.",
    __module__=__name__,
    application_revision=(ApplicationRevision | ResolvedData | None, None),
)
SHAPES: Final = replace(
    _MADE,
    revisions=replace(
        _MADE.revisions, retrieve=RetrieveRevision, get_parameters=RevisionParameters, looked_at=_COUNTED
    ),
)
