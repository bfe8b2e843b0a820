"""The simple routes of every kind: an artifact and what the head of its first variant holds, as one thing.

Source: reference ``applications-api`` §8.5. A method is one transaction.
"""

from __future__ import annotations

from query_api.registry.answers import list_answer, one_answer, simple_members
from query_api.registry.bodies import SimpleCreate, SimpleEdit
from query_api.registry.history import History, Snapshot, first_given, lineage_of
from query_api.registry.parameters import or_parameters
from query_api.registry.questions import search_of, window_of
from query_api.registry.requests import edited_id, path_id, refuse_reserved, telling_conflicts
from query_api.registry.store import Lineage, slug_of_chance
from query_api.registry.values import Artifact, Content, Header, SimpleArtifact, Variant
from query_api.request.route import Request, Response

SEED_MESSAGE = "Initial commit"


class SimpleHandlers:
    """One kind's."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._names = history.names

    async def create(self, request: Request) -> Response:
        """An artifact with a variant and two revisions: 0, which is empty, and 1 with the data. All of it, or nothing."""
        sent: SimpleCreate = getattr(request.body, self._names.artifact)
        refuse_reserved(sent.slug)
        chosen_id = first_given(request.query, self._names.artifact_members("id"))
        with telling_conflicts(slug=sent.slug, chosen_id=chosen_id):
            async with self._lineage(request).transaction() as lineage:
                flags = self._history.artifact_flags(sent.flags.given() if sent.flags is not None else {})
                artifact = await lineage.create_artifact(
                    sent.slug, header=sent.header(), flags=flags, artifact_id=chosen_id
                )
                await self._first_revisions(lineage, artifact, sent)
                created = await lineage.find_simple(artifact.id)
        return self._answer(created)

    async def get(self, request: Request) -> Response:
        """One, archived or not; none where its first variant has no revision."""
        return self._answer(await self._lineage(request).find_simple(path_id(request)))

    async def edit(self, request: Request) -> Response:
        """Change what is given of one. Anything but its id makes a revision, with the data that is given or the head's."""
        sent: SimpleEdit = getattr(request.body, self._names.artifact)
        artifact_id = edited_id(request, sent.id)
        async with self._lineage(request).transaction() as lineage:
            before = await lineage.find_simple(artifact_id)
            if before is None:
                return self._answer(None)
            flags = self._history.artifact_flags(sent.flags.given()) if sent.flags is not None else None
            artifact = await lineage.edit_artifact(
                artifact_id, header=sent.header(), flags=flags, folder_id=sent.folder_id
            )
            if artifact is None:
                return self._answer(None)
            if _changes_something(sent):
                await self._next_revision(lineage, artifact, before, sent)
            return self._answer(await lineage.find_simple(artifact_id))

    async def archive(self, request: Request) -> Response:
        """Archive the artifact; whether its first variant goes with it, its kind says."""
        async with self._lineage(request).transaction() as lineage:
            archived = await lineage.archive_artifact(path_id(request))
            if archived is None:
                return self._answer(None)
            if variant := await self._archived_with_it(lineage, archived):
                await lineage.archive_variant(variant.id)
            return self._answer(await lineage.find_simple(archived.id))

    async def unarchive(self, request: Request) -> Response:
        """Bring the artifact back, with what was archived with it."""
        async with self._lineage(request).transaction() as lineage:
            restored = await lineage.unarchive_artifact(path_id(request))
            if restored is None:
                return self._answer(None)
            if variant := await self._archived_with_it(lineage, restored):
                await lineage.unarchive_variant(variant.id)
            return self._answer(await lineage.find_simple(restored.id))

    async def query(self, request: Request) -> Response:
        """Ask for them, in pages along their ids."""
        member = self._names.artifact
        question = or_parameters(request.body, request.query, layer=member, words=[member])
        search = search_of(self._history, question, layer=member)
        found = await self._lineage(request).page(SimpleArtifact, search, window_of(question))
        return list_answer(self._names.artifacts, [simple_members(each) for each in found])

    async def _archived_with_it(self, lineage: Lineage, artifact: Artifact) -> Variant | None:
        return await lineage.default_variant(artifact.id) if self._history.archives_with_variant else None

    async def _first_revisions(self, lineage: Lineage, artifact: Artifact, sent: SimpleCreate) -> None:
        header = sent.header()
        variant = await lineage.create_variant(artifact.id, slug_of_chance(), header=header)
        assert variant is not None  # noqa: S101 - its artifact was made in this transaction
        snapshot = self._history.snapshot(sent.data)
        await lineage.commit_first(variant.id, Content(header, SEED_MESSAGE, self._history.snapshot(None).flags))
        await lineage.commit(variant.id, Content(header, None, snapshot.flags, snapshot.data))

    async def _next_revision(
        self, lineage: Lineage, artifact: Artifact, before: SimpleArtifact, sent: SimpleEdit
    ) -> None:
        """``name`` and ``description`` are what was sent; everything else that was not is taken over."""
        if sent.data is not None:
            snapshot = self._history.snapshot(sent.data)
        else:
            await lineage.lock_variant(before.variant_id)  # so that what is taken over is still the head
            head = await lineage.revision_of_variant(before.variant_id)
            snapshot = self._history.snapshot(None) if head is None else Snapshot(head.data, head.flags)
        header = Header(sent.name, sent.description, artifact.tags, artifact.meta)
        await lineage.commit(before.variant_id, Content(header, None, snapshot.flags, snapshot.data))

    def _answer(self, simple: SimpleArtifact | None) -> Response:
        return one_answer(self._names.artifact, None if simple is None else simple_members(simple))

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._names.kind)


def _changes_something(sent: SimpleEdit) -> bool:
    members = (sent.name, sent.description, sent.tags, sent.meta, sent.flags, sent.data)
    return any(member is not None for member in members)
