"""From references to the revision that they name (reference ``applications-api`` §7.2).

The most precise reference finds the revision. Every other member that was given must match it, so that no client gets
a revision other than the one it named.
"""

from __future__ import annotations

from typing import Final

from common.errors import InvalidInput
from query_api.registry.store import Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference, ReferenceIn

NO_VERSION: Final = -1
"""No revision has this number."""

_DIGITS_MAX: Final = 9
"""Versions are 32-bit integers; no variant gets near a thousand million commits."""


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
        return await lineage.find_revision(revision)
    version = None
    if revision is not None and revision.version is not None:
        version = number_of(revision.version)
        if version is None:
            return None
    if variant is not None and variant.identifies:
        branch = await lineage.find_variant(variant)
        return None if branch is None else await lineage.revision_of_variant(branch.id, version=version)
    if artifact is not None and artifact.identifies:
        owner = await lineage.find_artifact(artifact)
        return None if owner is None else await lineage.revision_of_artifact(owner.id, version=version)
    return None


def number_of(version: str) -> int | None:
    """Return the number of a version; ``None`` if the text cannot be one."""
    if not (version.isascii() and version.isdecimal()) or len(version) > _DIGITS_MAX:
        return None
    return int(version) if str(int(version)) == version else None


def wanted_number(version: str | None) -> int | None:
    """Return the number of a version to look for, ``NO_VERSION`` for a text that cannot be one."""
    number = None if version is None else number_of(version)
    return NO_VERSION if version is not None and number is None else number


def refuse_insufficient(word: str, references: References) -> None:
    """Raise ``InvalidInput`` if references cannot identify a revision: there are none, or a version without a
    variant.
    """
    artifact, variant, revision = references
    if artifact is None and variant is None and revision is None:
        raise InvalidInput(f"Nothing is named: give {word}_ref, {word}_variant_ref or {word}_revision_ref.")
    if variant is not None and variant.version is not None and not variant.identifies:
        raise InvalidInput(f"{word}_variant_ref names no variant by a version alone: give its id or slug.")
    needs_parent = revision is not None and revision.version is not None and not revision.identifies
    if needs_parent and not any(parent is not None and parent.identifies for parent in (artifact, variant)):
        raise InvalidInput(
            f"{word}_revision_ref.version needs {word}_variant_ref or {word}_ref, which say of which variant."
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
