"""The routes of artifacts and variants, and the simple routes, for every kind (reference ``applications-api`` §4, §5,
§8).

The simple routes show an artifact and the newest revision of its first variant as one thing. Each handler is one
transaction.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from common.errors import InvalidInput, NotFound, Unavailable
from query_api.registry.checks import edited_id, missing, path_id, refuse_reserved, reporting_conflicts
from query_api.registry.fields import id_window
from query_api.registry.kinds import History, RevisionState, RoleFlags
from query_api.registry.labels import Labels
from query_api.registry.references import find_named_revision
from query_api.registry.responses import artifact_members, list_response, one_response, simple_members, variant_members
from query_api.registry.schemas import (
    ChosenId,
    CreateArtifact,
    CreateSimple,
    CreateVariant,
    EditArtifact,
    EditSimple,
    EditVariant,
    ForkParameters,
    ForkVariant,
    SimpleCreate,
    SimpleEdit,
    VariantFork,
)
from query_api.registry.searches import QueryArtifacts, QueryVariants, search_of, with_parameters
from query_api.registry.store import LOG_MAX, Lineage, Owner, random_slug
from query_api.registry.values import Artifact, Content, Header, Kind, References, SimpleArtifact, Variant
from query_api.request.references import Reference
from query_api.request.route import Request, Response

SEED_MESSAGE: Final = "Initial commit"


def lineage_of(request: Request, kind: Kind) -> Lineage:
    """Return the histories of the request's project. Raises ``Unavailable`` without Postgres."""
    if request.context.database is None:
        raise Unavailable("This process has no Postgres.")
    return Lineage(request.context.database, kind, Owner(request.project_id, request.user_id))


class KindHandlers:
    """The handlers of one kind."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def _labels(self) -> Labels:
        return self._history.labels

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._labels.kind)

    def _artifact_flags(self, sent: RoleFlags | None) -> str:
        return self._history.artifact_flags(sent.given() if sent is not None else {})


class ArtifactHandlers(KindHandlers):
    """The routes of artifacts."""

    async def create(self, request: Request) -> Response:
        """Create an artifact without variants."""
        body: CreateArtifact = request.body
        sent, chosen_id = body.artifact, _chosen_id(request)
        refuse_reserved(sent.slug)
        with reporting_conflicts(slug=sent.slug, chosen_id=chosen_id):
            created = await self._lineage(request).create_artifact(
                sent.slug, header=sent.header(), flags=self._artifact_flags(sent.flags), artifact_id=chosen_id
            )
        return self._response(created)

    async def get(self, request: Request) -> Response:
        """Return an artifact, archived or not."""
        return self._response(await self._lineage(request).find_artifact(Reference(path_id(request))))

    async def edit(self, request: Request) -> Response:
        """Change the given members of an artifact and keep the others. An archived one cannot be changed."""
        body: EditArtifact = request.body
        sent = body.artifact
        artifact_id = edited_id(request, sent.id)
        flags = None if sent.flags is None else self._artifact_flags(sent.flags)
        edited = await self._lineage(request).edit_artifact(
            artifact_id, header=sent.header(), flags=flags, folder_id=sent.folder_id
        )
        return self._response(edited)

    async def archive(self, request: Request) -> Response:
        """Archive an artifact. Its variants and revisions stay as they are."""
        return self._response(await self._lineage(request).archive_artifact(path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived artifact."""
        return self._response(await self._lineage(request).unarchive_artifact(path_id(request)))

    async def query(self, request: Request) -> Response:
        """Return a page of artifacts in the order of their ids."""
        query: QueryArtifacts = with_parameters(request.body, request.query)
        search = search_of(self._history, query)
        rows = await self._lineage(request).page(Artifact, search, id_window(query.windowing))
        return list_response(self._labels.artifacts, map(artifact_members, rows))

    def _response(self, artifact: Artifact | None) -> Response:
        return one_response(self._labels.artifact, None if artifact is None else artifact_members(artifact))


class VariantHandlers(KindHandlers):
    """The routes of variants."""

    async def create(self, request: Request) -> Response:
        """Create a variant without revisions."""
        body: CreateVariant = request.body
        sent, labels = body.variant, self._labels
        if sent.artifact_id is None:
            raise missing(labels.variant, labels.own_name("artifact_id"))
        refuse_reserved(sent.slug)
        with reporting_conflicts(slug=sent.slug):
            created = await self._lineage(request).create_variant(
                sent.artifact_id, sent.slug, header=_named_header(sent)
            )
        if created is None:
            raise NotFound(f"There is no {labels.artifact} with the id '{sent.artifact_id}'.")
        return self._response(created)

    async def get(self, request: Request) -> Response:
        """Return a variant, archived or not."""
        found = await self._lineage(request).find_variant(Reference(path_id(request)))
        return self._response(found, with_slugs=True)

    async def edit(self, request: Request) -> Response:
        """Replace the name, description, tags and metadata of a variant; absent members are cleared."""
        body: EditVariant = request.body
        variant_id = edited_id(request, body.variant.id)
        return self._response(await self._lineage(request).edit_variant(variant_id, header=body.variant.header()))

    async def archive(self, request: Request) -> Response:
        """Archive a variant and its revisions."""
        return self._response(await self._lineage(request).archive_variant(path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived variant and the revisions that were archived with it."""
        return self._response(await self._lineage(request).unarchive_variant(path_id(request)))

    async def query(self, request: Request) -> Response:
        """Return a page of variants in the order of their ids."""
        query: QueryVariants = with_parameters(request.body, request.query)
        search, labels = search_of(self._history, query), self._labels
        rows = await self._lineage(request).page(Variant, search, id_window(query.windowing))
        members = (variant_members(labels, variant, with_slugs=True) for variant in rows)
        return list_response(labels.own_name("variants"), members)

    async def fork(self, request: Request) -> Response:
        """Create a variant of the same artifact with a copy of another variant's history, up to one of its revisions."""
        body: ForkVariant = request.body
        refuse_reserved(body.variant.slug)
        lineage = self._lineage(request)
        source = await self._fork_source(request, lineage)
        up_to_version = await _fork_version(body, lineage, source)
        with reporting_conflicts(slug=body.variant.slug):
            forked = await lineage.fork_variant(
                source.id, body.variant.slug, up_to_version=up_to_version, header=_named_header(body.variant)
            )
        if forked is None:
            raise InvalidInput(f"The variant '{source.slug}' has no revision to fork that is not archived.")
        return self._response(forked)

    async def _fork_source(self, request: Request, lineage: Lineage) -> Variant:
        body: ForkVariant = request.body
        parameters: ForkParameters = request.query
        sent, member = body.variant_ref, self._labels.own_name("variant_ref")
        if parameters.variant_id is not None and sent.id not in (None, parameters.variant_id):
            parameter = self._labels.own_name("variant_id")
            raise InvalidInput(f"{member}.id and the parameter {parameter} name two variants.")
        reference = Reference(sent.id or parameters.variant_id, sent.slug)
        if not reference.identifies:
            raise InvalidInput(f"{member} names no variant to fork: give its id or slug.")
        source = await lineage.find_variant(reference)
        if source is None:
            raise InvalidInput(f"Fork source variant could not be resolved: there is none that {member} names.")
        if reference.slug not in (None, source.slug):
            raise InvalidInput(f"{member}.slug does not match the variant of that id: '{source.slug}'.")
        if source.deleted_at is not None:
            raise InvalidInput(f"The variant '{source.slug}' is archived and cannot be forked.")
        return source

    def _response(self, variant: Variant | None, *, with_slugs: bool = False) -> Response:
        members = None if variant is None else variant_members(self._labels, variant, with_slugs=with_slugs)
        return one_response(self._labels.variant, members)


class SimpleHandlers(KindHandlers):
    """The simple routes."""

    async def create(self, request: Request) -> Response:
        """Create an artifact with a variant and two revisions: version 0 is empty, version 1 holds the data."""
        body: CreateSimple = request.body
        sent, chosen_id = body.artifact, _chosen_id(request)
        refuse_reserved(sent.slug)
        with reporting_conflicts(slug=sent.slug, chosen_id=chosen_id):
            async with self._lineage(request).transaction() as lineage:
                artifact = await lineage.create_artifact(
                    sent.slug, header=sent.header(), flags=self._artifact_flags(sent.flags), artifact_id=chosen_id
                )
                await self._commit_first_revisions(lineage, artifact, sent)
                created = await lineage.find_simple(artifact.id)
        return self._response(created)

    async def get(self, request: Request) -> Response:
        """Return an artifact with its data, archived or not; nothing if its first variant has no revision."""
        return self._response(await self._lineage(request).find_simple(path_id(request)))

    async def edit(self, request: Request) -> Response:
        """Change the given members. Any member except the id commits a revision, with the given or the newest data."""
        body: EditSimple = request.body
        sent = body.artifact
        artifact_id = edited_id(request, sent.id)
        flags = None if sent.flags is None else self._artifact_flags(sent.flags)
        async with self._lineage(request).transaction() as lineage:
            before = await lineage.find_simple(artifact_id)
            if before is None:
                return self._response(None)
            artifact = await lineage.edit_artifact(
                artifact_id, header=sent.header(), flags=flags, folder_id=sent.folder_id
            )
            if artifact is None:
                return self._response(None)
            if _makes_revision(sent):
                await self._commit_edit(lineage, artifact, before, sent)
            return self._response(await lineage.find_simple(artifact_id))

    async def archive(self, request: Request) -> Response:
        """Archive an artifact; some kinds archive its first variant with it."""
        async with self._lineage(request).transaction() as lineage:
            archived = await lineage.archive_artifact(path_id(request))
            if archived is None:
                return self._response(None)
            if variant := await self._archived_with_it(lineage, archived):
                await lineage.archive_variant(variant.id)
            return self._response(await lineage.find_simple(archived.id))

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived artifact, with what was archived with it."""
        async with self._lineage(request).transaction() as lineage:
            restored = await lineage.unarchive_artifact(path_id(request))
            if restored is None:
                return self._response(None)
            if variant := await self._archived_with_it(lineage, restored):
                await lineage.unarchive_variant(variant.id)
            return self._response(await lineage.find_simple(restored.id))

    async def query(self, request: Request) -> Response:
        """Return a page of artifacts with their data, in the order of their ids."""
        query: QueryArtifacts = with_parameters(request.body, request.query)
        search = search_of(self._history, query)
        rows = await self._lineage(request).page(SimpleArtifact, search, id_window(query.windowing))
        return list_response(self._labels.artifacts, map(simple_members, rows))

    async def _archived_with_it(self, lineage: Lineage, artifact: Artifact) -> Variant | None:
        return await lineage.default_variant(artifact.id) if self._history.archives_with_variant else None

    async def _commit_first_revisions(self, lineage: Lineage, artifact: Artifact, sent: SimpleCreate) -> None:
        header = sent.header()
        variant = await lineage.create_variant(artifact.id, random_slug(), header=header)
        assert variant is not None  # noqa: S101 - its artifact was created in this transaction
        snapshot = self._history.snapshot(sent.data)
        await lineage.commit_first(variant.id, Content(header, SEED_MESSAGE, self._history.snapshot(None).flags))
        await lineage.commit(variant.id, Content(header, None, snapshot.flags, snapshot.data))

    async def _commit_edit(
        self, lineage: Lineage, artifact: Artifact, before: SimpleArtifact, sent: SimpleEdit
    ) -> None:
        """``name`` and ``description`` are only those that were sent; all else is taken from the newest revision."""
        if sent.data is not None:
            snapshot = self._history.snapshot(sent.data)
        else:
            await lineage.lock_variant(before.variant_id)  # so that nobody commits a newer revision meanwhile
            newest = await lineage.revision_of_variant(before.variant_id)
            snapshot = self._history.snapshot(None) if newest is None else RevisionState(newest.data, newest.flags)
        header = Header(sent.name, sent.description, artifact.tags, artifact.meta)
        await lineage.commit(before.variant_id, Content(header, None, snapshot.flags, snapshot.data))

    def _response(self, simple: SimpleArtifact | None) -> Response:
        return one_response(self._labels.artifact, None if simple is None else simple_members(simple))


def _chosen_id(request: Request) -> UUID | None:
    parameters: ChosenId = request.query
    return parameters.artifact_id


def _named_header(sent: VariantFork) -> Header:
    """Name a new variant after its slug if it has no name."""
    header = sent.header()
    return header if header.name is not None else header._replace(name=sent.slug)


async def _fork_version(body: ForkVariant, lineage: Lineage, source: Variant) -> int:
    """Return the last version to copy."""
    if body.revision_ref is None or body.revision_ref.value() == Reference():
        return LOG_MAX
    named = References(variant=Reference(source.id), revision=body.revision_ref.value())
    last = await find_named_revision(lineage, named)
    if last is None:
        raise InvalidInput(f"Fork source revision could not be resolved on the variant '{source.slug}'.")
    if last.deleted_at is not None:
        raise InvalidInput(f"Version {last.version} of the variant '{source.slug}' is archived and cannot be forked.")
    return last.version


def _makes_revision(sent: SimpleEdit) -> bool:
    members = (sent.name, sent.description, sent.tags, sent.meta, sent.flags, sent.data)
    return any(member is not None for member in members)
