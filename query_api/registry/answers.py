"""Artifacts, variants and revisions as answers show them: null members left out, stored JSON as it is.

Source: reference ``applications-api`` §1.2, ``spans-api`` §9.1; contract §5 (``forked_from``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from query_api.registry.names import Names
from query_api.registry.values import Artifact, Revision, SimpleArtifact, Variant
from query_api.request.route import Response

Members: TypeAlias = dict[str, Any]

_OPTIONS: Final = orjson.OPT_UTC_Z


def one_answer(name: str, members: Members | None, **others: Any) -> Response:
    """``{count, <name>}``: an entity, or ``{"count": 0}`` where there is none."""
    if members is None:
        return Response(b'{"count":0}')
    return Response(orjson.dumps({"count": 1, name: members, **others}, option=_OPTIONS))


def list_answer(name: str, entities: Sequence[Members], **others: Any) -> Response:
    """``{count, <name>: [...]}``."""
    return Response(orjson.dumps({"count": len(entities), name: entities, **others}, option=_OPTIONS))


def artifact_members(artifact: Artifact) -> Members:
    """An artifact."""
    return _present(
        {
            "id": artifact.id,
            "slug": artifact.slug,
            **_header(artifact),
            "flags": _flags(artifact.flags),
            "folder_id": artifact.folder_id,
            **_lifecycle(artifact),
        }
    )


def simple_members(simple: SimpleArtifact) -> Members:
    """An artifact with what the head of its first variant holds; without data that is an empty object."""
    flags = _merged([simple.flags, simple.revision_flags])
    return {
        **artifact_members(simple),
        **_present({"flags": flags}),
        "data": {} if simple.data is None else _json(simple.data),
        "variant_id": simple.variant_id,
        "revision_id": simple.revision_id,
    }


def variant_members(names: Names, variant: Variant, *, with_slugs: bool) -> Members:
    """A variant; with the slugs of its parent where the reference shows them."""
    slugs = dict.fromkeys(names.artifact_members("slug"), variant.artifact_slug) if with_slugs else {}
    return _present(
        {
            "id": variant.id,
            "slug": variant.slug,
            **_header(variant),
            **dict.fromkeys(names.artifact_members("id"), variant.artifact_id),
            **slugs,
            "flags": _flags(variant.artifact_flags),
            "forked_from": _forked_from(variant),
            **_lifecycle(variant),
        }
    )


def revision_members(names: Names, revision: Revision, *, with_slugs: bool) -> Members:
    """A revision; with the slugs of its parents where the reference shows them."""
    slugs: Members = {}
    if with_slugs:
        slugs = {
            **dict.fromkeys(names.artifact_members("slug"), revision.artifact_slug),
            **dict.fromkeys(names.variant_members("slug"), revision.variant_slug),
        }
    return _present(
        {
            "id": revision.id,
            "slug": revision.slug,
            "version": str(revision.version),
            **dict.fromkeys(names.artifact_members("id"), revision.artifact_id),
            **dict.fromkeys(names.variant_members("id"), revision.variant_id),
            **slugs,
            "author": revision.created_by,
            "date": revision.created_at,
            "message": revision.message,
            **_header(revision),
            "flags": revision_flags(revision),
            "data": _json(revision.data),
            **_lifecycle(revision),
        }
    )


def revision_flags(revision: Revision) -> Members | None:
    """The roles of its artifact, then what was derived from its data when it was committed."""
    return _merged([revision.artifact_flags, revision.flags])


def reference_members(names: Names, revision: Revision) -> Mapping[str, Members]:
    """The three references that lead to a revision."""
    return {
        names.artifact: {"id": revision.artifact_id, "slug": revision.artifact_slug},
        names.variant: {"id": revision.variant_id, "slug": revision.variant_slug},
        names.revision: {"id": revision.id, "slug": revision.slug, "version": str(revision.version)},
    }


def _header(entity: Artifact | Variant | Revision) -> Members:
    return {
        "name": entity.name,
        "description": entity.description,
        "tags": _json(entity.tags),
        "meta": _json(entity.meta),
    }


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
    """Kinds that have no flags show none."""
    return None if text == "{}" else orjson.Fragment(text)


def _merged(texts: Iterable[str | None]) -> Members | None:
    merged: Members = {}
    for text in texts:
        merged |= orjson.loads(text) if text else {}
    return merged or None


def _present(members: Members) -> Members:
    return {name: member for name, member in members.items() if member is not None}
