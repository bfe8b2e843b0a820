"""Environments, deploying, and retrieving by what is deployed: over HTTP, on a real Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest

from common.postgres.pool import Database
from common.postgres.projects import insert_project
from tests.support.api import KnownKeys, context_of, serving


class Api:
    """The API as one project sees it."""

    def __init__(self, client: aiohttp.ClientSession, project_id: UUID) -> None:
        self._client = client
        self.project_id = project_id

    async def post(self, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        response = await self._client.post(path, json=body, headers={"Authorization": str(self.project_id)})
        return response.status, await response.json()

    async def ok(self, path: str, body: Any = None) -> dict[str, Any]:
        status, answer = await self.post(path, body)
        assert status == 200, answer
        return answer

    async def get(self, path: str) -> dict[str, Any]:
        response = await self._client.get(path, headers={"Authorization": str(self.project_id)})
        answer: dict[str, Any] = await response.json()
        assert response.status == 200, answer
        return answer

    async def environment(self, slug: str = "production") -> dict[str, Any]:
        made = await self.ok("/simple/environments/", {"environment": {"slug": slug, "name": slug.title()}})
        environment: dict[str, Any] = made["environment"]
        return environment

    async def application(self, slug: str = "faq-bot") -> dict[str, Any]:
        """With a variant and the revisions 0 and 1."""
        body = {"application": {"slug": slug, "data": {"parameters": {"prompt": f"of {slug}"}}}}
        application: dict[str, Any] = (await self.ok("/simple/applications/", body))["application"]
        return application

    async def deployed(self, environment: str = "production") -> dict[str, Any]:
        """Return what ``/simple/environments/query`` returns for one environment."""
        body = {"environment": {"slug": environment}, "environment_refs": [{"slug": environment}]}
        [found] = (await self.ok("/simple/environments/query", body))["environments"]
        return dict(found["data"].get("references", {}))


@pytest.fixture
async def api(shared_database: Database) -> AsyncIterator[Api]:
    project = await insert_project(shared_database, "environments", seed_defaults=False)
    context = context_of(keys=KnownKeys({str(project.id): project.id}), database=shared_database)
    async with serving(context) as client:
        yield Api(client, project.id)


DEPLOY = "/api/applications/revisions/deploy"
RETRIEVE = "/api/applications/revisions/retrieve"
COMMIT = "/environments/revisions/commit"


class TestSimpleEnvironments:
    async def test_new_environment_has_a_variant_and_two_revisions_and_no_flags(self, api: Api):
        made = await api.environment()

        log = await api.ok("/environments/revisions/log", {"environment_revisions": {"environment_id": made["id"]}})
        assert (made["slug"], made["name"]) == ("production", "Production")
        assert [revision["version"] for revision in log["environment_revisions"]] == ["1", "0"]
        assert made["revision_id"] == log["environment_revisions"][0]["id"]
        assert made["variant_id"] == log["environment_revisions"][0]["environment_variant_id"]
        assert "flags" not in made
        assert (await api.get(f"/preview/simple/environments/{made['id']}/"))["environment"] == made

    async def test_taken_slug_is_409_and_creates_nothing(self, api: Api):
        await api.environment()

        status, answer = await api.post("/simple/environments/", {"environment": {"slug": "production"}})

        assert (status, answer["detail"]["conflict"]) == (409, {"slug": "production"})
        assert (await api.ok("/environments/variants/query", {}))["count"] == 1

    async def test_application_may_have_the_slug_of_an_environment(self, api: Api):
        await api.application("production")

        await api.environment("production")

    @pytest.mark.parametrize(
        ("environment", "names"),
        [
            ({}, "slug"),
            ({"slug": "a b"}, "slug"),
            ({"slug": "a", "data": {"reference": {}}}, "reference"),
            ({"slug": "a", "data": {"references": {"k": {"application": {"id": "x"}}}}}, "id"),
            ({"slug": "a", "data": {"references": {"a\0b": {}}}}, "references"),
            ({"slug": "a", "data": {"references": {"": {}}}}, "references"),
            ({"slug": "a", "data": {"references": {"k": {"application": {"version": "\0"}}}}}, "version"),
        ],
    )
    async def test_invalid_environment_is_422(self, api: Api, environment: Any, names: str):
        status, answer = await api.post("/simple/environments/", {"environment": environment})

        assert (status, names in str(answer["detail"])) == (422, True)
        assert (await api.ok("/environments/query", {}))["count"] == 0


FIRST = ["development", "staging", "production"]


class TestFirstEnvironments:
    """Tests of the environments that every project has."""

    @pytest.fixture
    async def fresh(self, shared_database: Database) -> AsyncIterator[Api]:
        project = await insert_project(shared_database, "fresh")
        context = context_of(keys=KnownKeys({str(project.id): project.id}), database=shared_database)
        async with serving(context) as client:
            yield Api(client, project.id)

    async def test_first_environments_look_like_those_of_the_simple_route(self, fresh: Api):
        by_hand = await fresh.environment("by-hand")

        found = (await fresh.ok("/simple/environments/query"))["environments"]

        assert [environment["slug"] for environment in found] == [*FIRST, "by-hand"]
        assert [environment["name"] for environment in found] == ["Development", "Staging", "Production", "By-Hand"]
        assert {frozenset(environment) for environment in found} == {frozenset(by_hand)}
        log = {"environment_revisions": {"environment_id": found[2]["id"]}}
        revisions = (await fresh.ok("/environments/revisions/log", log))["environment_revisions"]
        assert [(revision["version"], revision.get("message"), "data" in revision) for revision in revisions] == [
            ("1", None, False),
            ("0", "Initial commit", False),
        ]
        assert found[2]["revision_id"] == revisions[0]["id"]

    async def test_application_can_be_deployed_to_first_environments(self, fresh: Api):
        await fresh.application()

        for slug in FIRST:
            await fresh.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": slug}})
            assert (await fresh.deployed(slug)).keys() == {"faq-bot.revision"}

    async def test_next_revision_of_a_first_environment_is_version_2(self, fresh: Api):
        await fresh.application()
        await fresh.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "staging"}})

        answer = await fresh.ok("/environments/revisions/retrieve", {"environment_ref": {"slug": "staging"}})

        assert answer["environment_revision"]["version"] == "2"


class TestGuarding:
    async def test_guarded_environment_shows_the_mark(self, api: Api):
        made = await api.environment()

        guarded = await api.ok(f"/simple/environments/{made['id']}/guard")
        shown = (await api.get(f"/simple/environments/{made['id']}"))["environment"]
        unguarded = await api.ok(f"/simple/environments/{made['id']}/unguard")

        assert "flags" not in made
        assert (guarded["count"], guarded["environment"]["flags"]) == (1, {"is_guarded": True})
        assert shown == guarded["environment"]
        assert unguarded["environment"]["flags"] == {"is_guarded": False}

    async def test_guard_has_no_other_effect(self, api: Api):
        made = await api.environment()
        await api.application()

        guarded = (await api.ok(f"/simple/environments/{made['id']}/guard"))["environment"]
        await api.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}})

        changed = {"flags", "updated_at", "updated_by_id"}
        assert {name: guarded[name] for name in guarded.keys() - changed} == made
        assert (await api.deployed()).keys() == {"faq-bot.revision"}

    async def test_guarded_environments_can_be_queried(self, api: Api):
        one, two = await api.environment("one"), await api.environment("two")
        await api.ok(f"/simple/environments/{one['id']}/guard")

        for path in ("/environments/query", "/simple/environments/query"):
            found = [
                [
                    environment["slug"]
                    for environment in (await api.ok(path, {"environment": {"flags": flags}}))["environments"]
                ]
                for flags in ({"is_guarded": True}, {"is_guarded": False})
            ]
            assert found == [["one"], ["two"]]
        assert two["slug"] == "two"

    async def test_missing_environment_is_count_0(self, api: Api, shared_database: Database):
        other = await insert_project(shared_database, "other")
        context = context_of(keys=KnownKeys({str(other.id): other.id}), database=shared_database)
        async with serving(context) as client:
            theirs = (await Api(client, other.id).ok("/environments/query"))["environments"][0]

        for action in ("guard", "unguard"):
            for environment_id in (uuid4(), theirs["id"]):
                assert await api.ok(f"/simple/environments/{environment_id}/{action}") == {"count": 0}
            status, answer = await api.post(f"/simple/environments/x/{action}")
            assert (status, answer["detail"][0]["loc"]) == (422, ["path", "environment_id"])


class TestQueries:
    """Of environments, their variants and revisions: by the body and by the query string."""

    @pytest.mark.parametrize("layer", ["", "/variants", "/revisions"])
    async def test_parameters_narrow_a_query(self, api: Api, layer: str):
        for slug in ("one", "two"):
            await api.environment(slug)
        path = f"/environments{layer}/query"
        everything = (await api.ok(path))["count"]

        found = [
            (await api.ok(f"{path}?{parameters}", body))["count"]
            for parameters, body in (
                ("environment_slug=one", None),
                ("environment_slug=nope", None),
                ("environment_slug=one&environment_slugs=two", {}),
                ("environment_slug=nope", {"environment_refs": [{"slug": "one"}]}),
                ("limit=1", None),
            )
        ]

        assert found == [everything // 2, 0, everything, everything // 2, 1]

    @pytest.mark.parametrize("layer", ["", "/variants", "/revisions"])
    @pytest.mark.parametrize(
        ("parameters", "loc"),
        [
            ("environment_id=x", ["query", "environment_id", 0]),
            ("order=up", ["query", "order"]),
            ("slug=one", ["query", "slug"]),
            ("tags={", ["query", "tags"]),
        ],
    )
    async def test_invalid_request_is_422(self, api: Api, layer: str, parameters: str, loc: list[str]):
        status, answer = await api.post(f"/environments{layer}/query?{parameters}")

        assert (status, answer["detail"][0]["loc"]) == (422, loc)

    async def test_parameters_name_variants_and_revisions(self, api: Api):
        made = await api.environment()
        await api.environment("other")

        by_version = await api.ok(
            f"/environments/revisions/query?environment_variant_id={made['variant_id']}&environment_revision_version=1"
        )
        by_versions = await api.ok(
            "/environments/revisions/query?environment_slug=other"
            "&environment_revision_versions=0&environment_revision_versions=1&environment_revision_versions=9"
        )
        by_both = await api.ok(
            f"/environments/revisions/query?environment_revision_id={made['revision_id']}&environment_revision_version=0"
        )
        assert [revision["id"] for revision in by_version["environment_revisions"]] == [made["revision_id"]]
        assert [revision["version"] for revision in by_versions["environment_revisions"]] == ["0", "1"]
        assert by_both["count"] == 0

        by_variant = await api.ok(f"/environments/revisions/query?environment_variant_id={made['variant_id']}")
        by_revision = await api.ok(f"/environments/revisions/query?environment_revision_id={made['revision_id']}")

        assert [revision["version"] for revision in by_variant["environment_revisions"]] == ["0", "1"]
        assert [revision["id"] for revision in by_revision["environment_revisions"]] == [made["revision_id"]]


class TestCommits:
    async def _variant(self, api: Api) -> dict[str, Any]:
        environment = (await api.ok("/environments/", {"environment": {"slug": "staging"}}))["environment"]
        body = {"environment_variant": {"environment_id": environment["id"], "slug": "staging.main"}}
        variant: dict[str, Any] = (await api.ok("/environments/variants/", body))["environment_variant"]
        return variant

    async def _commit(self, api: Api, variant: Any, **members: Any) -> tuple[int, dict[str, Any]]:
        body = {"environment_revision": {"environment_variant_id": variant["id"], **members}}
        return await api.post(COMMIT, body)

    async def test_references_are_committed_and_returned_as_they_were_sent(self, api: Api):
        variant = await self._variant(api)
        references = {
            "faq-bot.revision": {"application": {"slug": "faq-bot"}, "application_revision": {"version": "3"}}
        }

        status, answer = await self._commit(api, variant, data={"references": references})

        assert status == 200
        revision = answer["environment_revision"]
        assert (revision["version"], revision["data"]) == ("0", {"references": references})
        assert (revision["environment_slug"], revision["environment_variant_slug"]) == ("staging", "staging.main")
        assert "flags" not in revision

    async def test_delta_changes_the_head_key_by_key(self, api: Api):
        variant = await self._variant(api)
        before = {"a.revision": {"application": {"slug": "a", "version": "1"}}, "b.c.d": {"application": {"slug": "b"}}}
        await self._commit(api, variant, data={"references": before})
        delta = {"set": {"a.revision": {"application": {"slug": "z"}}}, "remove": ["b.c.d", "nothing"]}

        _, answer = await self._commit(api, variant, delta=delta)

        assert answer["environment_revision"]["data"] == {"references": {"a.revision": {"application": {"slug": "z"}}}}

    async def test_key_that_a_delta_sets_and_removes_is_removed(self, api: Api):
        variant = await self._variant(api)
        delta = {"set": {key: {"application": {"slug": "a"}} for key in "kl"}, "remove": ["k"]}

        _, answer = await self._commit(api, variant, delta=delta)

        assert answer["environment_revision"]["data"]["references"].keys() == {"l"}

    async def test_delta_on_an_empty_variant_is_its_first_revision(self, api: Api):
        variant = await self._variant(api)

        _, answer = await self._commit(api, variant, delta={"set": {"k": {"application": {"slug": "a"}}}})

        assert answer["environment_revision"]["version"] == "0"
        assert answer["environment_revision"]["data"]["references"].keys() == {"k"}

    @pytest.mark.parametrize(
        ("members", "status", "names"),
        [
            ({"data": {"typo": 1}}, 422, "typo"),
            ({"delta": {}}, 422, "delta"),
            ({"delta": {"sett": {}}}, 422, "sett"),
            ({"delta": {"set": {"k": {"application": "faq-bot"}}}}, 422, "application"),
            ({"environment_variant_id": None}, 422, "environment_variant_id"),
            ({"environment_variant_id": str(uuid4()), "data": {}}, 404, "environment_variant"),
            ({"environment_variant_id": str(uuid4()), "delta": {"remove": []}}, 404, "environment_variant"),
            ({"base_revision_id": str(uuid4()), "delta": {"remove": ["k"]}}, 409, "revision_conflict"),
            ({"slug": "__ag__x"}, 400, "__ag__"),
        ],
    )
    async def test_rejected_commit_says_why_and_leaves_no_row(self, api: Api, members: Any, status: int, names: str):
        variant = await self._variant(api)

        answered, answer = await self._commit(api, variant, **members)

        assert (answered, names in str(answer["detail"])) == (status, True)
        assert (await api.ok("/environments/revisions/query", {}))["count"] == 0

    async def test_revision_is_retrieved_by_references(self, api: Api):
        variant = await self._variant(api)
        await self._commit(api, variant, data={"references": {}})
        await self._commit(api, variant, message="second")
        refs = {"environment_ref": {"slug": "staging"}, "environment_revision_ref": {"version": "0"}}

        old = await api.ok("/environments/revisions/retrieve", refs)
        head = await api.ok("/environments/revisions/retrieve", {"environment_variant_ref": {"slug": "staging.main"}})

        assert old["environment_revision"]["data"] == {"references": {}}
        assert head["environment_revision"]["message"] == "second"
        assert head["retrieval_info"]["references"]["environment"]["slug"] == "staging"


class TestHistory:
    async def _deployed_twice(self, api: Api) -> list[dict[str, Any]]:
        """Return the revisions, oldest first, of an environment to which version 0 and then version 1 was deployed."""
        environment, _ = await api.environment(), await api.application()
        for version in "01":
            what = {"application_ref": {"slug": "faq-bot"}, "application_revision_ref": {"version": version}}
            await api.ok(DEPLOY, {**what, "environment_ref": {"slug": "production"}})
        log = {"environment_revisions": {"environment_id": environment["id"]}}
        revisions: list[dict[str, Any]] = (await api.ok("/environments/revisions/log", log))["environment_revisions"]
        return revisions[::-1]

    async def test_revert_deploys_the_older_state_again(self, api: Api):
        *_, first, second = await self._deployed_twice(api)

        body = {"environment_revision": {"base_revision_id": second["id"], "message": "roll back"}}
        answer = await api.ok(f"/environments/revisions/{first['id']}/revert", body)

        assert answer["environment_revision"]["message"] == "roll back"
        assert answer["environment_revision"]["data"] == first["data"]
        where = {"environment_ref": {"slug": "production"}, "key": "faq-bot.revision"}
        assert (await api.ok(RETRIEVE, where))["application_revision"]["version"] == "0"

    async def test_revert_on_a_stale_base_is_409(self, api: Api):
        *_, first, second = await self._deployed_twice(api)

        body = {"environment_revision": {"base_revision_id": first["id"]}}
        status, answer = await api.post(f"/environments/revisions/{first['id']}/revert", body)

        assert (status, answer["detail"]["details"]["current_revision_id"]) == (409, second["id"])
        assert (await api.deployed())["faq-bot.revision"]["application_revision"]["version"] == "1"

    async def test_diff_shows_what_was_deployed_in_between(self, api: Api):
        *_, first, second = await self._deployed_twice(api)

        answer = await api.get(f"/environments/revisions/diff?from={first['id']}&to={second['id']}")

        versions = {"op": "changed", "path": "/references/faq-bot.revision/application_revision/version"}
        assert {**versions, "from": "0", "to": "1"} in answer["changes"]
        assert answer["references"]["to"]["environment_revision"]["id"] == second["id"]

    async def test_fork_begins_with_what_is_deployed(self, api: Api):
        *_, second = await self._deployed_twice(api)

        fork = {"environment_variant": {"slug": "canary"}, "environment_variant_ref": {}}
        variant = f"environment_variant_id={second['environment_variant_id']}"
        forked = (await api.ok(f"/environments/variants/fork?{variant}", fork))["environment_variant"]

        head = await api.ok("/environments/revisions/retrieve", {"environment_variant_ref": {"id": forked["id"]}})
        assert head["environment_revision"]["data"] == second["data"]


class TestDeploying:
    async def test_deployment_is_a_commit_that_refers_to_the_revision(self, api: Api):
        environment, application = await api.environment(), await api.application()
        body = {
            "application_ref": {"slug": "faq-bot"},
            "application_revision_ref": {"version": "1"},
            "environment_ref": {"slug": "production"},
            "message": "first",
        }

        answer = await api.ok(DEPLOY, body)

        deployed = answer["application_revision"]
        assert (deployed["id"], deployed["version"]) == (application["revision_id"], "1")
        assert deployed["application_slug"] == "faq-bot"
        assert await api.deployed() == {
            "faq-bot.revision": {
                "application": {"id": application["id"]},
                "application_variant": {"id": application["variant_id"]},
                "application_revision": {"id": deployed["id"], "slug": deployed["slug"], "version": "1"},
            }
        }
        log = await api.ok(
            "/environments/revisions/log", {"environment_revisions": {"environment_id": environment["id"]}}
        )
        head = log["environment_revisions"][0]
        assert (head["version"], head["message"]) == ("2", "first")

    async def test_deployment_keeps_other_deployments(self, api: Api):
        await api.environment()
        for slug in ("one", "two"):
            await api.application(slug)

        for slug, key in (("one", None), ("two", "mine"), ("one", "")):
            body = {"application_ref": {"slug": slug}, "environment_ref": {"slug": "production"}, "key": key}
            await api.ok(DEPLOY, body)

        assert (await api.deployed()).keys() == {"one.revision", "mine"}

    async def test_concurrent_deployments_are_all_kept(self, api: Api):
        environment = await api.environment()
        slugs = [f"app-{number}" for number in range(8)]
        await asyncio.gather(*(api.application(slug) for slug in slugs))

        await asyncio.gather(
            *(
                api.ok(DEPLOY, {"application_ref": {"slug": slug}, "environment_ref": {"id": environment["id"]}})
                for slug in slugs
            )
        )

        assert (await api.deployed()).keys() == {f"{slug}.revision" for slug in slugs}

    @pytest.mark.parametrize(
        ("body", "status", "names"),
        [
            (None, 400, "application_ref"),
            ({"environment_ref": {"slug": "production"}}, 400, "application_ref"),
            ({"application_ref": {"slug": "faq-bot"}}, 400, "environment_ref"),
            ({"application_revision_ref": {"version": "1"}, "environment_ref": {"slug": "production"}}, 400, "version"),
            ({"application_ref": {"slug": "faq-bot"}, "environment_revision_ref": {"version": "1"}}, 400, "version"),
            ({"application_ref": {"slug": "other"}, "environment_ref": {"slug": "production"}}, 404, "application"),
            ({"application_ref": {}, "environment_ref": {"slug": "production"}}, 404, "application"),
            ({"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "nowhere"}}, 404, "environment"),
            ({"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "a b"}}, 422, "slug"),
            ({"application_ref": "faq-bot", "environment_ref": {"slug": "production"}}, 422, "application_ref"),
        ],
    )
    async def test_rejected_deployment_says_why_and_changes_nothing(self, api: Api, body: Any, status: int, names: str):
        await api.environment()
        await api.application()

        answered, answer = await api.post(DEPLOY, body)

        assert (answered, names in str(answer["detail"])) == (status, True)
        assert await api.deployed() == {}

    async def test_revision_of_another_project_cannot_be_deployed(self, api: Api, shared_database: Database):
        environment, application = await api.environment(), await api.application()
        other = await insert_project(shared_database, "other", seed_defaults=False)
        context = context_of(keys=KnownKeys({str(other.id): other.id}), database=shared_database)
        async with serving(context) as client:
            stranger = Api(client, other.id)
            await stranger.environment()
            theirs = {"application_ref": {"id": application["id"]}, "environment_ref": {"slug": "production"}}
            taken, _ = await stranger.post(DEPLOY, theirs)
            await stranger.application()
            mine = {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"id": environment["id"]}}
            put, _ = await stranger.post(DEPLOY, mine)

        assert (taken, put) == (404, 404)
        assert await api.deployed() == {}


class TestRetrievingWhatIsDeployed:
    async def _deployed(self, api: Api) -> dict[str, Any]:
        """An application whose version 1 is deployed, and whose head is version 2."""
        await api.environment()
        application = await api.application()
        await api.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}})
        commit = {"application_variant_id": application["variant_id"], "data": {"parameters": {"prompt": "newer"}}}
        await api.ok("/applications/revisions/commit", {"application_revision": commit})
        return application

    @pytest.mark.parametrize(
        "how",
        [
            {"key": "faq-bot.revision"},
            {"application_ref": {"slug": "faq-bot"}},
            {"application_ref": {"slug": "faq-bot"}, "key": ""},
            {"application_ref": None, "application_variant_ref": None, "key": "faq-bot.revision", "resolve": True},
        ],
    )
    async def test_retrieval_returns_the_deployed_revision_not_the_head(self, api: Api, how: Any):
        application = await self._deployed(api)

        answer = await api.ok(RETRIEVE, {"environment_ref": {"slug": "production"}, **how})

        assert answer["application_revision"]["id"] == application["revision_id"]
        assert answer["application_revision"]["data"] == {"parameters": {"prompt": "of faq-bot"}}
        info = answer["retrieval_info"]
        assert info["selector"] == {"key": "faq-bot.revision"}
        assert info["references"].keys() == {
            *("application", "application_variant", "application_revision"),
            *("environment", "environment_variant", "environment_revision"),
        }
        assert info["references"]["environment_revision"]["version"] == "2"

    async def test_deployed_revision_is_found_by_the_application_id(self, api: Api):
        application = await self._deployed(api)
        body = {"environment_ref": {"slug": "production"}, "application_ref": {"id": application["id"]}}

        assert (await api.ok(RETRIEVE, body))["application_revision"]["version"] == "1"

    async def test_older_environment_revision_shows_older_deployment(self, api: Api):
        await self._deployed(api)
        await api.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}})
        then = {"environment_ref": {"slug": "production"}, "environment_revision_ref": {"version": "2"}}

        old = await api.ok(RETRIEVE, {**then, "key": "faq-bot.revision"})
        new = await api.ok(RETRIEVE, {"environment_ref": {"slug": "production"}, "key": "faq-bot.revision"})

        assert [retrieved["application_revision"]["version"] for retrieved in (old, new)] == ["1", "2"]

    @pytest.mark.parametrize(
        ("body", "status", "names"),
        [
            ({"key": "faq-bot.revision"}, 400, "environment_ref"),
            ({"environment_ref": {"slug": "production"}}, 400, "key"),
            ({"environment_ref": {"slug": "production"}, "application_ref": {"id": str(uuid4())}}, 400, "application"),
            ({"environment_ref": {"slug": "nowhere"}, "key": "faq-bot.revision"}, 404, "environment"),
            ({"environment_ref": {}, "key": "faq-bot.revision"}, 404, "environment"),
            ({"environment_ref": {"slug": "production"}, "key": "other.revision"}, 404, "other.revision"),
            (
                {"environment_ref": {"slug": "production"}, "environment_revision_ref": {"version": "1"}, "key": "faq-bot.revision"},
                404,
                "faq-bot.revision",
            ),
            (
                {"environment_ref": {"slug": "production"}, "key": "faq-bot.revision", "application_ref": {"slug": "other"}},
                400,
                "does not match",
            ),
            (
                {"environment_ref": {"slug": "production"}, "key": "faq-bot.revision", "application_revision_ref": {"version": "2"}},
                400,
                "does not match",
            ),
        ],
    )  # fmt: skip
    async def test_insufficient_missing_or_wrong_references_are_rejected(
        self, api: Api, body: Any, status: int, names: str
    ):
        await self._deployed(api)

        answered, answer = await api.post(RETRIEVE, body)

        assert (answered, names in answer["detail"]) == (status, True)

    async def test_stored_reference_to_nothing_finds_nothing(self, api: Api):
        made = await api.environment()
        delta = {"set": {"k": {"application": {"slug": "gone"}}, "w": {"evaluator": {"slug": "x"}}}}
        await api.ok(COMMIT, {"environment_revision": {"environment_variant_id": made["variant_id"], "delta": delta}})

        for key in delta["set"]:
            body = {"environment_ref": {"slug": "production"}, "key": key}
            assert await api.ok(RETRIEVE, body) == {"count": 0}

    async def test_key_without_references_is_like_a_missing_key(self, api: Api):
        data: dict[str, Any] = {"references": {"k": {}}}
        await api.ok("/simple/environments/", {"environment": {"slug": "production", "data": data}})

        status, answer = await api.post(RETRIEVE, {"environment_ref": {"slug": "production"}, "key": "k"})

        assert (status, answer["detail"]) == (
            404,
            "Nothing is deployed under the key 'k' in version 1 of 'production'.",
        )

    async def test_stored_variant_reference_is_enough(self, api: Api):
        application = await api.application()
        stored = {"application_variant": {"id": application["variant_id"]}}
        data = {"references": {"k": stored}}
        await api.ok("/simple/environments/", {"environment": {"slug": "production", "data": data}})

        answer = await api.ok(RETRIEVE, {"environment_ref": {"slug": "production"}, "key": "k"})

        assert answer["application_revision"]["id"] == application["revision_id"]

    @pytest.mark.parametrize("word", ["application", "workflow"])
    @pytest.mark.parametrize(
        "stored",
        [
            {"application_revision": {"version": "1"}},
            {"application_variant": {"version": "1"}},
            {"application": {"slug": "other"}, "application_revision": {"id": "$revision"}},
        ],
    )
    async def test_error_in_stored_references_is_not_blamed_on_the_request(self, api: Api, stored: Any, word: str):
        revision_id = (await api.application())["revision_id"]
        references = {
            name: {k: v.replace("$revision", revision_id) for k, v in each.items()} for name, each in stored.items()
        }
        data = {"references": {"k": references}}
        await api.ok("/simple/environments/", {"environment": {"slug": "production", "data": data}})

        body = {"environment_ref": {"slug": "production"}, "key": "k"}
        status, answer = await api.post(f"/{word}s/revisions/retrieve", body)

        assert status == 400
        assert answer["detail"].startswith(
            "The references deployed under the key 'k' in version 1 of 'production' identify no"
        )


class TestWorkflows:
    async def test_application_is_a_workflow_under_the_same_id(self, api: Api):
        application = await api.application()

        answer = await api.ok("/workflows/revisions/retrieve", {"resolve": True, "workflow_ref": {"slug": "faq-bot"}})

        revision = answer["workflow_revision"]
        assert (revision["id"], revision["workflow_id"]) == (application["revision_id"], application["id"])
        assert (revision["artifact_id"], revision["variant_id"]) == (application["id"], application["variant_id"])
        assert not [name for name in revision if name.startswith("application")]
        assert answer["retrieval_info"]["references"].keys() == {"workflow", "workflow_variant", "workflow_revision"}

    async def test_workflow_route_finds_what_is_deployed(self, api: Api):
        application = await api.application()
        await api.environment()
        await api.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}})
        body = {"environment_ref": {"slug": "production"}, "workflow_ref": {"slug": "faq-bot"}}

        answer = await api.ok("/workflows/revisions/retrieve", body)

        assert answer["workflow_revision"]["id"] == application["revision_id"]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [({}, 400), ({"workflow_ref": {"slug": "nobody"}}, 200), ({"workflow_ref": {"slug": "a b"}}, 422)],
    )
    async def test_workflow_route_finds_only_applications(self, api: Api, body: Any, expected: int):
        status, answer = await api.post("/workflows/revisions/retrieve", body)

        assert status == expected
        assert status != 200 or answer == {"count": 0}

    async def test_errors_use_the_names_of_the_request(self, api: Api):
        await api.application()
        await api.environment()
        await api.ok(DEPLOY, {"application_ref": {"slug": "faq-bot"}, "environment_ref": {"slug": "production"}})
        there = {"environment_ref": {"slug": "production"}}
        bodies: list[dict[str, Any]] = [
            {},
            {"workflow_variant_ref": {"version": "1"}},
            {"workflow_revision_ref": {"version": "1"}},
            {**there, "workflow_ref": {}},
            {**there, "workflow_ref": {"id": str(UUID(int=9))}},
            {**there, "workflow_ref": {"slug": "faq-bot"}, "workflow_revision_ref": {"version": "9"}},
        ]

        responses = [await api.post("/workflows/revisions/retrieve", body) for body in bodies]

        assert {status for status, _ in responses} == {400}
        assert all("workflow" in each["detail"] and "application" not in each["detail"] for _, each in responses), (
            responses
        )
