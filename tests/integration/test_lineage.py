"""Artifact, variant, revision on a real Postgres: versions without gaps, complete forks, archives that can be restored."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from common.ids import DEFAULT_PROJECT_ID
from common.postgres.pool import Database, UniqueViolation
from common.postgres.projects import Projects
from query_api.registry.store import SQL, Lineage, Owner
from query_api.registry.values import Artifact, CommitTarget, Content, Header, Kind, Revision, Variant
from query_api.request.references import Reference
from tests.fakes.clock import ManualClock

USER = UUID(int=7)


def content(message: str | None = None, data: str | None = None) -> Content:
    return Content(Header(), message, "{}", data)


@pytest.fixture
def lineage(database: Database) -> Lineage:
    return Lineage(database, Kind.APPLICATION, Owner(DEFAULT_PROJECT_ID, USER))


async def artifact(lineage: Lineage, slug: str = "app") -> Artifact:
    return await lineage.create_artifact(slug, header=Header("An app"), flags='{"is_application": true}')


async def variant(lineage: Lineage, slug: str = "app.main") -> Variant:
    parent = await lineage.find(Artifact, Reference(slug="app")) or await artifact(lineage)
    created = await lineage.create_variant(parent.id, slug, header=Header())
    assert created is not None
    return created


async def committed(lineage: Lineage, variant_id: UUID, message: str) -> Revision:
    revision = await lineage.commit(CommitTarget(variant_id), content(message))
    assert revision is not None
    return revision


def test_every_statement_begins_with_the_project_and_the_kind():
    unfenced = [name for name, sql in SQL.items() if not {"$1", "$2"} <= set(re.findall(r"\$\d+", sql))]

    assert unfenced == []


async def test_versions_are_consecutive_from_zero(lineage: Lineage):
    main = await variant(lineage)

    revisions = [await committed(lineage, main.id, str(number)) for number in range(3)]

    assert [revision.version for revision in revisions] == [0, 1, 2]
    assert sorted(revision.id for revision in revisions) == [revision.id for revision in revisions]
    assert revisions[0].id.version == 7
    assert (await lineage.revision_of_variant(main.id)) == revisions[2]
    assert (await lineage.revision_of_variant(main.id, version=1)) == revisions[1]
    assert (await lineage.revision_of_artifact(main.artifact_id)) == revisions[2]
    assert await lineage.log(main.id, depth=2) == [revisions[2], revisions[1]]


async def test_parallel_commits_leave_neither_clash_nor_gap(lineage: Lineage):
    variants = [await variant(lineage, f"app.v{number}") for number in range(2)]

    revisions = await asyncio.gather(*(committed(lineage, variants[n % 2].id, str(n)) for n in range(32)))

    for branch in variants:
        mine = sorted((r for r in revisions if r.variant_id == branch.id), key=lambda r: r.version)
        assert [r.version for r in mine] == list(range(16))
        assert [r.id for r in mine] == sorted(r.id for r in mine)
        assert await lineage.log(branch.id) == mine[::-1]
        assert await lineage.revision_of_variant(branch.id) == mine[-1]


async def test_one_of_many_commits_on_one_base_succeeds(lineage: Lineage):
    main = await variant(lineage)
    base = await committed(lineage, main.id, "base")

    outcomes = await asyncio.gather(
        *(lineage.commit(CommitTarget(main.id, base_revision_id=base.id), content()) for _ in range(8))
    )

    assert Counter(outcome is None for outcome in outcomes) == {True: 7, False: 1}
    assert [revision.version for revision in await lineage.log(main.id)] == [1, 0]


async def test_base_of_another_variant_is_stale(lineage: Lineage):
    main = await variant(lineage)
    head = await committed(lineage, main.id, "0")
    fork = await lineage.fork_variant(main.id, "app.fork", up_to_version=0, header=Header())
    assert fork is not None

    assert await lineage.commit(CommitTarget(fork.id, base_revision_id=head.id), content()) is None
    assert [revision.version for revision in await lineage.log(fork.id)] == [0]


async def test_commit_for_another_artifact_is_rejected(lineage: Lineage):
    main = await variant(lineage)

    assert await lineage.commit(CommitTarget(main.id, artifact_id=uuid4()), content()) is None
    assert await lineage.commit(CommitTarget(uuid4()), content()) is None
    assert await lineage.commit(CommitTarget(main.id, artifact_id=main.artifact_id), content()) is not None


async def test_taken_slug_leaves_no_gap_in_the_versions(lineage: Lineage):
    main = await variant(lineage)
    await lineage.commit(CommitTarget(main.id, slug="first"), content())

    with pytest.raises(UniqueViolation) as taken:
        await lineage.commit(CommitTarget(main.id, slug="first"), content())

    assert taken.value.constraint_name == "revisions_slug_unique"
    assert (await committed(lineage, main.id, "next")).version == 1


async def test_initial_revision_is_created_once(lineage: Lineage):
    main = await variant(lineage)

    outcomes = await asyncio.gather(
        *(lineage.commit(CommitTarget(main.id, is_first=True), content("Initial revision")) for _ in range(8))
    )

    assert [outcome.version for outcome in outcomes if outcome is not None] == [0]


async def test_a_fork_copies_the_live_history_up_to_the_cut(lineage: Lineage):
    main = await variant(lineage)
    revisions = [await committed(lineage, main.id, str(number)) for number in range(4)]
    await lineage.archive(Revision, revisions[1].id)

    fork = await lineage.fork_variant(main.id, "app.fork", up_to_version=2, header=Header())

    assert fork is not None
    assert (fork.artifact_id, fork.revisions_count) == (main.artifact_id, 2)
    assert (fork.forked_from_variant_id, fork.forked_from_revision_id) == (main.id, revisions[2].id)
    copies = await lineage.log(fork.id)
    assert [(copy.version, copy.message) for copy in copies] == [(1, "2"), (0, "0")]
    assert copies[0].slug == f"{revisions[2].slug}_{fork.id.hex}"
    assert copies[1].id < copies[0].id
    assert (await committed(lineage, fork.id, "mine")).version == 2
    assert await lineage.fork_variant(uuid4(), "app.other", up_to_version=2, header=Header()) is None


async def test_a_fork_whose_slug_is_taken_leaves_nothing(lineage: Lineage, database: Database):
    main = await variant(lineage)
    await committed(lineage, main.id, "0")

    with pytest.raises(UniqueViolation):
        await lineage.fork_variant(main.id, "app.main", up_to_version=0, header=Header())

    rows = await database.fetch_all("SELECT count(*) AS count FROM revisions WHERE kind = 'application'")
    assert rows[0]["count"] == 1


async def test_unarchived_variant_restores_what_was_archived_with_it(lineage: Lineage):
    main = await variant(lineage)
    first, second = [await committed(lineage, main.id, str(number)) for number in range(2)]
    await lineage.archive(Revision, first.id)

    archived = await lineage.archive(Variant, main.id)
    while_archived = await lineage.log(main.id)
    restored = await lineage.unarchive(Variant, main.id)

    assert archived is not None
    assert archived.deleted_at == archived.updated_at is not None
    assert while_archived == []
    assert restored is not None
    assert restored.deleted_at is None
    assert [revision.id for revision in await lineage.log(main.id)] == [second.id]


async def test_revision_archived_by_itself_stays_archived(lineage: Lineage):
    main = await variant(lineage)
    first, second = [await committed(lineage, main.id, str(number)) for number in range(2)]
    await lineage.archive(Variant, main.id)

    await lineage.archive(Revision, first.id)
    await lineage.unarchive(Variant, main.id)

    assert [revision.id for revision in await lineage.log(main.id)] == [second.id]


async def test_another_project_or_kind_sees_nothing(lineage: Lineage, database: Database):
    main = await variant(lineage)
    empty = await variant(lineage, "app.empty")
    revision = await committed(lineage, main.id, "0")
    other = await Projects(database, ManualClock()).create("other")
    strangers = [
        Lineage(database, Kind.APPLICATION, Owner(other.id, USER)),
        Lineage(database, Kind.QUERY, Owner(DEFAULT_PROJECT_ID, USER)),
    ]

    for stranger in strangers:
        assert await stranger.find(Artifact, Reference(main.artifact_id)) is None
        assert await stranger.find(Variant, Reference(main.id)) is None
        assert await stranger.find(Revision, Reference(revision.id)) is None
        assert await stranger.find_simple(main.artifact_id) is None
        assert await stranger.default_variant(main.artifact_id) is None
        assert await stranger.revision_of_artifact(main.artifact_id) is None
        assert await stranger.revision_of_variant(main.id) is None
        assert await stranger.create_variant(main.artifact_id, "x", header=Header()) is None
        assert await stranger.commit(CommitTarget(main.id), content()) is None
        assert await stranger.commit(CommitTarget(main.id, base_revision_id=revision.id), content()) is None
        assert await stranger.commit(CommitTarget(empty.id, is_first=True), content()) is None
        assert await stranger.lock_head(main.id) is None
        assert await stranger.fork_variant(main.id, "y", up_to_version=9, header=Header()) is None
        assert await stranger.edit_artifact(main.artifact_id, header=Header("x"), flags=None, folder_id=None) is None
        assert await stranger.edit(Variant, main.id, header=Header("x")) is None
        assert await stranger.edit(Revision, revision.id, header=Header("x")) is None
        assert await stranger.archive(Artifact, main.artifact_id) is None
        assert await stranger.unarchive(Artifact, main.artifact_id) is None
        assert await stranger.archive(Variant, main.id) is None
        assert await stranger.unarchive(Variant, main.id) is None
        assert await stranger.archive(Revision, revision.id) is None
        assert await stranger.unarchive(Revision, revision.id) is None
        assert await stranger.log(main.id) == []
        assert (await artifact(stranger)).slug == "app"  # a separate namespace
    assert await lineage.find(Revision, Reference(revision.id)) == revision
    assert await lineage.find(Variant, Reference(main.id)) == replace(main, revisions_count=1)


async def test_failed_transaction_leaves_nothing(lineage: Lineage):
    async def twice() -> None:
        async with lineage.transaction() as within:
            created = await artifact(within)
            await within.create_variant(created.id, "app.main", header=Header())
            await within.create_variant(created.id, "app.main", header=Header())

    with pytest.raises(UniqueViolation):
        await twice()

    assert await lineage.find(Artifact, Reference(slug="app")) is None


async def test_json_is_kept_as_it_was_written(lineage: Lineage):
    main = await variant(lineage)
    text = '{"z": 1.0, "a": {"n": null, "big": 123456789012345678901234567890}}'

    revision = await lineage.commit(CommitTarget(main.id), content(data=text))

    assert revision is not None
    assert revision.data == text
