"""Committing a revision: of whole data, of a change of the newest data, or of an older revision.

The statement that commits (``queries.sql``) holds the rules of contract §5 and writes nothing if one of them is
broken. Another statement finds out which rule, only then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from uuid import UUID

from common.errors import Conflict, NotFound, TooLarge
from query_api.compute.pool import IN_PROCESS_BYTES_MAX, Compute, run_if_large
from query_api.registry.checks import missing, refuse_reserved, reporting_conflicts
from query_api.registry.kinds import Delta, History, RevisionData
from query_api.registry.schemas import RevisionCommit, RevisionCreate, RevisionRevert
from query_api.registry.store import Lineage
from query_api.registry.values import Content, Header, Revision
from query_api.request.errors import InvalidRequest, MemberConflict, RevisionConflict
from query_api.request.json_body import has_more_values, validated
from query_api.request.references import Reference

INITIAL_MESSAGE = "Initial revision"
VALUES_MAX: Final = 2_000
"""The largest delta that is merged on the event loop: 5 ms at worst."""


@dataclass(frozen=True, slots=True)
class CommitTarget:
    """The variant to commit to. If given, ``artifact_id`` must be its artifact and ``base_revision_id`` its newest
    revision.
    """

    variant_id: UUID
    artifact_id: UUID | None = None
    base_revision_id: UUID | None = None


async def commit(
    lineage: Lineage, history: History, target: CommitTarget, *, sent: RevisionCommit, bytes_max: int, compute: Compute
) -> Revision:
    """Commit a new revision to the variant.

    Raises ``NotFound``, ``MemberConflict``, ``SlugTaken``, ``RevisionConflict``, ``InvalidRequest``, and ``TooLarge``
    if a delta makes the data larger than ``bytes_max``.
    """
    refuse_reserved(sent.slug)
    if sent.delta is not None:
        return await _commit_delta(lineage, history, target, sent, bytes_max=bytes_max, compute=compute)
    return await _commit(lineage, history, target, content_of(history, sent, sent.data), slug=sent.slug)


async def commit_first(lineage: Lineage, history: History, target: CommitTarget, *, sent: RevisionCreate) -> Revision:
    """Commit version 0 without data. Also raises ``Conflict`` if the variant already has a revision."""
    refuse_reserved(sent.slug)
    content = Content(sent.header(), INITIAL_MESSAGE, history.snapshot(None).flags)
    with reporting_conflicts(slug=sent.slug):
        created = await lineage.commit_first(target.variant_id, content, slug=sent.slug, artifact_id=target.artifact_id)
    if created is None:
        await _refuse(lineage, history, target)
    return created


async def revert(lineage: Lineage, history: History, revision_id: UUID, *, sent: RevisionRevert) -> Revision:
    """Commit the data of an older revision again, to its variant. Raises ``NotFound`` and what ``commit`` raises."""
    refuse_reserved(sent.slug)
    old = await lineage.find_revision(Reference(revision_id))
    if old is None:
        raise NotFound(f"There is no {history.labels.revision} with the id '{revision_id}'.")
    message = sent.message if sent.message is not None else f"Revert to version {old.version}"
    header = Header(old.name, old.description, old.tags, old.meta)
    target = CommitTarget(old.variant_id, base_revision_id=sent.base_revision_id)
    return await _commit(lineage, history, target, Content(header, message, old.flags, old.data), slug=sent.slug)


def content_of(history: History, sent: RevisionCommit, data: RevisionData | None) -> Content:
    """Return what a commit stores."""
    snapshot = history.snapshot(data)
    return Content(sent.header(), sent.message, snapshot.flags, snapshot.data)


def refuse_grown(data: str | None, *, bytes_max: int) -> None:
    """Raise ``TooLarge`` for data that a change made larger than a body may be: otherwise each change could let it
    grow.
    """
    if data is not None and len(data.encode()) > bytes_max:
        raise TooLarge(f"With this change the data would be larger than {bytes_max} bytes.")


async def _commit_delta(
    lineage: Lineage,
    history: History,
    target: CommitTarget,
    sent: RevisionCommit,
    *,
    bytes_max: int,
    compute: Compute,
) -> Revision:
    """The newest data is read under the lock of the variant, so the change applies to exactly what it replaces."""
    assert sent.delta is not None  # noqa: S101 - narrows the type
    if sent.delta.set is None and sent.delta.remove is None:
        raise missing(history.labels.revision, "delta", "set")
    async with lineage.transaction() as within:
        await within.lock_variant(target.variant_id)
        newest = await within.revision_of_variant(target.variant_id)
        before = newest.data if newest is not None and newest.data is not None else "{}"
        is_large = len(before) > IN_PROCESS_BYTES_MAX or has_more_values(
            [sent.delta.set, sent.delta.remove], VALUES_MAX
        )
        content = await run_if_large(compute, _changed_content, history, sent, before, is_large=is_large)
        refuse_grown(content.data, bytes_max=bytes_max)
        return await _commit(within, history, target, content, slug=sent.slug)


async def _commit(
    lineage: Lineage, history: History, target: CommitTarget, content: Content, *, slug: str | None
) -> Revision:
    with reporting_conflicts(slug=slug):
        committed = await lineage.commit(
            target.variant_id,
            content,
            slug=slug,
            artifact_id=target.artifact_id,
            base_revision_id=target.base_revision_id,
        )
    if committed is None:
        await _refuse(lineage, history, target)
    return committed


async def _refuse(lineage: Lineage, history: History, target: CommitTarget) -> NoReturn:
    """Raise the error for the rule that a commit broke, after it wrote nothing."""
    labels = history.labels
    variant = await lineage.find_variant(Reference(target.variant_id))
    if variant is None:
        raise NotFound(f"There is no {labels.variant} with the id '{target.variant_id}'.")
    if target.artifact_id not in (None, variant.artifact_id):
        raise MemberConflict(
            f"The variant '{variant.slug}' belongs to another {labels.artifact}.",
            conflict={f"{labels.artifact}_id": str(target.artifact_id)},
        )
    if target.base_revision_id is None:
        raise Conflict("An initial revision already exists for this variant.")
    newest = await lineage.revision_of_variant(variant.id)
    raise RevisionConflict(
        base_revision_id=target.base_revision_id, current_revision_id=None if newest is None else newest.id
    )


def _changed_content(history: History, sent: RevisionCommit, before: str) -> Content:
    """Return what a commit of a delta stores, given the newest data as JSON."""
    assert sent.delta is not None  # noqa: S101 - narrows the type
    after = history.change(json.loads(before), sent.delta)
    return content_of(history, sent, _validated_change(history, after, sent.delta))


def _validated_change(history: History, data: dict[str, Any], delta: Delta) -> RevisionData:
    """Validate the newest data after a change."""
    try:
        return validated(history.data, data, at="body")
    except InvalidRequest as exc:
        raise InvalidRequest([_at_delta(problem, history, delta) for problem in exc.problems]) from exc


def _at_delta(problem: Mapping[str, Any], history: History, delta: Delta) -> dict[str, Any]:
    """Point a problem of the changed data at the member of the delta that caused it."""
    _, *steps = problem["loc"]
    member = ["delta", "set"] if steps and steps[0] in (delta.set or {}) else ["delta"]
    return {**problem, "loc": ["body", history.labels.revision, *member, *steps]}
