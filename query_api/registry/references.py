"""From references to the revision that they name (reference ``applications-api`` §7.2).

The most precise reference finds it; every other member that was given then has to be true of it, so that nobody is answered
with something else than what they named.
"""

from __future__ import annotations

from typing import Final

from common.errors import InvalidInput
from query_api.registry.store import Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference

NO_VERSION: Final = -1
"""No revision has this number."""

_DIGITS_MAX: Final = 9
"""Versions are 32-bit integers; no variant comes near a thousand million commits."""


async def find_named_revision(lineage: Lineage, references: References, *, word: str = "") -> Revision | None:
    """The revision that is named, archived or not; ``None`` if there is none. ``word`` is what the request calls an artifact, if not
    by its kind.

    A bare variant means its head, a bare artifact the head of its default variant. Raises ``InvalidInput`` where the references do
    not say which one (nothing at all, a version without a variant), or contradict what they found.
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
    """The number of a version as text; ``None`` where it cannot be one."""
    if not (version.isascii() and version.isdecimal()) or len(version) > _DIGITS_MAX:
        return None
    return int(version) if str(int(version)) == version else None


def wanted_number(version: str | None) -> int | None:
    """Return the number of a version that is looked for, ``NO_VERSION`` for a text that cannot be one."""
    number = None if version is None else number_of(version)
    return NO_VERSION if version is not None and number is None else number


def refuse_insufficient(word: str, references: References) -> None:
    """Raise ``InvalidInput`` where references cannot name a revision: there are none, or a version is not said of what."""
    artifact, variant, revision = references
    if artifact is None and variant is None and revision is None:
        raise InvalidInput(f"Nothing is named: give {word}_ref, {word}_variant_ref or {word}_revision_ref.")
    if variant is not None and variant.version is not None and not variant.identifies:
        raise InvalidInput(f"{word}_variant_ref names no variant by a version alone: give its id or slug.")
    needs_parent = revision is not None and revision.version is not None and not revision.identifies
    if needs_parent and not any(parent is not None and parent.identifies for parent in (artifact, variant)):
        raise InvalidInput(
            f"{word}_revision_ref.version needs {word}_variant_ref or {word}_ref to say of which variant it is the version."
        )


def refuse_contradicting(word: str, references: References, found: Revision) -> None:
    """Raise ``InvalidInput`` where something that was named is not true of the revision that was found."""
    artifact, variant, revision = references
    shown = (
        (f"{word}_ref", artifact, Reference(found.artifact_id, found.artifact_slug)),
        (f"{word}_variant_ref", variant, Reference(found.variant_id, found.variant_slug)),
        (f"{word}_revision_ref", revision, Reference(found.id, found.slug, str(found.version))),
    )
    for name, given, stored in shown:
        for member, wanted, there in zip(Reference._fields, given or (), stored, strict=False):
            if wanted is not None and there is not None and wanted != there:
                raise InvalidInput(
                    f"{name}.{member}='{wanted}' does not match what the other references name: '{there}'."
                )
