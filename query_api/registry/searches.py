"""The models of queries for artifacts, variants and revisions.

Every query takes the same as parameters; the body wins, member by member. References in one list are alternatives;
lists narrow each other. Source: reference ``applications-api`` §8, ``spans-api`` §9.2.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar
from uuid import UUID

from pydantic import BeforeValidator, Field, Json

from common.errors import InvalidInput
from query_api.registry.kinds import (
    FlagsFilter,
    IdWindowing,
    Labels,
    Mark,
    Meta,
    Moment,
    PerKind,
    SpelledId,
    Tags,
    storable_json,
)
from query_api.request.json_body import Listed, Strict
from query_api.request.references import NamedSlug, ReferenceIn, Text
from query_api.spans.windowing import Order

_PART: Final = "Text that it contains; case is ignored."

_Ids: TypeAlias = Annotated[list[UUID], Mark.OWN_NAME]
_Slugs: TypeAlias = Annotated[list[NamedSlug], Mark.OWN_NAME]
_Versions: TypeAlias = Annotated[list[Text], Mark.OWN_NAME]


class EntityFilter(Strict, PerKind):
    """Conditions on the rows to return; all given members must match."""

    slug: Text | None = None
    slugs: Listed[Text] | None = Field(None, description="The row has `slug` or one of these slugs.")
    name: Text | None = Field(None, description=_PART)
    description: Text | None = Field(None, description=_PART)
    tags: Tags | None = Field(None, description="Tags of the row; it may have more.")
    meta: Meta | None = Field(None, description="Metadata of the row; it may have more.")
    flags: FlagsFilter | None = None


class ArtifactFilter(EntityFilter):
    """Conditions on the artifacts to return; all given members must match."""

    folder_id: UUID | None = Field(None, description="`null` selects artifacts that are in no folder.")


class RevisionFilter(EntityFilter):
    """Conditions on the revisions to return; all given members must match."""

    version: Text | None = None
    message: Text | None = Field(None, description=_PART)
    author: UUID | None = None
    authors: Listed[UUID] | None = None
    date: Moment | None = None
    dates: Listed[Moment] | None = None
    variant_id: SpelledId = None
    artifact_id: SpelledId = None


class EntityQuery(Strict, PerKind):
    """Selects rows of one layer."""

    include_archived: bool | None = None
    windowing: IdWindowing | None = None
    filter: EntityFilter | None = None
    artifact_refs: Listed[ReferenceIn] | None = None


class QueryArtifacts(EntityQuery):
    """Selects artifacts."""

    filter: ArtifactFilter | None = Field(None, alias="artifact")


class QueryVariants(EntityQuery):
    """Selects variants."""

    filter: EntityFilter | None = Field(None, alias="variant")
    variant_refs: Listed[ReferenceIn] | None = None


class QueryRevisions(QueryVariants):
    """Selects revisions."""

    filter: RevisionFilter | None = Field(None, alias="revision")
    revision_refs: Listed[ReferenceIn] | None = None


class ArtifactParameters(Strict, PerKind):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact",)
    """The layers that the parameters refer to."""

    name: Text | None = None
    description: Text | None = None
    tags: Json[Tags] | None = Field(None, description="A JSON object.")
    meta: Json[Meta] | None = Field(None, description="A JSON object.")
    flags: Json[Annotated[FlagsFilter, BeforeValidator(storable_json)]] | None = Field(
        None, description="A JSON object."
    )
    include_archived: bool | None = None
    next: UUID | None = Field(None, description="The id of the last row of the previous page.")
    newest: Moment | None = None
    oldest: Moment | None = None
    limit: int | None = None
    order: Order | None = None
    artifact_id: _Ids = Field([])
    artifact_ids: _Ids = Field([])
    artifact_slug: _Slugs = Field([])
    artifact_slugs: _Slugs = Field([])


class VariantParameters(ArtifactParameters):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact", "variant")
    variant_id: _Ids = Field([])
    variant_ids: _Ids = Field([])
    variant_slug: _Slugs = Field([])
    variant_slugs: _Slugs = Field([])


class RevisionParameters(VariantParameters):
    """The members of the body as query parameters; the body takes precedence."""

    layers: ClassVar[tuple[str, ...]] = ("artifact", "variant", "revision")
    revision_id: _Ids = Field([])
    revision_ids: _Ids = Field([])
    revision_slug: _Slugs = Field([])
    revision_slugs: _Slugs = Field([])
    revision_version: _Versions = Field([])
    revision_versions: _Versions = Field([])


Query = TypeVar("Query", bound=EntityQuery)


def with_parameters(query: Query, parameters: ArtifactParameters | None) -> Query:
    """Return the query, with the parameters as values of the members that it lacks.

    Without a parameter for the window there is no window: all rows are returned, oldest first.
    """
    if parameters is None:
        return query
    given: dict[str, Any] = {
        "filter": _given(EntityFilter, parameters, "name", "description", "tags", "meta", "flags"),
        "windowing": _given(IdWindowing, parameters, "next", "newest", "oldest", "limit", "order"),
        "include_archived": parameters.include_archived,
        **{f"{layer}_refs": _references(parameters, layer) for layer in parameters.layers},
    }
    return query.model_copy(update={name: value for name, value in given.items() if getattr(query, name) is None})


def refuse_versions(labels: Labels, query: EntityQuery) -> None:
    """Raise ``InvalidInput`` for a reference to an artifact or a variant that has only a version."""
    for member in ("artifact_refs", "variant_refs"):
        for index, sent in enumerate(getattr(query, member, None) or ()):
            if sent.version is not None and not sent.value().identifies:
                raise InvalidInput(
                    f"{labels.own_name(member)}[{index}]: only revisions have a version; give an id or a slug."
                )


def _given(model: type[EntityFilter] | type[IdWindowing], parameters: ArtifactParameters, *names: str) -> Any:
    """Return a model of the parameters that are given; ``None`` if there are none."""
    members = {name: value for name in names if (value := getattr(parameters, name)) is not None}
    return model(**members) if members else None


def _references(parameters: ArtifactParameters, layer: str) -> list[ReferenceIn] | None:
    """Return the ids and slugs of a layer as alternative references, each with every version."""
    ids, slugs, versions = (
        [*getattr(parameters, f"{layer}_{member}", ()), *getattr(parameters, f"{layer}_{member}s", ())]
        for member in ("id", "slug", "version")
    )
    named: list[dict[str, Any]] = [*({"id": id_} for id_ in ids), *({"slug": slug} for slug in slugs)]
    if versions:
        named = [{**reference, "version": version} for reference in named or [{}] for version in versions]
    return [ReferenceIn(**reference) for reference in named] or None
