"""The routes of artifacts, for every kind (reference ``applications-api`` §4, §8.2)."""

from __future__ import annotations

from query_api.registry.answers import artifact_members, list_answer, one_answer
from query_api.registry.bodies import ArtifactCreate, ArtifactEdit
from query_api.registry.history import History, first_given, lineage_of
from query_api.registry.parameters import or_parameters
from query_api.registry.questions import search_of, window_of
from query_api.registry.requests import edited_id, path_id, refuse_reserved, telling_conflicts
from query_api.registry.store import Lineage
from query_api.registry.values import Artifact
from query_api.request.references import Reference
from query_api.request.route import Request, Response


class ArtifactHandlers:
    """One kind's."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._names = history.names

    async def create(self, request: Request) -> Response:
        """A new one, without variants. Its slug is unique among all of its kind in the project, archived ones included."""
        sent: ArtifactCreate = getattr(request.body, self._names.artifact)
        refuse_reserved(sent.slug)
        chosen_id = first_given(request.query, self._names.artifact_members("id"))
        flags = self._history.artifact_flags(sent.flags.given() if sent.flags is not None else {})
        with telling_conflicts(slug=sent.slug, chosen_id=chosen_id):
            created = await self._lineage(request).create_artifact(
                sent.slug, header=sent.header(), flags=flags, artifact_id=chosen_id
            )
        return self._answer(created)

    async def get(self, request: Request) -> Response:
        """One, archived or not."""
        return self._answer(await self._lineage(request).find_artifact(Reference(path_id(request))))

    async def edit(self, request: Request) -> Response:
        """Change what is given of one, and keep the rest. An archived one is not edited."""
        sent: ArtifactEdit = getattr(request.body, self._names.artifact)
        artifact_id = edited_id(request, sent.id)
        flags = self._history.artifact_flags(sent.flags.given()) if sent.flags is not None else None
        edited = await self._lineage(request).edit_artifact(
            artifact_id, header=sent.header(), flags=flags, folder_id=sent.folder_id
        )
        return self._answer(edited)

    async def archive(self, request: Request) -> Response:
        """Archive one; its variants and revisions stay as they are."""
        return self._answer(await self._lineage(request).archive_artifact(path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Bring one back."""
        return self._answer(await self._lineage(request).unarchive_artifact(path_id(request)))

    async def query(self, request: Request) -> Response:
        """Ask for them, in pages along their ids."""
        member = self._names.artifact
        question = or_parameters(request.body, request.query, layer=member, words=[member])
        search = search_of(self._history, question, layer=member)
        found = await self._lineage(request).page(Artifact, search, window_of(question))
        return list_answer(self._names.artifacts, [artifact_members(each) for each in found])

    def _answer(self, artifact: Artifact | None) -> Response:
        return one_answer(self._names.artifact, None if artifact is None else artifact_members(artifact))

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._names.kind)
