"""From references to a revision, and pages of each layer, on a real Postgres."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from common.errors import InvalidInput
from common.ids import DEFAULT_PROJECT_ID
from common.postgres.pool import Database
from query_api.registry.checks import find_named_revision
from query_api.registry.kinds import IdWindowing
from query_api.registry.searches import (
    ROW_BYTES,
    ArtifactFilter,
    EntityFilter,
    QueryArtifacts,
    QueryRevisions,
    QueryVariants,
    RevisionFilter,
)
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import Artifact, CommitTarget, Content, Header, Kind, References, Revision, Variant
from query_api.request.references import Reference, ReferenceIn
from query_api.spans.windowing import Order

ORDERS = {False: Order.ASCENDING, True: Order.DESCENDING}


def slugs(*names: str) -> list[ReferenceIn]:
    return [ReferenceIn(slug=name) for name in names]


class Stored:
    """One application with two variants: `main` with versions 0 and 1, `other` with version 0."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage

    async def fill(self) -> None:
        lineage = self.lineage
        self.app = await lineage.create_artifact("app", header=Header("My App", tags='{"team": "cx"}'), flags="{}")
        self.main = await self._variant("app.main")
        self.other = await self._variant("app.other")
        self.revisions = [await self._commit(variant) for variant in (self.main, self.main, self.other)]

    async def _variant(self, slug: str) -> Variant:
        variant = await self.lineage.create_variant(self.app.id, slug, header=Header(slug))
        assert variant is not None
        return variant

    async def _commit(self, variant: Variant) -> Revision:
        revision = await self.lineage.commit(CommitTarget(variant.id), Content(Header(), message="50% off"))
        assert revision is not None
        return revision


@pytest.fixture
async def stored(database: Database) -> Stored:
    made = Stored(Lineage(database, Kind.APPLICATION, Owner(DEFAULT_PROJECT_ID, UUID(int=7))))
    await made.fill()
    return made


async def found(stored: Stored, **references: Reference) -> Revision | None:
    return await find_named_revision(stored.lineage, References(**references))


async def test_most_precise_reference_finds_the_revision(stored: Stored):
    first, second, elsewhere = stored.revisions
    app, main, other = (Reference(slug=slug) for slug in ("app", "app.main", "app.other"))

    assert await found(stored, revision=Reference(first.id)) == first
    assert await found(stored, revision=Reference(slug=second.slug), variant=main, artifact=app) == second
    assert await found(stored, variant=main, revision=Reference(version="0")) == first
    assert await found(stored, artifact=app, revision=Reference(version="1")) == second
    assert await found(stored, variant=other) == elsewhere
    assert await found(stored, artifact=Reference(stored.app.id)) == second


@pytest.mark.parametrize(
    "references",
    [
        {"artifact": Reference(slug="unknown")},
        {"variant": Reference(uuid4())},
        {"revision": Reference(slug="unknown")},
        {"variant": Reference(slug="app.main"), "revision": Reference(version="2")},
        {"variant": Reference(slug="app.main"), "revision": Reference(version="01")},
        {"variant": Reference(slug="app.main"), "revision": Reference(version="9" * 40)},
        {"artifact": Reference()},
        {"artifact": Reference(version="0")},
    ],
)
async def test_missing_revision_is_none(stored: Stored, references: dict[str, Reference]):
    assert await found(stored, **references) is None


@pytest.mark.parametrize(
    ("references", "words"),
    [
        ({}, "No reference is given"),
        ({"variant": Reference(version="0")}, "application_variant_ref"),
        ({"revision": Reference(version="0")}, r"version needs application_variant_ref"),
        (
            {"variant": Reference(slug="app.main"), "artifact": Reference(slug="x")},
            r"application_ref\.slug.* does not match",
        ),
        (
            {"variant": Reference(slug="app.main"), "artifact": Reference(uuid4())},
            r"application_ref\.id.* does not match",
        ),
    ],
)
async def test_insufficient_or_contradicting_references_are_rejected(
    stored: Stored, references: dict[str, Any], words: str
):
    with pytest.raises(InvalidInput, match=words):
        await found(stored, **references)


async def test_id_with_another_slug_contradicts(stored: Stored):
    with pytest.raises(InvalidInput, match=r"application_variant_ref\.slug"):
        await found(stored, variant=Reference(stored.main.id, "app.other"))


async def test_pages_return_every_row_once(stored: Stored):
    for is_descending in (False, True):
        ids: list[UUID] = []
        while True:
            after = ids[-1] if ids else None
            windowing = IdWindowing(order=ORDERS[is_descending], next=after, limit=2)
            page = await stored.lineage.page(Revision, QueryRevisions(windowing=windowing))
            ids += [row.id for row in page]
            if len(page) < 2:
                break
        assert ids == sorted((revision.id for revision in stored.revisions), reverse=is_descending)


@pytest.mark.parametrize("is_descending", [False, True])
async def test_page_above_the_limit_of_bytes_is_rejected(stored: Stored, is_descending: bool):
    three = 3 * (ROW_BYTES + len("50% off"))
    all_of_them = QueryRevisions(windowing=IdWindowing(order=ORDERS[is_descending]))
    two = QueryRevisions(windowing=IdWindowing(order=ORDERS[is_descending], limit=2))

    assert len(await stored.lineage.page(Revision, all_of_them, bytes_max=three)) == 3
    assert len(await stored.lineage.page(Revision, two, bytes_max=three - 1)) == 2
    with pytest.raises(InvalidInput, match=f"{three - 1} bytes: request less with windowing.limit"):
        await stored.lineage.page(Revision, all_of_them, bytes_max=three - 1)


async def test_single_row_is_returned_however_large_it_is(stored: Stored):
    one = IdWindowing(limit=1)

    assert len(await stored.lineage.page(Artifact, QueryArtifacts(windowing=one), bytes_max=1)) == 1
    assert len(await stored.lineage.page(Revision, QueryRevisions(windowing=one), bytes_max=1)) == 1
    assert len(await stored.lineage.log(stored.main.id, depth=1, bytes_max=1)) == 1


async def test_log_above_the_limit_of_bytes_is_rejected(stored: Stored):
    two = 2 * (ROW_BYTES + len("50% off"))

    assert await stored.lineage.log(stored.main.id, bytes_max=two) == stored.revisions[1::-1]
    with pytest.raises(InvalidInput, match=f"{two - 1} bytes: request less with depth"):
        await stored.lineage.log(stored.main.id, bytes_max=two - 1)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (QueryRevisions(), 3),
        (QueryRevisions(revision=RevisionFilter(message="0% OFF")), 3),
        (QueryRevisions(revision=RevisionFilter(message="5_%")), 0),
        (QueryRevisions(variant_refs=slugs("app.main")), 2),
        (QueryRevisions(variant_refs=slugs("app.main", "app.other")), 3),
        (QueryRevisions(artifact_refs=slugs("other")), 0),
        (QueryRevisions(artifact_refs=slugs("app"), variant_refs=slugs("app.other")), 1),
        (QueryRevisions(revision=RevisionFilter(slugs=[])), 0),
        (QueryRevisions(revision=RevisionFilter(authors=[UUID(int=7)])), 3),
        (QueryRevisions(revision=RevisionFilter(authors=[UUID(int=8)])), 0),
    ],
)
async def test_revisions_are_found_by_conditions(stored: Stored, query: QueryRevisions, count: int):
    assert len(await stored.lineage.page(Revision, query)) == count


async def test_artifacts_and_variants_are_found_by_conditions(stored: Stored):
    lineage = stored.lineage

    async def artifacts(**conditions: Any) -> list[Artifact]:
        return await lineage.page(Artifact, QueryArtifacts(artifact=ArtifactFilter(**conditions)))

    assert await artifacts(tags={"team": "cx"}, name="my app") == [stored.app]
    assert await artifacts(tags={"team": "it"}) == []
    assert await artifacts(folder_id=None) == [stored.app]
    assert await artifacts(folder_id=uuid4()) == []
    listed = await lineage.page(Variant, QueryVariants(variant=EntityFilter(slugs=["app.main"])))
    assert [row.id for row in listed] == [stored.main.id]


async def test_archived_rows_are_returned_on_request(stored: Stored):
    await stored.lineage.archive(Variant, stored.main.id)

    live = await stored.lineage.page(Variant, QueryVariants())
    everything = await stored.lineage.page(Variant, QueryVariants(include_archived=True))

    assert [row.id for row in live] == [stored.other.id]
    assert [row.id for row in everything] == [stored.main.id, stored.other.id]
