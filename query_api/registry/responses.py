"""Responses about histories: the models that document them, and the functions that write them.

Stored JSON goes into a response as the text it is, so orjson writes the members and the models only describe them.
Members that are null are left out. Source: reference ``applications-api`` §1.2 and §7, ``spans-api`` §9.1; contract
§5 (``forked_from``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

import orjson
from pydantic import Field

from query_api.registry.kinds import Labels, Mark, PerKind, RevisionData, RevisionFlags, RoleFlags
from query_api.registry.values import Artifact, Embedded, Revision, SimpleArtifact, Variant
from query_api.request.json_body import ApiModel
from query_api.request.route import Response

JsonObject: TypeAlias = dict[str, Any]
Members: TypeAlias = dict[str, Any]
_SpelledId: TypeAlias = Annotated[UUID, Mark.EVERY_SPELLING]
_SpelledSlug: TypeAlias = Annotated[str | None, Mark.EVERY_SPELLING]

_OPTIONS: Final = orjson.OPT_UTC_Z


class EntityOut(PerKind):
    """What all layers show. What was not written, or has not happened, is absent."""

    id: UUID
    slug: str
    name: str | None = None
    description: str | None = None
    tags: JsonObject | None = None
    meta: JsonObject | None = None
    created_at: datetime
    updated_at: datetime | None = None
    deleted_at: datetime | None = Field(None, description="The time at which it was archived.")
    created_by_id: UUID
    updated_by_id: UUID | None = None
    deleted_by_id: UUID | None = None


class ForkedFrom(ApiModel):
    """The revision at which the history of a fork begins."""

    variant_id: UUID
    revision_id: UUID


class ArtifactOut(EntityOut):
    """An artifact."""

    flags: RoleFlags | None = None
    folder_id: UUID | None = None


class SimpleOut(EntityOut):
    """An artifact with the data of the newest revision of its first variant."""

    flags: RevisionFlags | None = None
    folder_id: UUID | None = None
    data: RevisionData
    variant_id: UUID
    revision_id: UUID


class VariantOut(EntityOut):
    """A variant of an artifact."""

    artifact_id: _SpelledId
    artifact_slug: _SpelledSlug = None
    flags: RoleFlags | None = None
    forked_from: ForkedFrom | None = None


class RevisionOut(EntityOut):
    """A revision of an artifact."""

    version: str = Field(description='"0", "1", "2", … without gaps.')
    artifact_id: _SpelledId
    variant_id: _SpelledId
    artifact_slug: _SpelledSlug = None
    variant_slug: _SpelledSlug = None
    author: UUID
    date: datetime
    message: str | None = None
    flags: RevisionFlags | None = None
    data: RevisionData | None = None


class CountedOut(PerKind):
    """What every response begins with."""

    count: int


class ArtifactResponse(CountedOut):
    """One artifact, or none."""

    artifact: ArtifactOut | None = None


class ArtifactsResponse(CountedOut):
    """A page of artifacts."""

    artifacts: list[ArtifactOut]


class SimpleResponse(CountedOut):
    """One artifact with its data, or none."""

    artifact: SimpleOut | None = None


class SimplesResponse(CountedOut):
    """A page of artifacts with their data."""

    artifacts: list[SimpleOut]


class VariantResponse(CountedOut):
    """One variant, or none."""

    variant: VariantOut | None = None


class VariantsResponse(CountedOut):
    """A page of variants."""

    variants: list[VariantOut]


class RevisionResponse(CountedOut):
    """One revision, or none."""

    revision: RevisionOut | None = None


class RevisionsResponse(CountedOut):
    """A page of revisions."""

    revisions: list[RevisionOut]


class ResolutionInfo(ApiModel):
    """What was embedded in the data."""

    references_used: list[JsonObject] = Field(
        description="The references of every revision that was embedded, each once."
    )
    depth_reached: int = Field(description="How many levels of embedded references were resolved.")
    embeds_resolved: int = Field(description="How many references were resolved, counting every occurrence.")
    errors: list[str] = Field(description="Why other references were not resolved, with their places; at most 100.")


class RetrievalInfo(ApiModel):
    """The references that lead to the revision."""

    references: dict[str, JsonObject]
    selector: dict[str, str] | None = None


class RetrievedRevisionResponse(RevisionResponse):
    """The revision that the references name, or none."""

    resolution_info: ResolutionInfo | None = Field(None, description="Present if `resolve` was set.")
    retrieval_info: RetrievalInfo | None = None


class ResolvedData(PerKind):
    """The data that was sent, with the embedded values."""

    data: RevisionData


class ResolvedRevisionResponse(CountedOut):
    """The revision that the references name, the data that was sent, or none."""

    revision: RevisionOut | ResolvedData | None = None
    resolution_info: ResolutionInfo | None = None
    retrieval_info: RetrievalInfo | None = None


class TextPart(ApiModel):
    """A part of a line."""

    op: str = Field(description="same, removed or added")
    text: str


class LineChange(ApiModel):
    """Lines of two texts: some that are the same, or one that was removed, added or changed."""

    op: str = Field(description="same, removed, added or changed")
    from_: int | None = Field(
        None, serialization_alias="from", description="The number of the line in the older text; of `same` the first."
    )
    to: int | None = Field(None, description="The number of the line in the newer text; of `same` the first.")
    count: int | None = Field(None, description="Of `same`: how many lines.")
    text: str | None = Field(None, description="Of `removed` and `added`: the line.")
    words: list[TextPart] | None = Field(
        None,
        description="Of `changed`: the parts of the line. `same` and `removed` are the older line, `same` and `added` "
        "the newer one.",
    )


class Change(ApiModel):
    """One change between two revisions."""

    op: str = Field(description="added, removed or changed")
    path: str = Field(description="A JSON Pointer, into the older data for `removed`, else into the newer data.")
    from_: Any = Field(None, serialization_alias="from")
    to: Any = None
    lines: list[LineChange] | None = Field(
        None,
        description="Present if `lines` was set and both values are texts: what changed in them, from top to bottom.",
    )


class DiffResponse(ApiModel):
    """The changes that lead from one revision to the other."""

    count: int
    changes: list[Change]
    references: dict[str, dict[str, JsonObject]] = Field(description="The two revisions: `from` and `to`.")


class SchemaProblem(ApiModel):
    """Where data does not match its schema."""

    path: str = Field(description="A JSON Pointer into the data.")
    message: str


class CheckResponse(ApiModel):
    """What a commit of the data would change, and what is wrong with it."""

    count: int
    changes: list[Change]
    problems: list[SchemaProblem] = Field(
        description="Where `parameters` do not match `schemas.parameters`, at most 100. A commit is possible anyway."
    )


def one_response(name: str, members: Members | None, **others: Any) -> Response:
    """Return ``{count, <name>}``; ``{"count": 0}`` without ``members``."""
    if members is None:
        return Response(b'{"count":0}')
    return Response(orjson.dumps({"count": 1, name: members, **others}, option=_OPTIONS))


def list_response(name: str, rows: Iterable[Members]) -> Response:
    """Return ``{count, <name>: [...]}``."""
    listed: Sequence[Members] = list(rows)
    return Response(orjson.dumps({"count": len(listed), name: listed}, option=_OPTIONS))


def artifact_members(artifact: Artifact) -> Members:
    """Return the members of an artifact."""
    own = {"flags": _flags(artifact.flags), "folder_id": artifact.folder_id}
    return _present({"id": artifact.id, "slug": artifact.slug, **_header(artifact), **own, **_lifecycle(artifact)})


def simple_members(simple: SimpleArtifact) -> Members:
    """Return the members of an artifact with data; no data is an empty object."""
    flags = _merged([simple.flags, simple.revision_flags])
    return {
        **artifact_members(simple),
        **_present({"flags": flags}),
        "data": {} if simple.data is None else _json(simple.data),
        "variant_id": simple.variant_id,
        "revision_id": simple.revision_id,
    }


def variant_members(labels: Labels, variant: Variant, *, with_slugs: bool) -> Members:
    """Return the members of a variant, with the slugs of its artifact where the reference has them."""
    members = {
        "id": variant.id,
        "slug": variant.slug,
        **_header(variant),
        "artifact_id": variant.artifact_id,
        "artifact_slug": variant.artifact_slug if with_slugs else None,
        "flags": _flags(variant.artifact_flags),
        "forked_from": _forked_from(variant),
        **_lifecycle(variant),
    }
    return labels.on_wire(_present(members))


def revision_members(labels: Labels, revision: Revision, *, with_slugs: bool) -> Members:
    """Return the members of a revision, with the slugs of its artifact and variant where the reference has them."""
    members = {
        "id": revision.id,
        "slug": revision.slug,
        "version": str(revision.version),
        "artifact_id": revision.artifact_id,
        "variant_id": revision.variant_id,
        "artifact_slug": revision.artifact_slug if with_slugs else None,
        "variant_slug": revision.variant_slug if with_slugs else None,
        "author": revision.created_by,
        "date": revision.created_at,
        "message": revision.message,
        **_header(revision),
        "flags": _merged([revision.artifact_flags, revision.flags]),
        "data": _json(revision.data),
        **_lifecycle(revision),
    }
    return labels.on_wire(_present(members))


def revision_response(labels: Labels, revision: Revision | None, *, with_slugs: bool, **others: Any) -> Response:
    """Return the response that holds one revision, or none."""
    members = None if revision is None else revision_members(labels, revision, with_slugs=with_slugs)
    return one_response(labels.revision, members, **others)


def reference_members(word: str, revision: Revision | Embedded) -> Members:
    """Return the three references that lead to a revision. ``word`` is the member that names the artifact."""
    return {
        word: {"id": revision.artifact_id, "slug": revision.artifact_slug},
        f"{word}_variant": {"id": revision.variant_id, "slug": revision.variant_slug},
        f"{word}_revision": {"id": revision.id, "slug": revision.slug, "version": str(revision.version)},
    }


def _header(entity: Artifact | Variant | Revision) -> Members:
    texts = {"name": entity.name, "description": entity.description}
    return {**texts, "tags": _json(entity.tags), "meta": _json(entity.meta)}


def _lifecycle(entity: Artifact | Variant | Revision) -> Members:
    return {
        "created_at": entity.created_at,
        "updated_at": entity.updated_at,
        "deleted_at": entity.deleted_at,
        "created_by_id": entity.created_by,
        "updated_by_id": entity.updated_by,
        "deleted_by_id": entity.deleted_by,
    }


def _forked_from(variant: Variant) -> Members | None:
    if variant.forked_from_variant_id is None:
        return None
    return {"variant_id": variant.forked_from_variant_id, "revision_id": variant.forked_from_revision_id}


def _json(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)


def _flags(text: str) -> orjson.Fragment | None:
    """Leave out the flags of a kind that has none."""
    return None if text == "{}" else orjson.Fragment(text)


def _merged(texts: Iterable[str | None]) -> Members | None:
    merged: Members = {}
    for text in texts:
        merged |= orjson.loads(text) if text else {}
    return merged or None


def _present(members: Members) -> Members:
    return {name: member for name, member in members.items() if member is not None}
