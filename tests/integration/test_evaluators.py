"""Evaluators are rows of the same kind as applications, in lists of their own.


Source: reference ``workflows-evaluators-testsets`` §1 and §3. That every route behaves as that of applications is in
``test_application_routes.py``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.postgres.pool import Database
from tests.support.history import HistoryClient, clients_of

OUTPUTS = {"type": "object", "properties": {"outputs": {"type": "object"}}, "required": ["outputs"]}
TAGS = {"team": "cx"}


@pytest.fixture
async def client(shared_database: Database) -> AsyncIterator[HistoryClient]:
    async with clients_of(shared_database) as [client]:
        yield client


async def simple(client: HistoryClient, family: str, slug: str, **members: Any) -> Any:
    return (await client.post(f"/simple/{family}s/", {family: {"slug": slug, "tags": TAGS, **members}}))[family]


async def listed(client: HistoryClient, path: str, body: Any = None) -> list[str]:
    """Return the ids that a query lists."""
    answer = await client.post(path, body or {})
    rows = next(value for name, value in answer.items() if name != "count")
    assert answer["count"] == len(rows)
    return [row["id"] for row in rows]


@pytest.mark.parametrize("family", ["application", "evaluator"])
async def test_lists_hold_only_the_family(client: HistoryClient, family: str):
    made = {each: await simple(client, each, f"of-{each}") for each in ("application", "evaluator")}
    own = made[family]
    plural = f"{family}s"

    assert await listed(client, f"/{plural}/query") == [own["id"]]
    assert await listed(client, f"/{plural}/query", {family: {"tags": TAGS}}) == [own["id"]]
    assert await listed(client, f"/simple/{plural}/query") == [own["id"]]
    assert await listed(client, f"/{plural}/variants/query") == [own["variant_id"]]
    revisions = await listed(client, f"/{plural}/revisions/query")
    assert (revisions[-1], len(revisions)) == (own["revision_id"], 2)
    for other in made.values():
        named = {f"{family}_refs": [{"id": other["id"]}]}
        expected = [own["id"]] if other is own else []
        assert await listed(client, f"/{plural}/query", named) == expected
        assert await listed(client, f"/{plural}/query?{family}_id={other['id']}") == expected


async def test_row_of_both_roles_is_in_both_lists(client: HistoryClient):
    both = await simple(client, "evaluator", "both", flags={"is_application": True, "is_evaluator": False})

    assert (both["flags"]["is_application"], both["flags"]["is_evaluator"]) == (True, True)
    assert await listed(client, "/applications/query") == [both["id"]]
    assert await listed(client, "/evaluators/query") == [both["id"]]
    assert await listed(client, "/evaluators/query", {"evaluator": {"flags": {"is_application": False}}}) == []


async def test_named_rows_are_those_of_any_family(client: HistoryClient):
    made = await simple(client, "application", "shared", data={"parameters": {"prompt": "Be brief."}})

    found = await client.call("GET", f"/evaluators/{made['id']}")
    assert found["evaluator"]["slug"] == "shared"
    retrieved = await client.post("/evaluators/revisions/retrieve", {"evaluator_ref": {"slug": "shared"}})
    assert retrieved["evaluator_revision"]["id"] == made["revision_id"]
    assert retrieved["evaluator_revision"]["workflow_id"] == made["id"]
    log = await client.post("/evaluators/revisions/log", {"evaluator_revisions": {"evaluator_id": made["id"]}})
    assert log["count"] == 2
    sent = {"evaluator_variant_id": made["variant_id"], "data": {"parameters": {}}}
    committed = await client.post("/evaluators/revisions/commit", {"evaluator_revision": sent})
    assert committed["evaluator_revision"]["version"] == "2"
    forked = {"evaluator_variant": {"slug": "fork"}, "evaluator_variant_ref": {"id": made["variant_id"]}}
    assert (await client.post("/evaluators/variants/fork", forked))["count"] == 1
    assert (await client.post(f"/evaluators/{made['id']}/archive"))["evaluator"]["deleted_at"]
    await client.post("/evaluators/", {"evaluator": {"slug": "shared"}}, status=409)


async def test_life_of_a_simple_evaluator(client: HistoryClient):
    """What the reference's suites and ``evaluators.aupsert`` of its SDK do."""
    retrieval = "/evaluators/revisions/retrieve"
    assert await client.post(retrieval, {"evaluator_ref": {"slug": "exact"}}) == {"count": 0}
    made = await simple(client, "evaluator", "exact", name="Exact", data={"schemas": {"outputs": OUTPUTS}})
    one = f"/simple/evaluators/{made['id']}"

    assert made["data"] == {"schemas": {"outputs": OUTPUTS}}
    assert len(made["flags"]) == 17
    got = (await client.call("GET", one))["evaluator"]
    assert (got["variant_id"], got["revision_id"]) == (made["variant_id"], made["revision_id"])
    by_flags = {"evaluator": {"flags": made["flags"]}}
    assert await listed(client, "/simple/evaluators/query", by_flags) == [made["id"]]
    sent = {"id": made["id"], "name": "Exact", "data": {"uri": "agenta:custom:feedback:v0"}}
    edited = (await client.call("PUT", one, json={"evaluator": sent}))["evaluator"]
    assert (edited["data"], edited["flags"]["is_feedback"]) == ({"uri": "agenta:custom:feedback:v0"}, True)
    renamed = await client.call("PUT", one, json={"evaluator": {"id": made["id"], "name": "Renamed"}})
    assert renamed["evaluator"]["name"] == "Renamed"
    newest = await client.post(retrieval, {"evaluator_ref": {"id": made["id"]}, "resolve": True})
    assert (newest["evaluator_revision"]["version"], newest["resolution_info"]["errors"]) == ("3", [])
    assert (await client.post(f"{one}/archive"))["evaluator"]["deleted_at"]
    assert await listed(client, "/simple/evaluators/query") == []
    assert await listed(client, "/evaluators/variants/query") == []
    assert "deleted_at" not in (await client.post(f"{one}/unarchive"))["evaluator"]
    assert await listed(client, "/evaluators/variants/query") == [made["variant_id"]]


async def test_pages_of_evaluators_lead_past_applications(client: HistoryClient):
    wanted = []
    for number in range(3):
        wanted.append((await simple(client, "evaluator", f"e{number}"))["id"])
        await simple(client, "application", f"a{number}")
    seen: list[str] = []
    while page := await listed(
        client, "/simple/evaluators/query", {"windowing": {"limit": 1, "next": seen[-1] if seen else None}}
    ):
        seen += page

    assert seen == wanted[::-1]


async def test_deployment_has_the_names_of_the_family_and_any_family_retrieves_it(client: HistoryClient):
    made = await simple(client, "evaluator", "judge", data={"parameters": {"threshold": 1}})
    deployment = {"evaluator_ref": {"slug": "judge"}, "environment_ref": {"slug": "staging"}}
    await client.post("/evaluators/revisions/deploy", deployment)

    environment = await client.post("/environments/revisions/retrieve", {"environment_ref": {"slug": "staging"}})
    stored = environment["environment_revision"]["data"]["references"]["judge.revision"]
    assert stored["evaluator_revision"]["id"] == made["revision_id"]
    assert stored.keys() == {"evaluator", "evaluator_variant", "evaluator_revision"}
    for word in ("evaluator", "application", "workflow"):
        named = {"environment_ref": {"slug": "staging"}, f"{word}_ref": {"slug": "judge"}}
        found = await client.post(f"/{word}s/revisions/retrieve", named)
        assert found[f"{word}_revision"]["id"] == made["revision_id"]
    contradicting = {
        "environment_ref": {"slug": "staging"},
        "key": "judge.revision",
        "evaluator_ref": {"slug": "other"},
    }
    await client.post("/evaluators/revisions/retrieve", contradicting, status=400)
    await client.post("/evaluators/revisions/retrieve", {"environment_ref": {"slug": "staging"}}, status=400)
    missing = {"environment_ref": {"slug": "staging"}, "key": "none"}
    await client.post("/evaluators/revisions/retrieve", missing, status=404)
    await client.post("/evaluators/revisions/retrieve", {}, status=400)
