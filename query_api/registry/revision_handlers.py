"""The routes of revisions, for every kind (reference ``applications-api`` §6, §7, §8.4; diff and revert are ours)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson

from common.errors import InvalidInput, NotFound
from query_api.compute.pool import IN_PROCESS_BYTES_MAX, run_if_large
from query_api.registry.checks import edited_id, missing, number_up_to, path_id
from query_api.registry.commits import CommitTarget, commit, commit_first, revert
from query_api.registry.diff import changes_json
from query_api.registry.fields import id_window
from query_api.registry.handlers import KindHandlers
from query_api.registry.references import find_named_revision
from query_api.registry.resolving import EmbedLimits, Resolved, resolve_embeds
from query_api.registry.responses import (
    list_response,
    one_response,
    reference_members,
    revision_members,
    revision_response,
)
from query_api.registry.schemas import (
    CommitRevision,
    CreateRevision,
    DiffParameters,
    EditRevision,
    ErrorPolicy,
    LogRevisions,
    LogTarget,
    ResolveOptions,
    ResolveRevision,
    RetrieveRevision,
    RevertRevision,
    RevisionCreate,
    RevisionReferences,
    RevisionRevert,
)
from query_api.registry.searches import QueryRevisions, search_of, with_parameters
from query_api.registry.store import LOG_MAX, Lineage
from query_api.registry.values import Revision
from query_api.request.references import Reference
from query_api.request.route import Request, Response

DEPTH_DEFAULT: Final = 10
EMBEDS_DEFAULT: Final = 100
"""The defaults of the reference."""


class RevisionHandlers(KindHandlers):
    """The routes of revisions."""

    async def commit(self, request: Request) -> Response:
        """Commit a new revision to a variant. With `base_revision_id` only if that is still the newest revision."""
        body: CommitRevision = request.body
        committed = await commit(
            self._lineage(request),
            self._history,
            self._target(body.revision, base_revision_id=body.revision.base_revision_id),
            sent=body.revision,
            bytes_max=request.context.settings.limits.body_bytes_max,
            compute=request.context.compute,
        )
        return self._response(committed)

    async def create(self, request: Request) -> Response:
        """Create version 0 of a variant without revisions. It has no data."""
        body: CreateRevision = request.body
        target = self._target(body.revision)
        return self._response(await commit_first(self._lineage(request), self._history, target, sent=body.revision))

    async def revert(self, request: Request) -> Response:
        """Commit the data of an older revision again. The history grows; nothing is removed."""
        body: RevertRevision = request.body
        sent = body.revision or RevisionRevert()
        return self._response(await revert(self._lineage(request), self._history, path_id(request), sent=sent))

    async def get(self, request: Request) -> Response:
        """Return a revision, archived or not."""
        return self._response(await self._lineage(request).find_revision(Reference(path_id(request))))

    async def edit(self, request: Request) -> Response:
        """Replace the name, description, tags and metadata of a revision; absent members are cleared. The data never
        changes.
        """
        body: EditRevision = request.body
        revision_id = edited_id(request, body.revision.id)
        edited = await self._lineage(request).edit_revision(revision_id, header=body.revision.header())
        return self._response(edited, with_slugs=False)

    async def archive(self, request: Request) -> Response:
        """Archive a revision."""
        return self._response(await self._lineage(request).archive_revision(path_id(request)), with_slugs=False)

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived revision."""
        return self._response(await self._lineage(request).unarchive_revision(path_id(request)), with_slugs=False)

    async def query(self, request: Request) -> Response:
        """Return a page of revisions in the order of their ids."""
        query: QueryRevisions = with_parameters(request.body, request.query)
        search = search_of(self._history, query)
        rows = await self._lineage(request).page(Revision, search, id_window(query.windowing))
        return self._list_response(rows, with_slugs=True)

    async def log(self, request: Request) -> Response:
        """Return the revisions of a variant that are not archived, newest first, from a revision back."""
        body: LogRevisions = request.body
        sent, lineage = body.revisions, self._lineage(request)
        variant_id, from_version = await _log_start(lineage, sent)
        depth = LOG_MAX if sent.depth is None else sent.depth
        rows = [] if variant_id is None else await lineage.log(variant_id, from_version=from_version, depth=depth)
        return self._list_response(rows, with_slugs=False)

    async def retrieve(self, request: Request) -> Response:
        """Return the revision that references name: a variant alone means its newest revision, an artifact alone the
        newest revision of its first variant.
        """
        body: RetrieveRevision = request.body
        found = await self._find_named(request, body)
        return await self._retrieved_or_resolved(request, found, resolve=bool(body.resolve))

    async def resolve(self, request: Request) -> Response:
        """Return the revision that references name, or the data that is sent, with its embedded references resolved."""
        body: ResolveRevision = request.body
        if body.revision is None:
            return await self._resolved_response(request, await self._find_named(request, body), body)
        if body.revision.data is None:
            raise InvalidInput(f"{self._labels.revision}.data is missing: there is nothing to resolve.")
        resolved = await self._resolve(request, body.revision.data.text(), body)
        members = {"data": orjson.Fragment(resolved.data)}
        return one_response(self._labels.revision, members, resolution_info=resolved.info)

    async def diff(self, request: Request) -> Response:
        """Return the changes that lead from the data of one revision to the data of another."""
        parameters: DiffParameters = request.query
        lineage, labels = self._lineage(request), self._labels
        before, after = [await self._existing(lineage, id_) for id_ in (parameters.from_, parameters.to)]
        texts = [revision.data or "{}" for revision in (before, after)]
        is_large = sum(map(len, texts)) > IN_PROCESS_BYTES_MAX
        count, changes = await run_if_large(request.context.compute, changes_json, *texts, is_large=is_large)
        references = {"from": reference_members(labels, before), "to": reference_members(labels, after)}
        members = {"count": count, "changes": orjson.Fragment(changes), "references": references}
        return Response(orjson.dumps(members))

    def retrieved_response(
        self, found: Revision | None, *, info: Mapping[str, Any] | None = None, **others: Any
    ) -> Response:
        """Return the response to a retrieval. ``info`` is what led to the revision besides its own references."""
        if found is None:
            return one_response(self._labels.revision, None)
        more = dict(info or {})
        references = {**reference_members(self._labels, found), **more.pop("references", {})}
        return self._response(found, retrieval_info={"references": references, **more}, **others)

    async def _retrieved_or_resolved(
        self, request: Request, found: Revision | None, *, resolve: bool, info: Mapping[str, Any] | None = None
    ) -> Response:
        if resolve:
            return await self._resolved_response(request, found, ResolveOptions(), info=info)
        return self.retrieved_response(found, info=info)

    async def _resolved_response(
        self,
        request: Request,
        found: Revision | None,
        options: ResolveOptions,
        *,
        info: Mapping[str, Any] | None = None,
    ) -> Response:
        if found is None or found.data is None:
            return one_response(self._labels.revision, None)
        resolved = await self._resolve(request, found.data, options, revision_id=found.id)
        return self.retrieved_response(replace(found, data=resolved.data), info=info, resolution_info=resolved.info)

    async def _resolve(
        self, request: Request, data: str, options: ResolveOptions, *, revision_id: UUID | None = None
    ) -> Resolved:
        limits = request.context.settings.limits
        bounds = EmbedLimits(
            number_up_to(limits.embed_depth_max, options.max_depth, default=DEPTH_DEFAULT, member="max_depth"),
            number_up_to(limits.embeds_max, options.max_embeds, default=EMBEDS_DEFAULT, member="max_embeds"),
            limits.resolved_bytes_max,
        )
        policy = options.error_policy or ErrorPolicy.EXCEPTION
        lineage = self._lineage(request)
        return await resolve_embeds(lineage, data, bounds=bounds, policy=policy, revision_id=revision_id)

    async def _find_named(self, request: Request, sent: RevisionReferences) -> Revision | None:
        return await find_named_revision(self._lineage(request), sent.references(), word=self._labels.artifact)

    async def _existing(self, lineage: Lineage, revision_id: UUID) -> Revision:
        found = await lineage.find_revision(Reference(revision_id))
        if found is None:
            raise NotFound(f"There is no {self._labels.revision} with the id '{revision_id}'.")
        return found

    def _target(self, sent: RevisionCreate, *, base_revision_id: UUID | None = None) -> CommitTarget:
        if sent.variant_id is None:
            raise missing(self._labels.revision, self._labels.own_name("variant_id"))
        return CommitTarget(sent.variant_id, sent.artifact_id, base_revision_id)

    def _response(self, revision: Revision | None, *, with_slugs: bool = True, **others: Any) -> Response:
        return revision_response(self._labels, revision, with_slugs=with_slugs, **others)

    def _list_response(self, revisions: list[Revision], *, with_slugs: bool) -> Response:
        members = (revision_members(self._labels, revision, with_slugs=with_slugs) for revision in revisions)
        return list_response(self._labels.own_name("revisions"), members)


async def _log_start(lineage: Lineage, sent: LogTarget) -> tuple[UUID | None, int]:
    """Return the variant whose log is asked for, and the version to begin at; no variant if it does not exist."""
    if sent.revision_id is not None:
        revision = await lineage.find_revision(Reference(sent.revision_id))
        return (None, 0) if revision is None else (revision.variant_id, revision.version)
    if sent.variant_id is not None:
        return sent.variant_id, LOG_MAX
    if sent.artifact_id is not None:
        variant = await lineage.default_variant(sent.artifact_id)
        return (None, 0) if variant is None else (variant.id, LOG_MAX)
    return None, 0
