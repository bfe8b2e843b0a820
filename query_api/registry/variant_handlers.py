"""The routes of variants, for every kind (reference ``applications-api`` §5, §8.3)."""

from __future__ import annotations

from common.errors import InvalidInput, NotFound
from query_api.registry.answers import list_answer, one_answer, variant_members
from query_api.registry.bodies import EntityEdit, VariantCreate
from query_api.registry.history import History, first_given, lineage_of
from query_api.registry.parameters import or_parameters
from query_api.registry.questions import search_of, window_of
from query_api.registry.references import find_named_revision
from query_api.registry.requests import edited_id, missing, path_id, refuse_reserved, telling_conflicts
from query_api.registry.store import LOG_MAX, Lineage
from query_api.registry.values import Header, References, Variant
from query_api.request.references import Reference, ReferenceIn
from query_api.request.route import Request, Response


class VariantHandlers:
    """One kind's."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._names = history.names

    async def create(self, request: Request) -> Response:
        """A new variant without revisions. Its slug is unique among all variants of the kind in the project."""
        names = self._names
        sent: VariantCreate = getattr(request.body, names.variant)
        artifact_id = first_given(sent, names.artifact_members("id"))
        if artifact_id is None:
            raise missing(names.variant, f"{names.artifact}_id")
        refuse_reserved(sent.slug)
        with telling_conflicts(slug=sent.slug):
            created = await self._lineage(request).create_variant(artifact_id, sent.slug, header=_named_header(sent))
        if created is None:
            raise NotFound(f"There is no {names.artifact} with the id '{artifact_id}'.")
        return self._answer(created)

    async def get(self, request: Request) -> Response:
        """One variant, archived or not."""
        found = await self._lineage(request).find_variant(Reference(path_id(request)))
        return self._answer(found, with_slugs=True)

    async def edit(self, request: Request) -> Response:
        """Replace what is written about a variant: what is absent is cleared."""
        sent: EntityEdit = getattr(request.body, self._names.variant)
        variant_id = edited_id(request, sent.id)
        return self._answer(await self._lineage(request).edit_variant(variant_id, header=sent.header()))

    async def archive(self, request: Request) -> Response:
        """Archive a variant and its live revisions."""
        return self._answer(await self._lineage(request).archive_variant(path_id(request)))

    async def unarchive(self, request: Request) -> Response:
        """Bring a variant back, with the revisions that were archived with it."""
        return self._answer(await self._lineage(request).unarchive_variant(path_id(request)))

    async def query(self, request: Request) -> Response:
        """Ask for variants, in pages along their ids."""
        names = self._names
        question = or_parameters(
            request.body, request.query, layer=names.variant, words=[names.artifact, names.variant]
        )
        search = search_of(self._history, question, layer=names.variant)
        found = await self._lineage(request).page(Variant, search, window_of(question))
        return list_answer(names.variants, [variant_members(names, each, with_slugs=True) for each in found])

    async def fork(self, request: Request) -> Response:
        """A new variant of the same parent, with the live history of another up to a revision of it, or up to its newest."""
        sent: VariantCreate = getattr(request.body, self._names.variant)
        refuse_reserved(sent.slug)
        lineage = self._lineage(request)
        source = await self._source(request, lineage)
        up_to_version = await self._cut(request, lineage, source)
        with telling_conflicts(slug=sent.slug):
            forked = await lineage.fork_variant(
                source.id, sent.slug, up_to_version=up_to_version, header=_named_header(sent)
            )
        if forked is None:
            raise InvalidInput(f"The variant '{source.slug}' has no live revision to fork.")
        return self._answer(forked)

    async def _source(self, request: Request, lineage: Lineage) -> Variant:
        names = self._names
        sent: ReferenceIn = getattr(request.body, names.variant_ref)
        asked_id = first_given(request.query, (f"{names.variant}_id",))
        if asked_id is not None and sent.id not in (None, asked_id):
            raise InvalidInput(f"{names.variant_ref}.id and the parameter {names.variant}_id name two variants.")
        reference = Reference(sent.id or asked_id, sent.slug)
        if not reference.identifies:
            raise InvalidInput(f"{names.variant_ref} names no variant to fork: give its id or slug.")
        source = await lineage.find_variant(reference)
        if source is None:
            raise InvalidInput(
                f"Fork source variant could not be resolved: there is none that {names.variant_ref} names."
            )
        if reference.slug not in (None, source.slug):
            raise InvalidInput(f"{names.variant_ref}.slug does not match the variant of that id: '{source.slug}'.")
        if source.deleted_at is not None:
            raise InvalidInput(f"The variant '{source.slug}' is archived and cannot be forked.")
        return source

    async def _cut(self, request: Request, lineage: Lineage, source: Variant) -> int:
        """The version up to which the history is copied."""
        sent: ReferenceIn | None = getattr(request.body, self._names.revision_ref)
        if sent is None or sent.value() == Reference():
            return LOG_MAX
        named = References(variant=Reference(source.id), revision=sent.value())
        cut = await find_named_revision(lineage, named)
        if cut is None:
            raise InvalidInput(f"Fork source revision could not be resolved on the variant '{source.slug}'.")
        if cut.deleted_at is not None:
            raise InvalidInput(
                f"Version {cut.version} of the variant '{source.slug}' is archived and cannot be forked."
            )
        return cut.version

    def _answer(self, variant: Variant | None, *, with_slugs: bool = False) -> Response:
        shown = None if variant is None else variant_members(self._names, variant, with_slugs=with_slugs)
        return one_answer(self._names.variant, shown)

    def _lineage(self, request: Request) -> Lineage:
        return lineage_of(request, self._names.kind)


def _named_header(sent: VariantCreate) -> Header:
    """A new variant without a name is called like its slug."""
    header = sent.header()
    return header if header.name is not None else header._replace(name=sent.slug)
