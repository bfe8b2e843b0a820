"""What an environment holds, and what its routes take and give besides what those of every kind do (``registry/shapes.py``).

Source: reference ``applications-api`` §7.5 and §7.6.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, Field, create_model, model_validator

from query_api.registry.bodies import Delta, FlagsIn, ResolveQuestion, RevisionData
from query_api.registry.members import data_alone, revision_shown
from query_api.registry.models import CreatingReference, Loose
from query_api.registry.names import ENVIRONMENTS
from query_api.registry.shapes import Example, Held
from query_api.registry.shaping import shapes_of
from query_api.request.body_models import Listed, Named, Strict
from query_api.request.references import ReferenceIn, Text

Deployment: TypeAlias = Named[Text, ReferenceIn]
"""The references that lead to one deployed revision: ``application``, ``application_variant``, ``application_revision``."""

Deployments: TypeAlias = Named[Annotated[Text, Field(min_length=1)], Deployment]
"""What is deployed, by key; by default the key is the application's slug with ``.revision`` behind it."""


class EnvironmentData(RevisionData):
    """What a revision of an environment holds."""

    references: Deployments | None = None


class EnvironmentDelta(Delta):
    """A change of the head's references, key by key."""

    set: Deployments | None = Field(None, description="Deployed under these keys, in place of what was there.")
    remove: Listed[Text] | None = Field(None, description="Keys under which nothing is deployed any more.")


class EnvironmentFlags(FlagsIn):
    """Flags of an environment."""

    is_guarded: bool | None = Field(
        None, description="Set by `guard` and `unguard`. A mark for people: it forbids nothing."
    )


class EnvironmentFlagsAsked(EnvironmentFlags, Strict):
    """Flags in a question: an unknown one is refused."""


class EnvironmentReferences(Strict):
    """Names a revision of an environment."""

    environment_ref: ReferenceIn | None = None
    environment_variant_ref: ReferenceIn | None = None
    environment_revision_ref: ReferenceIn | None = None


class DeployApplication(Loose):
    """What is deployed, and where. What is named has to be there."""

    environment_ref: CreatingReference | None = None
    environment_variant_ref: CreatingReference | None = None
    environment_revision_ref: CreatingReference | None = None
    application_ref: CreatingReference | None = None
    application_variant_ref: CreatingReference | None = None
    application_revision_ref: CreatingReference | None = None
    key: Text | None = Field(None, description="Under which it is deployed; `<application slug>.revision` if absent.")
    message: Text | None = Field(None, description="Of the commit on the environment.")


class InlineEnvironmentRevision(Strict):
    """A revision that is sent and not stored. Only `data` counts; the other members that answers show are ignored."""

    data: EnvironmentData | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_answered(cls, value: Any) -> Any:
        return data_alone(value, EnvironmentRevision)


class ResolveEnvironmentRevision(EnvironmentReferences, ResolveQuestion):
    """References that lead to a revision, or one that is sent, and how its embedded references are resolved."""

    environment_revision: InlineEnvironmentRevision | None = None


class ResolvedEnvironmentData(BaseModel):
    """What was sent, with what is embedded in it."""

    data: EnvironmentData


_EXAMPLE: Final = Example(
    slug="production",
    name="Production",
    data={
        "references": {
            "faq-bot.revision": {"application": {"slug": "faq-bot"}, "application_revision": {"version": "1"}}
        }
    },
)
SHAPES: Final = shapes_of(
    ENVIRONMENTS,
    Held(
        data=EnvironmentData,
        delta=EnvironmentDelta,
        roles=EnvironmentFlags,
        flags=EnvironmentFlags,
        always_shows_flags=False,
        asked_flags=EnvironmentFlagsAsked,
        example=_EXAMPLE,
    ),
)
EnvironmentRevision: Final[Any] = revision_shown(SHAPES.revisions, ENVIRONMENTS)
RESOLVED: Final = create_model(
    "ResolvedEnvironmentRevisionResponse",
    __base__=SHAPES.revisions.retrieved,
    __doc__="The revision that was named, the data that was sent, or none.",
    __module__=__name__,
    environment_revision=(EnvironmentRevision | ResolvedEnvironmentData | None, None),
)
