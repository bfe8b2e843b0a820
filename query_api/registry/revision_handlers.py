"""The routes of revisions, for every kind (reference ``applications-api`` §6, §7.1, §7.2, §8.4; diff and revert are ours)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson

from common.errors import InvalidInput, NotFound
from query_api.compute.pool import IN_PROCESS_BYTES_MAX, run_if_large
from query_api.registry.answers import Members, list_answer, one_answer, reference_members, revision_members
from query_api.registry.bodies import (
    EntityEdit,
    ErrorPolicy,
    LogAsked,
    ResolveQuestion,
    RevisionCommit,
    RevisionCreate,
    RevisionRevert,
)
from query_api.registry.commits import Target, commit, commit_first, revert
from query_api.registry.differences import ABSENT, Difference, differences
from query_api.registry.history import History, first_given, lineage_of
from query_api.registry.models import DiffParameters, json_text
from query_api.registry.names import Names
from query_api.registry.parameters import or_parameters
from query_api.registry.questions import search_of, window_of
from query_api.registry.references import find_named_revision
from query_api.registry.requests import edited_id, missing, number_up_to, path_id
from query_api.registry.resolving import Bounds, Resolved, resolve_embeds
from query_api.registry.store import LOG_MAX, Lineage
from query_api.registry.values import References, Revision
from query_api.request.references import Reference, ReferenceIn
from query_api.request.route import Request, Response

DEPTH_DEFAULT: Final = 10
EMBEDS_DEFAULT: Final = 100
"""Of the reference, where a request does not say."""


class RevisionHandlers:
    """One kind's."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._names = history.names

    async def commit(self, request: Request) -> Response:
        """A new head of a variant, with the next version. With `base_revision_id` only if that is still the head."""
        sent: RevisionCommit = getattr(request.body, self._names.revision)
        target = self._target(sent, base_revision_id=sent.base_revision_id)
        committed = await commit(
            self._lineage(request),
            self._history,
            target,
            sent=sent,
            bytes_max=request.context.settings.limits.body_bytes_max,
            compute=request.context.compute,
        )
        return self._answer(committed, with_slugs=True)

    async def create(self, request: Request) -> Response:
        """Version 0 of a variant that has no revision yet, without data."""
        sent: RevisionCreate = getattr(request.body, self._names.revision)
        created = await commit_first(self._lineage(request), self._history, self._target(sent), sent=sent)
        return self._answer(created, with_slugs=True)

    async def revert(self, request: Request) -> Response:
        """Commit what an older revision holds on its variant again: history grows, nothing is taken back."""
        sent: RevisionRevert = getattr(request.body, self._names.revision) or RevisionRevert()
        reverted = await revert(self._lineage(request), self._history, path_id(request), sent=sent)
        return self._answer(reverted, with_slugs=True)

    async def get(self, request: Request) -> Response:
        """One revision, archived or not."""
        found = await self._lineage(request).find_revision(Reference(path_id(request)))
        return self._answer(found, with_slugs=True)

    async def edit(self, request: Request) -> Response:
        """Replace what is written about a revision: what is absent is cleared. What it holds never changes."""
        sent: EntityEdit = getattr(request.body, self._names.revision)
        revision_id = edited_id(request, sent.id)
        return self._answer(await self._lineage(request).edit_revision(revision_id, header=sent.header()))

    async def archive(self, request: Request) -> Response:
        """Archive one revision."""
        return self._answer(await self._lineage(request).archive_revision(path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Bring one revision back."""
        return self._answer(await self._lineage(request).unarchive_revision(path_id(request)))

    async def query(self, request: Request) -> Response:
        """Ask for revisions, in pages along their ids."""
        names = self._names
        words = [names.artifact, names.variant, names.revision]
        question = or_parameters(request.body, request.query, layer=names.revision, words=words)
        search = search_of(self._history, question, layer=names.revision)
        found = await self._lineage(request).page(Revision, search, window_of(question))
        return list_answer(
            self._names.revisions, [revision_members(self._names, each, with_slugs=True) for each in found]
        )

    async def log(self, request: Request) -> Response:
        """The live revisions of a variant, newest first, from a revision back."""
        sent: LogAsked = getattr(request.body, self._names.revisions)
        lineage = self._lineage(request)
        variant_id, from_version = await self._log_target(lineage, sent)
        depth = LOG_MAX if sent.depth is None else sent.depth
        found = [] if variant_id is None else await lineage.log(variant_id, from_version=from_version, depth=depth)
        return list_answer(
            self._names.revisions, [revision_members(self._names, each, with_slugs=False) for each in found]
        )

    async def retrieve(self, request: Request) -> Response:
        """The revision that references name: a bare variant means its head, a bare artifact the head of its first variant."""
        return await self.answer_found(request, await self._named(request))

    async def resolve(self, request: Request) -> Response:
        """The revision that references name, or the data that is sent, with what its embedded references name in their place."""
        asked: ResolveQuestion = request.body
        sent = getattr(asked, self._names.revision)
        if sent is None:
            return await self._answer_resolved(request, await self._named(request), asked)
        if sent.data is None:
            raise InvalidInput(f"{self._names.revision}.data is missing: there is nothing to resolve.")
        resolved = await self._resolve(request, sent.data.text(), asked)
        shown = {"data": orjson.Fragment(resolved.data)}
        return one_answer(self._names.revision, shown, resolution_info=resolved.info)

    async def answer_found(
        self, request: Request, found: Revision | None, *, info: Mapping[str, Any] | None = None
    ) -> Response:
        """The answer to a retrieval, with embedded references resolved where the body asks for that. ``info`` says what led to the
        revision besides its own references.
        """
        if getattr(request.body, "resolve", None):
            return await self._answer_resolved(request, found, ResolveQuestion(), info=info)
        return self.retrieved(found, info=info)

    def retrieved(
        self,
        found: Revision | None,
        *,
        info: Mapping[str, Any] | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> Response:
        """The answer to a retrieval. ``info`` says what led to the revision besides its own references; ``beside`` are members of
        the answer.
        """
        if found is None:
            return one_answer(self._names.revision, None)
        more = dict(info or {})
        references = {**reference_members(self._names, found), **more.pop("references", {})}
        others: Members = {"retrieval_info": {"references": references, **more}, **(beside or {})}
        members = revision_members(self._names, found, with_slugs=True)
        return one_answer(self._names.revision, members, **others)

    async def diff(self, request: Request) -> Response:
        """What differs between what two revisions hold, as a list of changes that leads from the one to the other."""
        asked: DiffParameters = request.query
        lineage = self._lineage(request)
        before, after = [await self._existing(lineage, revision_id) for revision_id in (asked.from_, asked.to)]
        texts = [each.data or "{}" for each in (before, after)]
        is_large = sum(map(len, texts)) > IN_PROCESS_BYTES_MAX
        count, changes = await run_if_large(request.context.compute, _changes, *texts, is_large=is_large)
        references = {
            side: reference_members(self._names, revision) for side, revision in (("from", before), ("to", after))
        }
        members = {"count": count, "changes": orjson.Fragment(changes), "references": references}
        return Response(orjson.dumps(members))

    async def _answer_resolved(
        self, request: Request, found: Revision | None, asked: ResolveQuestion, *, info: Mapping[str, Any] | None = None
    ) -> Response:
        if found is None or found.data is None:
            return one_answer(self._names.revision, None)
        resolved = await self._resolve(request, found.data, asked, revision_id=found.id)
        beside = {"resolution_info": resolved.info}
        return self.retrieved(replace(found, data=resolved.data), info=info, beside=beside)

    async def _resolve(
        self, request: Request, data: str, asked: ResolveQuestion, *, revision_id: UUID | None = None
    ) -> Resolved:
        limits = request.context.settings.limits
        bounds = Bounds(
            number_up_to(limits.embed_depth_max, asked.max_depth, default=DEPTH_DEFAULT, member="max_depth"),
            number_up_to(limits.embeds_max, asked.max_embeds, default=EMBEDS_DEFAULT, member="max_embeds"),
            limits.resolved_bytes_max,
        )
        policy = asked.error_policy or ErrorPolicy.EXCEPTION
        return await resolve_embeds(self._lineage(request), data, bounds=bounds, policy=policy, revision_id=revision_id)

    async def _named(self, request: Request) -> Revision | None:
        references = references_of(request.body, self._names)
        return await find_named_revision(self._lineage(request), references, word=self._names.artifact)

    async def _existing(self, lineage: Lineage, revision_id: UUID) -> Revision:
        found = await lineage.find_revision(Reference(revision_id))
        if found is None:
            raise NotFound(f"There is no {self._names.revision} with the id '{revision_id}'.")
        return found

    async def _log_target(self, lineage: Lineage, sent: LogAsked) -> tuple[UUID | None, int]:
        names = self._names
        if revision_id := first_given(sent, names.revision_members("id")):
            revision = await lineage.find_revision(Reference(revision_id))
            return (None, 0) if revision is None else (revision.variant_id, revision.version)
        if variant_id := first_given(sent, names.variant_members("id")):
            return variant_id, LOG_MAX
        if artifact_id := first_given(sent, names.artifact_members("id")):
            variant = await lineage.default_variant(artifact_id)
            return (None, 0) if variant is None else (variant.id, LOG_MAX)
        return None, 0

    def _target(self, sent: RevisionCreate, *, base_revision_id: UUID | None = None) -> Target:
        names = self._names
        variant_id = first_given(sent, names.variant_members("id"))
        if variant_id is None:
            raise missing(names.revision, f"{names.variant}_id")
        return Target(variant_id, first_given(sent, names.artifact_members("id")), base_revision_id)

    def _answer(self, revision: Revision | None, *, with_slugs: bool = False) -> Response:
        shown = None if revision is None else revision_members(self._names, revision, with_slugs=with_slugs)
        return one_answer(self._names.revision, shown)

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._names.kind)


def references_of(body: Any, names: Names) -> References:
    """What a body names of a kind, layer by layer."""
    members = (names.artifact_ref, names.variant_ref, names.revision_ref)
    sent: list[ReferenceIn | None] = [getattr(body, member) for member in members]
    return References(*(None if each is None else each.value() for each in sent))


def _changes(before: str, after: str) -> tuple[int, bytes]:
    """How many changes there are between two JSON texts, and the list of them as JSON."""
    changes = [_change_members(each) for each in differences(json.loads(before), json.loads(after))]
    return len(changes), orjson.dumps(changes)


def _change_members(change: Difference) -> Members:
    sides = (("from", change.before), ("to", change.after))
    values = {side: orjson.Fragment(json_text(value) or "null") for side, value in sides if value is not ABSENT}
    return {"op": change.op, "path": change.path, **values}
