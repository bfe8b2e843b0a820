"""What the handlers of histories share, first of all checks of what a request names: ids, slugs and references.

The most precise reference finds the revision. Every other member that was given must match it, so that no client gets
a revision other than the one it named. Source: contract §5, reference ``applications-api`` §1.5, §2.5, §2.6, §7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from common.errors import Conflict, InvalidInput, Unavailable
from common.postgres.pool import UniqueViolation
from query_api.registry.kinds import History
from query_api.registry.searches import EntityQuery, refuse_versions, with_parameters
from query_api.registry.store import Entity, Lineage, Owner
from query_api.registry.values import Artifact, Kind, References, Revision, Variant, wanted_number
from query_api.request.errors import InvalidRequest, MemberConflict, SlugTaken
from query_api.request.json_body import ApiModel, validated
from query_api.request.references import Reference, ReferenceIn
from query_api.request.route import Request

RESERVED_PREFIX: Final = "__ag__"


def lineage_of(request: Request, kind: Kind) -> Lineage:
    """Return the histories of the request's project. Raises ``Unavailable`` without Postgres."""
    if request.context.database is None:
        raise Unavailable("This process has no Postgres.")
    return Lineage(request.context.database, kind, Owner(request.project_id, request.user_id))


class KindHandlers:
    """The handlers of one kind."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._labels = history.labels

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._labels.kind)

    async def _page(self, request: Request, layer: type[Entity]) -> list[Entity]:
        """Return the page of a layer that the body and the parameters of a query ask for, of the family's artifacts."""
        query: EntityQuery = with_parameters(request.body, request.query)
        refuse_versions(self._labels, query)
        return await self._lineage(request).page(layer, query, role=self._history.role)


class _PathId(ApiModel):
    id: UUID


def path_id(request: Request) -> UUID:
    """Return the only id in the path. Raises ``InvalidRequest``."""
    ((place, text),) = request.path.items()
    try:
        return validated(_PathId, {"id": text}, at="path").id
    except InvalidRequest as exc:
        raise InvalidRequest([{**problem, "loc": ["path", place]} for problem in exc.problems]) from exc


def edited_id(request: Request, body_id: UUID | None) -> UUID:
    """Return the id in the path. Raises ``InvalidInput`` unless the body repeats it."""
    id_in_path = path_id(request)
    if body_id is None:
        raise InvalidInput(f"The body has no id. It must repeat the id of the path, '{id_in_path}'.")
    if body_id != id_in_path:
        raise InvalidInput(f"The id in the path and the id in the body do not match: '{id_in_path}', '{body_id}'.")
    return id_in_path


def missing(*loc: str) -> InvalidRequest:
    """Return the error for a member that the body lacks."""
    return InvalidRequest([{"type": "missing", "loc": ["body", *loc], "msg": "Field required", "input": {}}])


def refuse_reserved(slug: str | None) -> None:
    """Raise ``InvalidInput`` for a slug with the reserved prefix."""
    if slug is not None and slug.startswith(RESERVED_PREFIX):
        raise InvalidInput(f"'slug' must not begin with '{RESERVED_PREFIX}', which is reserved.")


@contextmanager
def reporting_conflicts(*, slug: str | None, chosen_id: UUID | None = None) -> Iterator[None]:
    """Turn ``UniqueViolation`` into a conflict that names the member. Without ``slug`` a random one of 2^48 was
    taken.
    """
    try:
        yield
    except UniqueViolation as violation:
        if violation.constraint_name == "artifacts_pkey":
            raise MemberConflict(
                "Entity with same keys already exists.", conflict={"id": str(chosen_id)}
            ) from violation
        if slug is None:
            raise Conflict("The generated slug is already in use: send the request again.") from violation
        raise SlugTaken(slug) from violation


def references_of(
    artifact: ReferenceIn | None, variant: ReferenceIn | None, revision: ReferenceIn | None
) -> References:
    """Return the references of a request as the store takes them."""
    return References(*(None if sent is None else sent.value() for sent in (artifact, variant, revision)))


async def find_named_revision(lineage: Lineage, references: References, *, word: str = "") -> Revision | None:
    """Return the revision that is named, archived or not; ``None`` if there is none.

    A variant alone means its newest revision, an artifact alone the newest revision of its first variant. ``word`` is
    the request's word for an artifact, by default the kind. Raises ``InvalidInput`` if the references do not identify
    a revision (no reference, a version without a variant) or contradict the revision that they find.
    """
    refuse_insufficient(word or lineage.kind, references)
    found = await _most_precise(lineage, references)
    if found is not None:
        refuse_contradicting(word or lineage.kind, references, found)
    return found


async def _most_precise(lineage: Lineage, references: References) -> Revision | None:
    artifact, variant, revision = references
    if revision is not None and revision.identifies:
        return await lineage.find(Revision, revision)
    version = None if revision is None else wanted_number(revision.version)
    if variant is not None and variant.identifies:
        branch = await lineage.find(Variant, variant)
        return None if branch is None else await lineage.revision_of_variant(branch.id, version=version)
    if artifact is not None and artifact.identifies:
        owner = await lineage.find(Artifact, artifact)
        return None if owner is None else await lineage.revision_of_artifact(owner.id, version=version)
    return None


def refuse_insufficient(word: str, references: References) -> None:
    """Raise ``InvalidInput`` if references cannot identify a revision: there are none, or a version without a
    variant.
    """
    artifact, variant, revision = references
    if artifact is None and variant is None and revision is None:
        raise InvalidInput(f"No reference is given: give {word}_ref, {word}_variant_ref or {word}_revision_ref.")
    if variant is not None and variant.version is not None and not variant.identifies:
        raise InvalidInput(
            f"{word}_variant_ref has only a version, which does not identify a variant: give its id or slug."
        )
    needs_parent = revision is not None and revision.version is not None and not revision.identifies
    if needs_parent and not any(parent is not None and parent.identifies for parent in (artifact, variant)):
        raise InvalidInput(
            f"{word}_revision_ref.version needs {word}_variant_ref or {word}_ref, to identify the variant."
        )


def refuse_contradicting(word: str, references: References, found: Revision) -> None:
    """Raise ``InvalidInput`` if a given reference does not match the revision that was found."""
    artifact, variant, revision = references
    pairs = (
        (f"{word}_ref", artifact, Reference(found.artifact_id, found.artifact_slug)),
        (f"{word}_variant_ref", variant, Reference(found.variant_id, found.variant_slug)),
        (f"{word}_revision_ref", revision, Reference(found.id, found.slug, str(found.version))),
    )
    for name, given, stored in pairs:
        for member, wanted, there in zip(Reference._fields, given or (), stored, strict=False):
            if wanted is not None and there is not None and wanted != there:
                raise InvalidInput(
                    f"{name}.{member}='{wanted}' does not match what the other references name: '{there}'."
                )
