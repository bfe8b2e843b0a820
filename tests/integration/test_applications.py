"""Applications, variants and revisions over HTTP, over more than one request (reference ``applications-api`` §1, §4–§8;
contract §5)."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from common.postgres.pool import Database
from common.settings import ComputeSettings, Settings
from query_api.compute import ProcessCompute
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import CommitTarget, Content, Header, Kind
from tests.support.api import KnownKeys, context_of, serving
from tests.support.history import USER_ID, HistoryClient, clients_of


@pytest.fixture
async def client(shared_database: Database) -> AsyncIterator[HistoryClient]:
    async with clients_of(shared_database) as [client]:
        yield client


async def slugs(client: HistoryClient, layer: str, **query: Any) -> list[str]:
    """Return the slugs that a query finds, in the order of the response."""
    path = {"applications": "/applications/query", "application_variants": "/applications/variants/query"}
    response = await client.post(path.get(layer, "/applications/revisions/query"), query)
    return [entity["slug"] for entity in response[layer]]


# Shapes


async def test_application_is_listed_with_any_flags(client: HistoryClient):
    made = [await client.application("a"), await client.application("b", flags={"is_application": False, "x": 1})]

    assert [entity["flags"]["is_application"] for entity in made] == [True, True]
    assert await slugs(client, "applications") == ["a", "b"]


async def test_revision_has_all_members(client: HistoryClient):
    application, variant, _ = await client.branch()
    sent = {"name": "n", "description": "d", "message": "m", "tags": {"a": {"b": True}}, "meta": {"z": None, "a": 1}}

    revision = await client.commit(variant["id"], **sent, data={"parameters": {"p": None}})

    assert {name: revision[name] for name in sent} == sent
    assert revision["author"] == revision["created_by_id"] == str(USER_ID)
    assert revision["date"] == revision["created_at"]
    assert revision["data"] == {"parameters": {"p": None}}
    assert len(revision["flags"]) == 17
    for spelling in ("application", "workflow", "artifact"):
        below = "variant" if spelling == "artifact" else f"{spelling}_variant"
        assert revision[f"{spelling}_id"] == application["id"]
        assert revision[f"{spelling}_slug"] == "app"
        assert revision[f"{below}_id"] == variant["id"]
        assert revision[f"{below}_slug"] == "app.main"
    assert not {"updated_at", "updated_by_id", "deleted_at", "deleted_by_id"} & set(revision)


async def test_slugs_of_parents_are_returned_where_clients_expect_them(client: HistoryClient):
    application, variant, (revision,) = await client.branch(commits=1)
    forked = await client.post(
        "/applications/variants/fork",
        {"application_variant": {"slug": "f"}, "application_variant_ref": {"id": variant["id"]}},
    )
    edited = await client.call(
        "PUT", f"/applications/variants/{variant['id']}", json={"application_variant": {"id": variant["id"]}}
    )
    archived = await client.post(f"/applications/revisions/{revision['id']}/archive")
    log = await client.log(application_id=application["id"])
    found = await client.call("GET", f"/applications/variants/{variant['id']}")

    for entity in (variant, forked["application_variant"], edited["application_variant"]):
        assert "application_slug" not in entity
    for listed in (archived["application_revision"], *log):
        assert "application_slug" not in listed
    assert found["application_variant"]["application_slug"] == "app"
    assert "name" not in edited["application_variant"]  # replaced as a whole: cleared


async def test_edited_application_keeps_absent_members(client: HistoryClient):
    made = await client.application("app", name="n", tags={"a": "b"}, flags={"is_snippet": True})

    sent = {"id": made["id"], "description": "d", "name": None, "slug": "other"}
    edited = (await client.call("PUT", f"/applications/{made['id']}", json={"application": sent}))["application"]

    assert (edited["slug"], edited["name"], edited["description"]) == ("app", "n", "d")
    assert (edited["tags"], edited["flags"]) == (made["tags"], made["flags"])
    assert edited["updated_by_id"] == str(USER_ID)


# Archiving


async def test_archived_application_leaves_its_variants(client: HistoryClient):
    application, variant, (revision,) = await client.branch(commits=1)

    await client.post(f"/applications/{application['id']}/archive")

    assert await slugs(client, "applications") == []
    assert await slugs(client, "application_variants") == ["app.main"]
    assert [revision["id"] for revision in await client.log(variant_id=variant["id"])] == [revision["id"]]
    assert (await client.commit(variant["id"]))["version"] == "1"


async def test_unarchived_variant_restores_its_revisions(client: HistoryClient):
    _, variant, revisions = await client.branch(commits=3)
    await client.post(f"/applications/revisions/{revisions[1]['id']}/archive")

    archived = (await client.post(f"/applications/variants/{variant['id']}/archive"))["application_variant"]
    assert archived["deleted_at"] == archived["updated_at"]
    assert await client.log(variant_id=variant["id"]) == []
    restored = (await client.post(f"/applications/variants/{variant['id']}/unarchive"))["application_variant"]

    assert "deleted_at" not in restored
    assert [revision["version"] for revision in await client.log(variant_id=variant["id"])] == ["2", "0"]


async def test_archived_head_is_returned_and_the_log_begins_below_it(client: HistoryClient):
    application, variant, revisions = await client.branch(commits=2)
    await client.post(f"/applications/revisions/{revisions[1]['id']}/archive")

    head = await client.post("/applications/revisions/retrieve", {"application_ref": {"id": application["id"]}})
    fork = {"application_variant": {"slug": "f"}, "application_variant_ref": {"id": variant["id"]}}
    forked = (await client.post("/applications/variants/fork", fork))["application_variant"]

    assert head["application_revision"]["id"] == revisions[1]["id"]
    assert "deleted_at" in head["application_revision"]
    assert [revision["version"] for revision in await client.log(variant_id=variant["id"])] == ["0"]
    assert forked["forked_from"]["revision_id"] == revisions[0]["id"]
    pinned = {**fork, "application_variant": {"slug": "g"}, "application_revision_ref": {"id": revisions[1]["id"]}}
    assert "archived" in (await client.post("/applications/variants/fork", pinned, status=400))["detail"]


async def test_archived_variant_is_not_forked_even_after_a_commit(client: HistoryClient):
    _, variant, _ = await client.branch(commits=1)
    await client.post(f"/applications/variants/{variant['id']}/archive")
    await client.commit(variant["id"])

    fork = {"application_variant": {"slug": "f"}, "application_variant_ref": {"id": variant["id"]}}
    refused = await client.post("/applications/variants/fork", fork, status=400)

    assert refused["detail"] == "The variant 'app.main' is archived and cannot be forked."


# History


async def test_fork_has_the_history_and_is_independent(client: HistoryClient):
    application, variant, revisions = await client.branch(commits=3)
    sent = {
        "application_variant": {"slug": "f", "name": "F"},
        "application_variant_ref": {"slug": "app.main"},
        "application_revision_ref": {"version": "1"},
    }

    forked = (await client.post("/applications/variants/fork", sent))["application_variant"]
    copies = await client.log(variant_id=forked["id"])

    assert forked["application_id"] == application["id"]
    assert [(copy["version"], copy["message"], copy["data"]) for copy in copies] == [
        ("1", "m1", {"parameters": {"prompt": "1"}}),
        ("0", "m0", {"parameters": {"prompt": "0"}}),
    ]
    assert copies[0]["slug"] == f"{revisions[1]['slug']}_{forked['id'].replace('-', '')}"
    assert (await client.commit(forked["id"]))["version"] == "2"
    assert len(await client.log(variant_id=variant["id"])) == 3
    assert await slugs(client, "application_variants", application_variant_refs=[{"id": forked["id"]}]) == ["f"]


async def test_the_longest_slugs_can_be_stored_forked_and_named(client: HistoryClient):
    chance = random.Random(7)
    longest = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789_-", k=2_500)) for _ in range(3)]
    application = await client.application(longest[0])
    variant = await client.variant(application["id"], longest[1])
    await client.commit(variant["id"], slug=longest[2])

    copies = {}
    for number in range(2):
        fork = {"application_variant": {"slug": f"f{number}"}, "application_variant_ref": {"slug": longest[1]}}
        forked = (await client.post("/applications/variants/fork", fork))["application_variant"]
        [copies[number]] = await client.log(variant_id=forked["id"])
    again = {"application_variant": {"slug": "g"}, "application_variant_ref": {"slug": "f0"}}
    await client.post("/applications/variants/fork", again)

    named = {"application_revision_ref": {"slug": copies[1]["slug"]}}
    assert (await client.post("/applications/revisions/retrieve", named))["application_revision"]["id"] == copies[1][
        "id"
    ]
    too_long = {"application": {"slug": longest[0] + "a"}}
    assert "2500" in str(await client.post("/applications/", too_long, status=422))


async def test_one_commit_on_a_base_succeeds_and_others_get_the_head(client: HistoryClient):
    _, variant, (base,) = await client.branch(commits=1)
    body = {"application_revision": {"variant_id": variant["id"], "base_revision_id": base["id"]}}

    outcomes = await asyncio.gather(
        *(client.try_call("POST", "/applications/revisions/commit", json=body) for _ in range(8))
    )

    assert Counter(status for status, _ in outcomes) == {200: 1, 409: 7}
    [winner] = [response["application_revision"] for status, response in outcomes if status == 200]
    for detail in (response["detail"] for status, response in outcomes if status == 409):
        assert detail["code"] == "revision_conflict"
        assert detail["retryable"] is False
        assert detail["details"] == {"base_revision_id": base["id"], "current_revision_id": winner["id"]}


async def test_parallel_deltas_are_all_in_the_head(client: HistoryClient):
    _, variant, _ = await client.branch(commits=1)

    await asyncio.gather(*(client.commit(variant["id"], delta={"set": {"parameters": {f"k{n}": n}}}) for n in range(8)))

    [head] = await client.log(variant_id=variant["id"], depth=1)
    assert head["version"] == "8"
    assert head["data"]["parameters"] == {"prompt": "0", **{f"k{n}": n for n in range(8)}}


async def test_change_cannot_make_data_larger_than_a_body(client: HistoryClient, shared_database: Database):
    _, variant, _ = await client.branch(commits=1)
    empty = len(json.dumps({"parameters": {"prompt": "0", "more": ""}}, separators=(",", ":")))
    limits = {"limits": {"body_bytes_max": 1_500}}
    context = context_of(
        keys=KnownKeys({"small": client.project_id}, user_id=USER_ID),
        database=shared_database,
        settings=Settings.model_validate(limits),
    )

    def delta(length: int) -> dict[str, Any]:
        change = {"set": {"parameters": {"more": "x" * length}}}
        return {"application_revision": {"application_variant_id": variant["id"], "delta": change}}

    def deployment(key: str) -> dict[str, Any]:
        return {
            "application_variant_ref": {"id": variant["id"]},
            "environment_ref": {"slug": "production"},
            "key": key * 600,
        }

    async with serving(context) as session:
        small = HistoryClient(session, "small", client.project_id)
        await small.post("/applications/revisions/commit", delta(1_000))
        await small.post(
            "/applications/revisions/commit",
            {
                "application_revision": {
                    "application_variant_id": variant["id"],
                    "delta": {"set": {"parameters": {"prompt": "x" * (501 - empty)}}},
                }
            },
        )
        grown = await small.post("/applications/revisions/commit", delta(1_001), status=413)
        await small.post("/applications/revisions/deploy", deployment("a"))
        deployed = await small.post("/applications/revisions/deploy", deployment("b"), status=413)

    assert grown == deployed == {"detail": "With this change the data would be larger than 1500 bytes."}
    assert len(await client.log(variant_id=variant["id"])) == 3


@pytest.mark.parametrize("path", ["/applications/", "/simple/applications/"])
async def test_one_of_parallel_creates_succeeds(client: HistoryClient, path: str):
    body = {"application": {"slug": "app"}}

    outcomes = await asyncio.gather(*(client.try_call("POST", path, json=body) for _ in range(8)))

    assert Counter(status for status, _ in outcomes) == {200: 1, 409: 7}
    assert {response["detail"]["conflict"]["slug"] for status, response in outcomes if status == 409} == {"app"}


async def test_revert_is_a_commit_of_the_older_content(client: HistoryClient):
    _, variant, _ = await client.branch()
    old = await client.commit(
        variant["id"], name="n", tags={"a": "b"}, data={"script": "old", "parameters": {"n": None}}
    )
    await client.commit(variant["id"], data={"script": "new"})

    sent = {"application_revision": {"message": "back"}}
    reverted = (await client.post(f"/applications/revisions/{old['id']}/revert", sent))["application_revision"]
    difference = await client.call("GET", f"/applications/revisions/diff?from={old['id']}&to={reverted['id']}")

    assert (reverted["version"], reverted["message"]) == ("2", "back")
    assert {name: reverted[name] for name in ("name", "tags", "data", "flags")} == {
        name: old[name] for name in ("name", "tags", "data", "flags")
    }
    assert difference["changes"] == []
    assert difference["references"]["to"]["application_revision"]["version"] == "2"


async def test_diff_keeps_numbers_exactly(client: HistoryClient):
    _, variant, _ = await client.branch()
    one = await client.commit(variant["id"], data={"parameters": {"n": 2**70, "gone": None}})
    other = await client.commit(variant["id"], data={"parameters": {"n": 2**70 + 1, "list": [1]}})

    response = await client.call("GET", f"/applications/revisions/diff?from={one['id']}&to={other['id']}")

    assert [(change["op"], change["path"]) for change in response["changes"]] == [
        ("changed", "/parameters/n"),
        ("removed", "/parameters/gone"),
        ("added", "/parameters/list"),
    ]
    assert response["changes"][1]["from"] is None


async def test_large_data_is_changed_and_compared_outside_of_the_event_loop(
    client: HistoryClient, shared_database: Database
):
    _, variant, _ = await client.branch()
    first = await client.commit(variant["id"], data={"parameters": {f"p{n}": "x" * 40 for n in range(2_000)}})
    compute = ProcessCompute(ComputeSettings(processes=1))
    keys = KnownKeys({"key": client.project_id}, user_id=USER_ID)
    context = replace(context_of(keys=keys, database=shared_database), compute=compute)
    invalid = {"application_variant_id": variant["id"], "delta": {"set": {"parameters": 1}}}

    try:
        async with serving(context) as session:
            large = HistoryClient(session, "key", client.project_id)
            second = await large.commit(variant["id"], delta={"set": {"parameters": {"p0": 2**70}}})
            assert len(compute.process_ids) == 1
            response = await large.call("GET", f"/applications/revisions/diff?from={first['id']}&to={second['id']}")
            refused = await large.post("/applications/revisions/commit", {"application_revision": invalid}, status=422)
    finally:
        await compute.close()

    assert response["changes"] == [{"op": "changed", "path": "/parameters/p0", "from": "x" * 40, "to": float(2**70)}]
    assert refused["detail"][0]["loc"] == ["body", "application_revision", "delta", "set", "parameters"]


# Queries


async def test_wildcards_are_ordinary_characters(client: HistoryClient):
    for number, name in enumerate(["50% off", "500 off", "a_b", "axb", "back\\slash"]):
        await client.application(f"a{number}", name=name)

    async def found(name: str) -> list[str]:
        return await slugs(client, "applications", application={"name": name})

    assert await found("0% O") == ["a0"]
    assert await found("A_B") == ["a2"]
    assert await found("\\") == ["a4"]
    assert await found("%") == ["a0"]


async def test_tags_meta_and_flags_narrow(client: HistoryClient):
    await client.application("a", tags={"t": {"x": "1", "y": "2"}}, meta={"m": [1, 2], "n": None})
    await client.application("b", tags={"t": {"x": "2"}}, meta={"m": [3]}, flags={"is_snippet": True})

    async def found(**filtering: Any) -> list[str]:
        return await slugs(client, "applications", application=filtering)

    assert await found(tags={"t": {"x": "1"}}) == ["a"]
    assert await found(meta={"m": [2]}) == ["a"]
    assert await found(meta={"n": None}) == ["a"]
    assert await found(flags={"is_snippet": True}) == ["b"]
    assert await found(flags={"is_application": False}) == ["a", "b"]
    assert await found(slug="a", slugs=["b", "c"]) == ["a", "b"]
    assert await found(slugs=[]) == []


async def test_empty_tags_and_meta_match_everything(client: HistoryClient):
    await client.application("a", tags={"team": "cx"}, meta={"m": 1})
    await client.application("b")

    for member in ("tags", "meta", "flags"):
        assert await slugs(client, "applications", application={member: {}}) == ["a", "b"]


async def test_references_of_one_list_are_alternatives(client: HistoryClient):
    one = await client.application("a")
    await client.application("b")

    assert await slugs(client, "applications", application_refs=[{"id": one["id"]}, {"slug": "b"}]) == ["a", "b"]
    assert await slugs(client, "applications", application_refs=[{}]) == ["a", "b"]
    assert await slugs(client, "applications", application_refs=[{"slug": "none"}]) == []


async def test_folders_are_a_condition(client: HistoryClient):
    made = await client.application("a")
    await client.application("b")
    folder = "00000000-0000-7000-8000-0000000000f0"
    sent = {"application": {"id": made["id"], "folder_id": folder}}
    await client.call("PUT", f"/applications/{made['id']}", json=sent)

    assert await slugs(client, "applications", application={"folder_id": folder}) == ["a"]
    assert await slugs(client, "applications", application={"folder_id": None}) == ["b"]
    assert await slugs(client, "applications", application={}) == ["a", "b"]


async def test_pages_follow_ids_and_are_full_until_the_end(client: HistoryClient):
    for number in range(6):
        await client.application(f"a{number}", flags={"is_snippet": number % 2 == 0})

    async def page(**windowing: Any) -> list[Any]:
        body = {"application": {"flags": {"is_snippet": True}}, "windowing": windowing}
        found: list[Any] = (await client.post("/applications/query", body))["applications"]
        return found

    first = await page(limit=2)
    second = await page(limit=2, next=first[-1]["id"])
    upward = await page(limit=0, order="ascending")

    assert [entity["slug"] for entity in (*first, *second)] == ["a4", "a2", "a0"]
    assert [entity["slug"] for entity in upward] == ["a0"]
    assert [entity["slug"] for entity in await page(newest=first[-1]["created_at"])] == ["a0"]
    assert [entity["slug"] for entity in await page(order="ascending", oldest=first[-1]["created_at"])] == ["a4"]


async def test_history_too_large_for_one_response_is_read_in_parts(client: HistoryClient, shared_database: Database):
    _, variant, _ = await client.branch()
    lineage = Lineage(shared_database, Kind.APPLICATION, Owner(client.project_id, USER_ID))
    large = Content(Header(), data='{"parameters": {"prompt": "%s"}}' % ("x" * 9_900_000))
    for _ in range(7):
        await lineage.commit(CommitTarget(UUID(variant["id"])), large)
    whole = {"application_revisions": {"application_variant_id": variant["id"]}}

    refused = [
        await client.post("/applications/revisions/query", {}, status=400),
        await client.post("/applications/revisions/log", whole, status=400),
    ]
    parts = await client.post("/applications/revisions/query", {"windowing": {"limit": 2}})

    assert [error["detail"].partition(": ")[2] for error in refused] == [
        "request less with windowing.limit.",
        "request less with depth.",
    ]
    assert [revision["version"] for revision in parts["application_revisions"]] == ["6", "5"]
    assert [revision["version"] for revision in await client.log(variant_id=variant["id"], depth=2)] == ["6", "5"]


async def test_revisions_are_queried_by_their_members(client: HistoryClient):
    _, variant, _ = await client.branch()
    chat = await client.commit(variant["id"], slug="chat", message="A Chat", data={"uri": "x:y:chat:1"})
    await client.commit(variant["id"], slug="plain", message="plain")

    async def found(**filtering: Any) -> list[str]:
        return await slugs(client, "application_revisions", application_revision=filtering)

    assert await found(flags={"is_chat": True}) == ["chat"]
    assert await found(flags={"is_chat": False, "is_snippet": False}) == ["plain"]
    assert await found(message="a c") == ["chat"]
    assert await found(author=str(USER_ID)) == ["chat", "plain"]
    assert await found(authors=[chat["id"]]) == []
    assert await found(dates=[chat["date"]]) == ["chat"]
    refs = {"application_revision_refs": [{"slug": "chat"}, {"id": chat["id"]}]}
    assert await slugs(client, "application_revisions", **refs) == ["chat"]


# Simple applications


async def test_a_simple_application_has_an_empty_revision_and_one_with_the_data(client: HistoryClient):
    sent = {"slug": "s", "name": "S", "tags": {"a": "b"}, "data": {"parameters": {"n": 1}}}

    made = (await client.post("/simple/applications/", {"application": sent}))["application"]
    log = await client.log(application_id=made["id"])

    assert [(revision["version"], revision.get("message"), revision.get("data")) for revision in log] == [
        ("1", None, {"parameters": {"n": 1}}),
        ("0", "Initial commit", None),
    ]
    assert all(
        (revision["name"], revision["tags"], len(revision["flags"])) == ("S", {"a": "b"}, 17) for revision in log
    )
    assert (made["revision_id"], made["variant_id"]) == (log[0]["id"], log[0]["variant_id"])
    assert len(made["flags"]) == 17
    assert (await client.call("GET", f"/simple/applications/{made['id']}"))["application"] == made


async def test_edit_of_a_simple_application_commits_a_change(client: HistoryClient):
    sent = {"slug": "s", "name": "S", "tags": {"a": "b"}, "data": {"script": "1"}}
    made = (await client.post("/simple/applications/", {"application": sent}))["application"]

    async def edit(**members: Any) -> Any:
        body = {"application": {"id": made["id"], **members}}
        return (await client.call("PUT", f"/simple/applications/{made['id']}", json=body))["application"]

    touched = await edit()
    renamed = await edit(name="T")
    changed = await edit(data={"script": "2"})
    log = await client.log(application_id=made["id"])

    assert (touched["revision_id"], touched["updated_by_id"]) == (made["revision_id"], str(USER_ID))
    assert (renamed["name"], renamed["data"]) == ("T", {"script": "1"})
    assert (changed["name"], changed["data"]) == ("T", {"script": "2"})
    assert [(revision["version"], revision.get("name"), revision["tags"]) for revision in log[:2]] == [
        ("3", None, {"a": "b"}),
        ("2", "T", {"a": "b"}),
    ]


async def test_edit_without_data_keeps_what_is_committed_meanwhile(client: HistoryClient, shared_database: Database):
    sent = {"application": {"slug": "s", "data": {"script": "1"}}}
    made = (await client.post("/simple/applications/", sent))["application"]
    rename = {"application": {"id": made["id"], "name": "x"}}
    lineage = Lineage(shared_database, Kind.APPLICATION, Owner(client.project_id, USER_ID))

    async with lineage.transaction() as within:
        await within.commit(CommitTarget(UUID(made["variant_id"])), Content(Header(), data='{"script":"2"}'))
        editing = asyncio.create_task(client.call("PUT", f"/simple/applications/{made['id']}", json=rename))
        await asyncio.wait([editing], timeout=0.3)  # it has to wait for the commit above
        assert not editing.done()

    edited = (await editing)["application"]
    assert (edited["name"], edited["data"]) == ("x", {"script": "2"})
    assert [revision["version"] for revision in await client.log(variant_id=made["variant_id"])] == ["3", "2", "1", "0"]


async def test_simple_applications_are_queried_by_flags_of_their_head(client: HistoryClient):
    chat = {"slug": "chat", "data": {"uri": "x:y:chat:1"}}
    for sent in (chat, {"slug": "plain"}, {"slug": "snippet", "flags": {"is_snippet": True, "is_chat": True}}):
        await client.post("/simple/applications/", {"application": sent})
    await client.application("bare")

    async def found(**query: Any) -> list[str]:
        response = await client.post("/simple/applications/query", query)
        return [application["slug"] for application in response["applications"]]

    assert await found() == ["chat", "plain", "snippet"]
    assert await found(application={"flags": {"is_chat": True}}) == ["chat"]
    assert await found(application={"flags": {"is_snippet": False, "is_chat": False}}) == ["plain"]
    assert await found(application={"flags": {"is_chat": False}}, windowing={"limit": 1}) == ["snippet"]
    assert await found(application_refs=[{"slug": "plain"}]) == ["plain"]


async def test_archived_simple_application_keeps_its_variant(client: HistoryClient):
    made = (await client.post("/simple/applications/", {"application": {"slug": "s"}}))["application"]

    archived = (await client.post(f"/simple/applications/{made['id']}/archive"))["application"]

    assert "deleted_at" in archived
    assert (await client.post("/simple/applications/query", {}))["count"] == 0
    assert len(await client.log(variant_id=made["variant_id"])) == 2
    restored = (await client.post(f"/simple/applications/{made['id']}/unarchive"))["application"]
    assert "deleted_at" not in restored


# Retrieval by environment


async def test_deployed_revision_is_retrieved_by_environment(client: HistoryClient):
    application, _, revisions = await client.branch(commits=2)
    target = {"environment_ref": {"slug": "production"}}
    deploy = {**target, "application_ref": {"slug": "app"}, "application_revision_ref": {"version": "0"}}
    await client.post("/applications/revisions/deploy", deploy)

    responses = [
        await client.post("/applications/revisions/retrieve", {"resolve": True, **target, **named})
        for named in ({"key": "app.revision"}, {"application_ref": {"id": application["id"]}, "key": ""})
    ]

    for response in responses:
        assert response["application_revision"]["id"] == revisions[0]["id"]
        assert response["retrieval_info"]["selector"] == {"key": "app.revision"}
        assert {"application", "environment", "environment_revision"} <= set(response["retrieval_info"]["references"])
        assert response["resolution_info"]["errors"] == []
