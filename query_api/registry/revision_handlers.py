"""The routes of revisions, for every kind (reference ``applications-api`` §6, §7, §8.4; diff and revert are ours).

The statement that commits (``queries.sql``) holds the rules of contract §5 and writes nothing if one of them is
broken. Another statement finds out which rule, only then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn
from uuid import UUID

import orjson

from common.errors import Conflict, InvalidInput, NotFound, TooLarge
from query_api.compute import IN_PROCESS_BYTES_MAX, run_if_large
from query_api.registry import schemas
from query_api.registry.checks import (
    KindHandlers,
    edited_id,
    find_named_revision,
    missing,
    path_id,
    refuse_reserved,
    reporting_conflicts,
)
from query_api.registry.comparison import compared, parameter_problems
from query_api.registry.kinds import Delta, History, RevisionData
from query_api.registry.resolving import EmbedLimits, Resolved, resolve_embeds
from query_api.registry.responses import (
    list_response,
    one_response,
    reference_members,
    revision_members,
    revision_response,
)
from query_api.registry.store import LOG_MAX, Lineage
from query_api.registry.values import CommitTarget, Content, Header, Revision, Variant
from query_api.request.errors import InvalidRequest, MemberConflict, RevisionConflict
from query_api.request.json_body import has_more_values, number_up_to, validated
from query_api.request.references import Reference
from query_api.request.route import Request, Response

INITIAL_MESSAGE = "Initial revision"
VALUES_MAX: Final = 2_000
"""The largest delta that is merged on the event loop: 5 ms at worst."""


class RevisionHandlers(KindHandlers):
    """The routes of revisions."""

    async def commit(self, request: Request) -> Response:
        """Commit a new revision to a variant. With `base_revision_id` only if that is still the newest revision."""
        body: schemas.CommitRevision = request.body
        sent = body.revision
        target = self._target(sent)._replace(base_revision_id=sent.base_revision_id)
        if sent.delta is not None:
            return self._response(await self._commit_delta(request, target, sent, sent.delta))
        content = _content(self._history, sent, sent.data)
        return self._response(await self._commit(self._lineage(request), target, content))

    async def create(self, request: Request) -> Response:
        """Create version 0 of a variant without revisions. It has no data."""
        body: schemas.CreateRevision = request.body
        target = self._target(body.revision)._replace(is_first=True)
        content = Content(body.revision.header(), INITIAL_MESSAGE, self._history.snapshot(None).flags)
        return self._response(await self._commit(self._lineage(request), target, content))

    async def revert(self, request: Request) -> Response:
        """Commit the data of an older revision again. The history grows; nothing is removed."""
        body: schemas.RevertRevision = request.body
        sent, lineage = body.revision or schemas.RevisionRevert(), self._lineage(request)
        refuse_reserved(sent.slug)
        old = await self._existing(lineage, path_id(request))
        message = sent.message if sent.message is not None else f"Revert to version {old.version}"
        content = Content(Header(old.name, old.description, old.tags, old.meta), message, old.flags, old.data)
        target = CommitTarget(old.variant_id, base_revision_id=sent.base_revision_id, slug=sent.slug)
        return self._response(await self._commit(lineage, target, content))

    async def get(self, request: Request) -> Response:
        """Return a revision, archived or not."""
        return self._response(await self._lineage(request).find(Revision, Reference(path_id(request))))

    async def edit(self, request: Request) -> Response:
        """Replace the name, description, tags and metadata of a revision; absent members are cleared. The data never
        changes.
        """
        body: schemas.EditRevision = request.body
        revision_id = edited_id(request, body.revision.id)
        edited = await self._lineage(request).edit(Revision, revision_id, header=body.revision.header())
        return self._response(edited, with_slugs=False)

    async def archive(self, request: Request) -> Response:
        """Archive a revision."""
        return self._response(await self._lineage(request).archive(Revision, path_id(request)), with_slugs=False)

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived revision."""
        return self._response(await self._lineage(request).unarchive(Revision, path_id(request)), with_slugs=False)

    async def query(self, request: Request) -> Response:
        """Return a page of revisions in the order of their ids."""
        return self._list_response(await self._page(request, Revision), with_slugs=True)

    async def log(self, request: Request) -> Response:
        """Return the revisions of a variant that are not archived, newest first, from a revision back."""
        body: schemas.LogRevisions = request.body
        sent, lineage = body.revisions, self._lineage(request)
        variant_id, from_version = await _log_start(lineage, sent)
        depth = LOG_MAX if sent.depth is None else sent.depth
        rows = [] if variant_id is None else await lineage.log(variant_id, from_version=from_version, depth=depth)
        return self._list_response(rows, with_slugs=False)

    async def retrieve(self, request: Request) -> Response:
        """Return the revision that references name: a variant alone means its newest revision, an artifact alone the
        newest revision of its first variant.
        """
        body: schemas.RetrieveRevision = request.body
        options = schemas.ResolveOptions() if body.resolve else None
        return await self._retrieved(request, await self._find_named(request, body), options)

    async def resolve(self, request: Request) -> Response:
        """Return the revision that references name, or the data that is sent, with its embedded references resolved."""
        body: schemas.ResolveRevision = request.body
        if body.revision is None:
            return await self._retrieved(request, await self._find_named(request, body), body)
        if body.revision.data is None:
            raise InvalidInput(f"{self._labels.revision}.data is missing; it must contain the data to resolve.")
        resolved = await self._resolve(request, body.revision.data.text(), body)
        members = {"data": orjson.Fragment(resolved.data)}
        return one_response(self._labels.revision, members, resolution_info=resolved.info)

    async def diff(self, request: Request) -> Response:
        """Return the changes that lead from the data of one revision to the data of another."""
        parameters: schemas.DiffParameters = request.query
        lineage, labels = self._lineage(request), self._labels
        before, after = [await self._existing(lineage, id_) for id_ in (parameters.from_, parameters.to)]
        texts = before.data or "{}", after.data or "{}"
        count, changes = await compared(request.context.compute, *texts, with_lines=parameters.lines)
        references = {
            "from": reference_members(labels.artifact, before),
            "to": reference_members(labels.artifact, after),
        }
        members = {"count": count, "changes": orjson.Fragment(changes), "references": references}
        return Response(orjson.dumps(members))

    async def check(self, request: Request) -> Response:
        """Return what a commit of the data would change, and where its parameters do not match their schema. Nothing is
        stored.
        """
        body: schemas.CheckRevision = request.body
        old = None if body.from_ is None else await self._existing(self._lineage(request), body.from_)
        before = "{}" if old is None or old.data is None else old.data
        compute, after = request.context.compute, self._history.snapshot(body.revision.data).data or "{}"
        count, changes = await compared(compute, before, after, with_lines=body.lines)
        problems = await parameter_problems(compute, after)
        return Response(orjson.dumps({"count": count, "changes": orjson.Fragment(changes), "problems": problems}))

    def retrieved_response(
        self, found: Revision | None, *, info: Mapping[str, Any] | None = None, **others: Any
    ) -> Response:
        """Return the response to a retrieval. ``info`` is what led to the revision besides its own references."""
        if found is None:
            return one_response(self._labels.revision, None)
        more = dict(info or {})
        references = {**reference_members(self._labels.artifact, found), **more.pop("references", {})}
        return self._response(found, retrieval_info={"references": references, **more}, **others)

    async def _retrieved(
        self,
        request: Request,
        found: Revision | None,
        options: schemas.ResolveOptions | None,
        *,
        info: Mapping[str, Any] | None = None,
    ) -> Response:
        """Return the response to a retrieval; with ``options`` the embedded references are resolved."""
        if options is None:
            return self.retrieved_response(found, info=info)
        if found is None or found.data is None:
            return one_response(self._labels.revision, None)
        resolved = await self._resolve(request, found.data, options, revision_id=found.id)
        return self.retrieved_response(replace(found, data=resolved.data), info=info, resolution_info=resolved.info)

    async def _resolve(
        self, request: Request, data: str, options: schemas.ResolveOptions, *, revision_id: UUID | None = None
    ) -> Resolved:
        limits = request.context.settings.limits
        bounds = EmbedLimits(
            number_up_to(limits.embed_depth_max, options.max_depth, default=DEPTH_DEFAULT, at=("body", "max_depth")),
            number_up_to(limits.embeds_max, options.max_embeds, default=EMBEDS_DEFAULT, at=("body", "max_embeds")),
            limits.resolved_bytes_max,
        )
        policy = options.error_policy or schemas.ErrorPolicy.EXCEPTION
        lineage = self._lineage(request)
        return await resolve_embeds(lineage, data, bounds=bounds, policy=policy, revision_id=revision_id)

    async def _find_named(self, request: Request, sent: schemas.RevisionReferences) -> Revision | None:
        return await find_named_revision(self._lineage(request), sent.references(), word=self._labels.artifact)

    async def _existing(self, lineage: Lineage, revision_id: UUID) -> Revision:
        found = await lineage.find(Revision, Reference(revision_id))
        if found is None:
            raise NotFound(f"There is no {self._labels.revision} with the id '{revision_id}'.")
        return found

    def _target(self, sent: schemas.RevisionCreate) -> CommitTarget:
        if sent.variant_id is None:
            raise missing(self._labels.revision, self._labels.own_name("variant_id"))
        refuse_reserved(sent.slug)
        return CommitTarget(sent.variant_id, sent.artifact_id, slug=sent.slug)

    async def _commit_delta(
        self, request: Request, target: CommitTarget, sent: schemas.RevisionCommit, delta: Delta
    ) -> Revision:
        """The newest data is read under the lock of the variant, so the change applies to exactly what it replaces."""
        if delta.set is None and delta.remove is None:
            raise missing(self._labels.revision, "delta", "set")
        async with self._lineage(request).transaction() as lineage:
            newest = await lineage.lock_head(target.variant_id)
            before = newest.data if newest is not None and newest.data is not None else "{}"
            is_large = len(before) > IN_PROCESS_BYTES_MAX or has_more_values([delta.set, delta.remove], VALUES_MAX)
            content = await run_if_large(
                request.context.compute, _changed_content, self._history, sent, delta, before, is_large=is_large
            )
            refuse_grown(content.data, bytes_max=request.context.settings.limits.body_bytes_max)
            return await self._commit(lineage, target, content)

    async def _commit(self, lineage: Lineage, target: CommitTarget, content: Content) -> Revision:
        with reporting_conflicts(slug=target.slug):
            committed = await lineage.commit(target, content)
        return committed or await self._refuse(lineage, target)

    async def _refuse(self, lineage: Lineage, target: CommitTarget) -> NoReturn:
        """Raise the error for the rule that a commit broke, after it wrote nothing."""
        variant = await lineage.find(Variant, Reference(target.variant_id))
        if variant is None:
            raise NotFound(f"There is no {self._labels.variant} with the id '{target.variant_id}'.")
        if target.artifact_id not in (None, variant.artifact_id):
            raise MemberConflict(
                f"The variant '{variant.slug}' belongs to another {self._labels.artifact}.",
                conflict={f"{self._labels.artifact}_id": str(target.artifact_id)},
            )
        if target.is_first:
            raise Conflict("An initial revision already exists for this variant.")
        assert target.base_revision_id is not None  # noqa: S101 - no other rule is left
        newest = await lineage.revision_of_variant(variant.id)
        raise RevisionConflict(
            base_revision_id=target.base_revision_id, current_revision_id=None if newest is None else newest.id
        )

    def _response(self, revision: Revision | None, *, with_slugs: bool = True, **others: Any) -> Response:
        return revision_response(self._labels, revision, with_slugs=with_slugs, **others)

    def _list_response(self, revisions: list[Revision], *, with_slugs: bool) -> Response:
        members = (revision_members(self._labels, revision, with_slugs=with_slugs) for revision in revisions)
        return list_response(self._labels.own_name("revisions"), members)


async def _log_start(lineage: Lineage, sent: schemas.LogTarget) -> tuple[UUID | None, int]:
    """Return the variant whose log is requested, and the version to begin at; no variant if it does not exist."""
    if sent.revision_id is not None:
        revision = await lineage.find(Revision, Reference(sent.revision_id))
        return (None, 0) if revision is None else (revision.variant_id, revision.version)
    if sent.variant_id is not None:
        return sent.variant_id, LOG_MAX
    if sent.artifact_id is not None:
        variant = await lineage.default_variant(sent.artifact_id)
        return (None, 0) if variant is None else (variant.id, LOG_MAX)
    return None, 0


def refuse_grown(data: str | None, *, bytes_max: int) -> None:
    """Raise ``TooLarge`` for data that a change made larger than a body may be: otherwise each change could let it
    grow.
    """
    if data is not None and len(data.encode()) > bytes_max:
        raise TooLarge(f"With this change the data would be larger than {bytes_max} bytes.")


def _content(history: History, sent: schemas.RevisionCommit, data: RevisionData | None) -> Content:
    """Return what a commit stores."""
    snapshot = history.snapshot(data)
    return Content(sent.header(), sent.message, snapshot.flags, snapshot.data)


def _changed_content(history: History, sent: schemas.RevisionCommit, delta: Delta, before: str) -> Content:
    """Return what a commit of a delta stores, given the newest data as JSON."""
    try:
        data = validated(history.data, delta.applied_to(json.loads(before)), at="body")
    except InvalidRequest as exc:
        raise InvalidRequest([_at_delta(problem, history, delta) for problem in exc.problems]) from exc
    return _content(history, sent, data)


def _at_delta(problem: Mapping[str, Any], history: History, delta: Delta) -> dict[str, Any]:
    """Point a problem of the changed data at the member of the delta that caused it."""
    _, *steps = problem["loc"]
    member = ["delta", "set"] if steps and steps[0] in (delta.set or {}) else ["delta"]
    return {**problem, "loc": ["body", history.labels.revision, *member, *steps]}


DEPTH_DEFAULT: Final = 10
EMBEDS_DEFAULT: Final = 100
"""The defaults of the reference."""
