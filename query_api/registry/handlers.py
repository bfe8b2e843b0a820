"""The routes of artifacts and variants, and the simple routes, for every kind (reference ``applications-api`` §4, §5,
§8).

The simple routes show an artifact and the newest revision of its first variant as one thing. Each handler is one
transaction.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from common.errors import InvalidInput, NotFound
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
from query_api.registry.kinds import RevisionState, RoleFlags
from query_api.registry.responses import artifact_members, list_response, one_response, simple_members, variant_members
from query_api.registry.store import LOG_MAX, Lineage, random_slug
from query_api.registry.values import Artifact, CommitTarget, Content, Header, References, SimpleArtifact, Variant
from query_api.request.references import Reference
from query_api.request.route import Request, Response

SEED_MESSAGE: Final = "Initial commit"


class _ArtifactWriter(KindHandlers):
    """Creates and edits artifacts, with or without data."""

    async def _create_artifact(
        self, lineage: Lineage, sent: schemas.ArtifactCreate, chosen_id: UUID | None
    ) -> Artifact:
        flags = sent.flags or (self._history.role_flags or RoleFlags)()
        return await lineage.create_artifact(
            sent.slug, header=sent.header(), flags=flags.stored(), artifact_id=chosen_id
        )

    async def _edit_artifact(self, lineage: Lineage, artifact_id: UUID, sent: schemas.ArtifactEdit) -> Artifact | None:
        flags = None if sent.flags is None else sent.flags.stored()
        return await lineage.edit_artifact(artifact_id, header=sent.header(), flags=flags, folder_id=sent.folder_id)


class ArtifactHandlers(_ArtifactWriter):
    """The routes of artifacts."""

    async def create(self, request: Request) -> Response:
        """Create an artifact without variants."""
        body: schemas.CreateArtifact = request.body
        sent, chosen_id = body.artifact, _chosen_id(request)
        refuse_reserved(sent.slug)
        with reporting_conflicts(slug=sent.slug, chosen_id=chosen_id):
            return self._response(await self._create_artifact(self._lineage(request), sent, chosen_id))

    async def get(self, request: Request) -> Response:
        """Return an artifact, archived or not."""
        return self._response(await self._lineage(request).find(Artifact, Reference(path_id(request))))

    async def edit(self, request: Request) -> Response:
        """Change the given members of an artifact and keep the others. An archived one cannot be changed."""
        body: schemas.EditArtifact = request.body
        artifact_id = edited_id(request, body.artifact.id)
        return self._response(await self._edit_artifact(self._lineage(request), artifact_id, body.artifact))

    async def archive(self, request: Request) -> Response:
        """Archive an artifact. Its variants and revisions stay as they are."""
        return self._response(await self._lineage(request).archive(Artifact, path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived artifact."""
        return self._response(await self._lineage(request).unarchive(Artifact, path_id(request)))

    async def query(self, request: Request) -> Response:
        """Return a page of artifacts in the order of their ids."""
        rows = await self._page(request, Artifact)
        return list_response(self._labels.artifacts, map(artifact_members, rows))

    def _response(self, artifact: Artifact | None) -> Response:
        return one_response(self._labels.artifact, None if artifact is None else artifact_members(artifact))


class VariantHandlers(KindHandlers):
    """The routes of variants."""

    async def create(self, request: Request) -> Response:
        """Create a variant without revisions."""
        body: schemas.CreateVariant = request.body
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
        found = await self._lineage(request).find(Variant, Reference(path_id(request)))
        return self._response(found, with_slugs=True)

    async def edit(self, request: Request) -> Response:
        """Replace the name, description, tags and metadata of a variant; absent members are cleared."""
        body: schemas.EditVariant = request.body
        variant_id = edited_id(request, body.variant.id)
        return self._response(await self._lineage(request).edit(Variant, variant_id, header=body.variant.header()))

    async def archive(self, request: Request) -> Response:
        """Archive a variant and its revisions."""
        return self._response(await self._lineage(request).archive(Variant, path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived variant and the revisions that were archived with it."""
        return self._response(await self._lineage(request).unarchive(Variant, path_id(request)))

    async def query(self, request: Request) -> Response:
        """Return a page of variants in the order of their ids."""
        rows = await self._page(request, Variant)
        members = (variant_members(self._labels, variant, with_slugs=True) for variant in rows)
        return list_response(self._labels.own_name("variants"), members)

    async def fork(self, request: Request) -> Response:
        """Create a variant in the same artifact with a copy of another variant's history up to a revision."""
        body: schemas.ForkVariant = request.body
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
        body: schemas.ForkVariant = request.body
        parameters: schemas.ForkParameters = request.query
        sent, member = body.variant_ref, self._labels.own_name("variant_ref")
        if parameters.variant_id is not None and sent.id not in (None, parameters.variant_id):
            parameter = self._labels.own_name("variant_id")
            raise InvalidInput(f"{member}.id and the parameter {parameter} name different variants.")
        reference = Reference(sent.id or parameters.variant_id, sent.slug)
        if not reference.identifies:
            raise InvalidInput(f"{member} names no variant to fork: give its id or slug.")
        source = await lineage.find(Variant, reference)
        if source is None:
            raise InvalidInput(f"Fork source variant could not be resolved: {member} names no variant.")
        if reference.slug not in (None, source.slug):
            raise InvalidInput(f"{member}.slug does not match the variant of that id: '{source.slug}'.")
        if source.deleted_at is not None:
            raise InvalidInput(f"The variant '{source.slug}' is archived and cannot be forked.")
        return source

    def _response(self, variant: Variant | None, *, with_slugs: bool = False) -> Response:
        members = None if variant is None else variant_members(self._labels, variant, with_slugs=with_slugs)
        return one_response(self._labels.variant, members)


class SimpleHandlers(_ArtifactWriter):
    """The simple routes."""

    async def create(self, request: Request) -> Response:
        """Create an artifact with a variant and two revisions: version 0 is empty, version 1 holds the data."""
        body: schemas.CreateSimple = request.body
        sent, chosen_id = body.artifact, _chosen_id(request)
        refuse_reserved(sent.slug)
        with reporting_conflicts(slug=sent.slug, chosen_id=chosen_id):
            async with self._lineage(request).transaction() as lineage:
                return self._response(await self.create_in(lineage, sent, chosen_id))

    async def create_in(
        self, lineage: Lineage, sent: schemas.SimpleCreate, chosen_id: UUID | None = None
    ) -> SimpleArtifact:
        """Create an artifact with a variant and two revisions, in a transaction. Raises ``UniqueViolation``."""
        artifact = await self._create_artifact(lineage, sent, chosen_id)
        await self._commit_first_revisions(lineage, artifact, sent)
        created = await lineage.find_simple(artifact.id)
        assert created is not None  # noqa: S101 - it was created in this transaction
        return created

    async def get(self, request: Request) -> Response:
        """Return an artifact with its data, archived or not; nothing if its first variant has no revision."""
        return self._response(await self._lineage(request).find_simple(path_id(request)))

    async def edit(self, request: Request) -> Response:
        """Change the given members. Any member except the id commits a revision, with the given or the newest data."""
        body: schemas.EditSimple = request.body
        sent = body.artifact
        artifact_id = edited_id(request, sent.id)
        async with self._lineage(request).transaction() as lineage:
            before = await lineage.find_simple(artifact_id)
            artifact = None if before is None else await self._edit_artifact(lineage, artifact_id, sent)
            if before is None or artifact is None:
                return self._response(None)
            if _makes_revision(sent):
                await self._commit_edit(lineage, artifact, before, sent)
            return self._response(await lineage.find_simple(artifact_id))

    async def archive(self, request: Request) -> Response:
        """Archive an artifact; some kinds archive its first variant with it."""
        return await self._archive_or_restore(request, is_archived=True)

    async def unarchive(self, request: Request) -> Response:
        """Restore an archived artifact, with what was archived with it."""
        return await self._archive_or_restore(request, is_archived=False)

    async def query(self, request: Request) -> Response:
        """Return a page of artifacts with their data, in the order of their ids."""
        return list_response(self._labels.artifacts, map(simple_members, await self._page(request, SimpleArtifact)))

    async def _archive_or_restore(self, request: Request, *, is_archived: bool) -> Response:
        async with self._lineage(request).transaction() as lineage:
            change = lineage.archive if is_archived else lineage.unarchive
            changed = await change(Artifact, path_id(request))
            if changed is None:
                return self._response(None)
            if self._history.archives_with_variant and (variant := await lineage.default_variant(changed.id)):
                await change(Variant, variant.id)
            return self._response(await lineage.find_simple(changed.id))

    async def _commit_first_revisions(self, lineage: Lineage, artifact: Artifact, sent: schemas.SimpleCreate) -> None:
        header = sent.header()
        variant = await lineage.create_variant(artifact.id, random_slug(), header=header)
        assert variant is not None  # noqa: S101 - its artifact was created in this transaction
        snapshot = self._history.snapshot(sent.data)
        await lineage.commit(
            CommitTarget(variant.id), Content(header, SEED_MESSAGE, self._history.snapshot(None).flags)
        )
        await lineage.commit(CommitTarget(variant.id), Content(header, None, snapshot.flags, snapshot.data))

    async def _commit_edit(
        self, lineage: Lineage, artifact: Artifact, before: SimpleArtifact, sent: schemas.SimpleEdit
    ) -> None:
        """Only ``name`` and ``description`` that were sent are used; everything else is taken from the newest
        revision.
        """
        if sent.data is not None:
            snapshot = self._history.snapshot(sent.data)
        else:
            newest = await lineage.lock_head(before.variant_id)  # so that nobody commits a newer revision meanwhile
            snapshot = self._history.snapshot(None) if newest is None else RevisionState(newest.data, newest.flags)
        header = Header(sent.name, sent.description, artifact.tags, artifact.meta)
        await lineage.commit(CommitTarget(before.variant_id), Content(header, None, snapshot.flags, snapshot.data))

    def _response(self, simple: SimpleArtifact | None) -> Response:
        return one_response(self._labels.artifact, None if simple is None else simple_members(simple))


def _chosen_id(request: Request) -> UUID | None:
    parameters: schemas.ChosenId = request.query
    return parameters.artifact_id


def _named_header(sent: schemas.VariantFork) -> Header:
    """Name a new variant after its slug if it has no name."""
    header = sent.header()
    return header if header.name is not None else header._replace(name=sent.slug)


async def _fork_version(body: schemas.ForkVariant, lineage: Lineage, source: Variant) -> int:
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


def _makes_revision(sent: schemas.SimpleEdit) -> bool:
    members = (sent.name, sent.description, sent.tags, sent.meta, sent.flags, sent.data)
    return any(member is not None for member in members)
