"""What embedded references name: the ten facts of the reference ``workflows-evaluators-testsets`` §4."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

import pytest

from common.postgres.pool import Database
from tests.support.embeds import RETRIEVE, embed, refused, resolved, revision
from tests.support.history import HistoryClient, clients_of

PROMPT: Final = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]}
DATA: Final = {
    "parameters": {"greeting": "Hello", "n": 5, "prompt": PROMPT, "a.b": 1, "a/b": 2, "list": [{"x": 1}, {"x": 2}]}
}


@pytest.fixture
async def client(shared_database: Database) -> AsyncIterator[HistoryClient]:
    """A client whose project has the versions ``x-v1`` and ``x-v2`` of the application ``x``; the first has ``DATA``."""
    async with clients_of(shared_database) as [client]:
        first = await revision(client, "x", "x-v1", DATA)
        later = {"parameters": {"greeting": "Good day"}}
        await client.commit(first["application_variant_id"], slug="x-v2", data=later)
        yield client


async def value_of(client: HistoryClient, here: Any, **options: Any) -> Any:
    return (await resolved(client, {"here": here}, **options))[0]["here"]


# A slug and a version


def versioned(kind: str, slug: str, version: str, **members: Any) -> Any:
    return embed(**{f"{kind}_revision": {"slug": slug, "version": version, **members}})


@pytest.mark.parametrize("kind", ["application", "workflow", "evaluator"])
@pytest.mark.parametrize(("version", "expected"), [("0", "Hello"), ("1", "Good day")])
async def test_slug_and_version_may_name_the_artifact(client: HistoryClient, kind: str, version: str, expected: str):
    text = f"@ag.embed[@ag.references[{kind}_revision.slug=x, {kind}_revision.version={version}]"
    compact = f"@{{{{{kind}_revision.slug=x, {kind}_revision.version={version}, path=greeting}}}}"

    assert await value_of(client, versioned(kind, "x", version, id=None)) == expected
    assert await value_of(client, f"{text}, @ag.selector[path=parameters.greeting]]") == expected
    assert await value_of(client, compact) == expected


async def test_slug_and_version_name_the_first_of_three(client: HistoryClient):
    """The revision with both; else the revision `<slug>-<version>`; else that version of the artifact."""
    for slug, revision_slug, greeting in (
        ("dup-0", "other", "the artifact"),
        ("a", "dup", "the revision"),
        ("b", "dup-0-0", "its suffix"),
    ):
        await revision(client, slug, revision_slug, {"parameters": {"greeting": greeting}})

    assert await value_of(client, versioned("application", "dup", "0")) == "the revision"
    assert await value_of(client, versioned("application", "dup-0", "0")) == "its suffix"
    assert await value_of(client, versioned("application", "x-v2", "1")) == "Good day"
    assert "there is no revision" in await refused(client, {"here": versioned("application", "x-v2", "0")})
    assert "there is no revision" in await refused(client, {"here": versioned("application", "x", "2")})
    assert "there is no revision" in await refused(client, {"here": versioned("application", "x", "one")})


async def test_version_of_another_reference_is_that_of_the_revision(client: HistoryClient):
    assert await value_of(client, embed(application={"slug": "x", "version": "0"})) == "Hello"
    assert await value_of(client, embed(application_variant={"slug": "x.main", "version": "0"})) == "Hello"
    references = {"application": {"slug": "x", "version": "0"}, "application_revision": {"version": "1"}}
    assert "different versions: 0, 1" in await refused(client, {"here": embed(**references)})


async def test_slug_and_version_of_an_environment(client: HistoryClient):
    await deploy(client)
    environments = (await client.post("/environments/revisions/query", {}))["environment_revisions"]
    [version] = [row["version"] for row in environments if row.get("data")]

    references = {"environment_revision": {"slug": "production", "version": version}}

    assert (await value_of(client, embed("references", **references))).keys() == {"x.revision"}


async def test_narrowing_references_must_all_match_a_slug_and_version(client: HistoryClient):
    named = {"application_revision": {"slug": "x", "version": "0"}}

    assert await value_of(client, embed(application_variant={"slug": "x.main"}, **named)) == "Hello"
    assert "there is no revision" in await refused(client, {"here": embed(application_variant={"slug": "y"}, **named)})


# Compact tokens


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("@{{application_revision.slug=x-v1}}", "Be kind."),
        ("@{{application_revision.slug=x-v1, path=greeting}}", "Hello"),
        ("@{{application_revision.slug=x-v1 & path=prompt.messages.1.content}}", "Hi"),
        ("@{{application_revision.slug:x-v1&path:greeting}}", "Hello"),
        ("@{{ path : greeting , application_revision.slug : x-v1 }}", "Hello"),
        ("@{{application.slug=x&application_revision.version:0, path=n}}", "5"),
        ("@{{application_revision.slug=x-v1, path=parameters.greeting}}", "Hello"),
        ("@{{application_revision.slug=x-v1, path=$.prompt.messages[1]['content']}}", "Hi"),
        ("@{{application_revision.slug=x-v1, path=/a~1b}}", "2"),
        ("@{{application_revision.slug=x-v1, path=parameters}}", json.dumps(DATA["parameters"], separators=(",", ":"))),
    ],
)
async def test_path_of_a_compact_token_begins_at_the_parameters(client: HistoryClient, token: str, expected: str):
    assert await value_of(client, f"<{token}>") == f"<{expected}>"


async def test_parameters_named_parameters_come_first(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"v": "outer", "parameters": {"v": "inner"}}})

    assert await value_of(client, "@{{application_revision.slug=y-v1, path=parameters.v}}") == "inner"


@pytest.mark.parametrize("text", ["@{{path=a}}", "@{{name: x}}", "@{{key=a & path=b}}", "@{{a.b=c}}", "@{{x.y:z}}"])
async def test_token_without_an_entity_is_text(client: HistoryClient, text: str):
    assert await value_of(client, text) == text


@pytest.mark.parametrize("token", ["@{{application.slug=x, path=uri}}", "@{{application.slug=x}}"])
async def test_compact_token_is_not_the_whole_data(client: HistoryClient, token: str):
    detail = await refused(client, {"here": token})

    assert "holds nothing at 'parameters." in detail


# Keys


async def deploy(client: HistoryClient, *, key: str | None = None, slug: str = "x-v1", to: str = "production") -> None:
    body: dict[str, Any] = {"application_revision_ref": {"slug": slug}, "environment_ref": {"slug": to}}
    await client.post("/applications/revisions/deploy", body if key is None else {**body, "key": key})


def keyed(key: str, path: str = "parameters.greeting") -> Any:
    references = {"environment": {"slug": "production"}}
    return {"@ag.embed": {"@ag.references": references, "@ag.selector": {"key": key, "path": path}}}


async def test_key_leads_to_the_deployed_revision_in_every_notation(client: HistoryClient):
    await deploy(client)
    await deploy(client, key="other", slug="x-v2")
    text = "@ag.embed[@ag.references[environment.slug=production], @ag.selector[key=x.revision, path=parameters.n]]"

    assert await value_of(client, keyed("x.revision")) == "Hello"
    assert await value_of(client, text) == "5"
    assert await value_of(client, "@{{environment.slug=production, key=x.revision}}") == "Be kind."
    assert await value_of(client, "@{{environment.slug:production & key:other & path:greeting}}") == "Good day"
    _, info = await resolved(client, {"here": keyed("x.revision")})
    [used] = info["references_used"]
    assert (used["environment"]["slug"], used["application_revision"]["slug"]) == ("production", "x-v1")
    assert (info["embeds_resolved"], info["depth_reached"]) == (1, 1)


@pytest.fixture
async def environment(client: HistoryClient) -> HistoryClient:
    references = {
        "a.b": {"application_revision": {"slug": "x-v1"}},
        "nested": {"application_revision": {"slug": "x-v2"}},
        "bundle": {"application": {"slug": "x"}, "application_variant": {"slug": "x.main"}},
        "wrong": {"application_revision": {"slug": "none"}},
        "mixed": {"application": {"slug": "x"}, "environment": {"slug": "production"}},
        "empty": {},
    }
    made = await client.post("/environments/query", {"environment": {"slug": "production"}})
    [variant] = (await client.post("/environments/variants/query", {"environment_refs": [{"slug": "production"}]}))[
        "environment_variants"
    ]
    assert made["count"] == 1
    body = {"environment_variant_id": variant["id"], "data": {"references": references}}
    await client.post("/environments/revisions/commit", {"environment_revision": body})
    return client


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b", "Hello"),
        ("nested", "Good day"),
        ("nested.application_revision", "Good day"),
        ("bundle", "Good day"),
        ("x.main", "Good day"),
    ],
)
async def test_key_is_looked_up_literally_then_by_dots_then_as_variant(
    environment: HistoryClient, key: str, expected: str
):
    assert await value_of(environment, keyed(key)) == expected


@pytest.mark.parametrize(
    ("here", "reason"),
    [
        (keyed("none"), "no reference under the key 'none'"),
        (keyed("a"), "no reference under the key 'a'"),
        (keyed("wrong"), "there is no revision that application_revision.slug=none names"),
        (keyed("mixed"), "the same kind"),
        (keyed("empty"), "at least one reference"),
        (keyed("a.b", "parameters.none"), "holds nothing at 'parameters.none'"),
        ("@{{environment.slug=production}}", "no single key"),
        ("@{{environment.slug=staging}}", "holds nothing at 'references'"),
        ("@{{environment.slug=production, key=}}", "holds nothing at 'parameters.prompt.messages.0.content'"),
        (
            {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}, "@ag.selector": {"key": "k"}}},
            "holds nothing",
        ),
        (
            {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}, "@ag.selector": {"key": 1}}},
            "must be a text",
        ),
    ],
)
async def test_key_that_leads_nowhere_is_400_with_its_place(environment: HistoryClient, here: Any, reason: str):
    detail = await refused(environment, {"list": [here]})

    assert detail.startswith("data.parameters.list[0]: the embedded reference has no value: ")
    assert reason in detail


async def test_only_key_of_an_environment_is_followed_in_compact_tokens(client: HistoryClient):
    await deploy(client)

    assert await value_of(client, "@{{environment.slug=production}}") == "Be kind."
    assert await value_of(client, "@{{environment.slug=production, path=greeting}}") == "Hello"
    data = await value_of(client, embed(None, environment={"slug": "production"}))
    assert data["references"].keys() == {"x.revision"}
    assert await value_of(client, "@{{environment.slug=production, key=, path=references}}") == json.dumps(
        data["references"], separators=(",", ":")
    )


@pytest.mark.parametrize(("key", "expected"), [("nested", "x-v2"), ("a.b", "x-v1")])
async def test_reference_of_an_environment_is_read_as_text(environment: HistoryClient, key: str, expected: str):
    path = f"references.{key}.application_revision.slug"
    text = f"@ag.embed[@ag.references[environment.slug=production], @ag.selector[path={path}]]"

    assert await value_of(environment, embed(path, environment={"slug": "production"})) == expected
    assert await value_of(environment, text) == expected
    detail = await refused(environment, {"here": embed(f"{path}.none", environment={"slug": "production"})})
    assert detail.endswith(f" holds nothing at '{path}.none'.")


async def test_keys_of_a_level_are_followed_in_two_statements(
    environment: HistoryClient, monkeypatch: pytest.MonkeyPatch
):
    statements: list[str] = []
    fetch_all = Database.fetch_all

    async def counted(self: Database, sql: str, *arguments: object) -> Any:
        statements.append(sql)
        return await fetch_all(self, sql, *arguments)

    monkeypatch.setattr(Database, "fetch_all", counted)

    assert await value_of(environment, [keyed("a.b"), keyed("nested"), embed()]) == ["Hello", "Good day", "Hello"]
    assert len(statements) == 2


# Paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", DATA),
        ("$.parameters.list[0].x", 1),
        ("$.parameters.list[-1]['x']", 2),
        ('$["parameters"]["a.b"]', 1),
        ("/parameters/a.b", 1),
        ("/parameters/a~1b", 2),
        ("/parameters/list/1/x", 2),
        ("parameters.list.1.x", 2),
    ],
)
async def test_path_is_dotted_or_json_path_or_json_pointer(client: HistoryClient, path: str, expected: Any):
    assert await value_of(client, embed(path)) == expected
    text = f"@ag.embed[@ag.references[application_revision.slug=x-v1], @ag.selector[path={path}]]"
    assert json.loads(await value_of(client, text)) == expected


@pytest.mark.parametrize(
    "path", ["$x", "$.parameters.*", "$..x", "$.a[?(@.b)]", "$.parameters.list[0", "/parameters/none", "$.none"]
)
async def test_path_that_cannot_be_read_is_400(client: HistoryClient, path: str):
    assert (await refused(client, {"here": embed(path)})).startswith("data.parameters.here: ")


# Through another embed


async def test_path_of_a_text_leads_through_another_embed(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"all": embed("parameters"), "old": {"way": embed(None)}}})
    await revision(client, "z", "z-v1", {"parameters": {"y": embed("parameters", application={"slug": "y"})}})

    assert await value_of(client, "@{{workflow_revision.slug=y-v1, path=all.greeting}}") == "Hello"
    assert await value_of(client, "@{{workflow_revision.slug=y-v1, path=all.list}}") == '[{"x":1},{"x":2}]'
    assert await value_of(client, "@{{workflow_revision.slug=y-v1, path=old.way.parameters.n}}") == "5"
    _, info = await resolved(client, {"here": "@{{workflow_revision.slug=z-v1, path=y.all.greeting}}"})
    assert (info["embeds_resolved"], info["depth_reached"], len(info["references_used"])) == (3, 3, 3)
    text = "@ag.embed[@ag.references[workflow.slug=z], @ag.selector[path=parameters.y.all.n]]"
    assert await value_of(client, text) == "5"
    # The object notation applies its path first.
    assert "holds nothing" in await refused(client, {"here": embed("parameters.all.greeting", workflow={"slug": "y"})})
    assert await value_of(client, embed("parameters.old.way", workflow={"slug": "y"})) == DATA


async def test_path_leads_through_an_embed_with_a_key(client: HistoryClient):
    await deploy(client)
    await revision(client, "y", "y-v1", {"parameters": {"live": keyed("x.revision", "parameters")}})

    assert await value_of(client, "@{{workflow_revision.slug=y-v1, path=live.greeting}}") == "Hello"


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (embed(application={"slug": "none"}), "there is no revision that application.slug=none names"),
        (embed("parameters.none"), "holds nothing at 'parameters.none.greeting'"),
        ({"@ag.embed": {}}, "needs the member '@ag.references'"),
        (embed("parameters", application={"slug": "y"}), "max_depth"),
        ("@{{application_revision.slug=x-v1, path=parameters}}", "holds nothing at 'parameters.v.greeting'"),
    ],
)
async def test_embed_on_the_way_without_a_value_is_an_error(client: HistoryClient, inner: Any, reason: str):
    await revision(client, "y", "y-v1", {"parameters": {"v": inner}})
    here = "@{{workflow_revision.slug=y-v1, path=v.greeting}}"
    if "max_depth" in reason:
        here = "@{{workflow_revision.slug=y-v1, path=v.v.v.v.v.v.v.v.v.v.v.v}}"

    detail = await refused(client, {"here": here})
    kept = await value_of(client, here, error_policy="keep")
    placeholder = await value_of(client, here, error_policy="placeholder")

    assert detail.startswith("data.parameters.here: the embedded reference has no value: ")
    assert reason in detail
    assert kept == here
    assert placeholder.startswith("<error:")


async def test_embeds_on_the_way_that_lead_back_are_a_cycle(client: HistoryClient):
    for name, other in (("a", "b"), ("b", "a")):
        inner = embed("parameters", application={"slug": other})
        await revision(client, name, f"{name}-v1", {"parameters": inner})

    detail = await refused(client, {"here": "@{{application.slug=a, path=greeting}}"})

    assert "a cycle" in detail or "max_depth" in detail


async def test_embeds_on_the_way_count(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"all": embed("parameters")}})
    here = "@{{workflow_revision.slug=y-v1, path=all.greeting}}"

    assert await value_of(client, here * 2, max_embeds=4, max_depth=2) == "HelloHello"
    assert "max_embeds" in await refused(client, {"here": here * 2}, max_embeds=3)
    assert "max_depth" in await refused(client, {"here": here}, max_depth=1)


async def test_ways_that_multiply_end_at_the_limits(client: HistoryClient):
    """Every level embeds the one before twice, by a path that leads through it."""
    await revision(client, "g0", "g0", {"parameters": {"v": {"w": "x" * 1_000}}})
    for number in range(1, 10):
        before = embed("parameters", application={"slug": f"g{number - 1}"})
        twice = f"@{{{{application.slug=g{number}, path=in.v.w}}}}" * 2
        await revision(client, f"g{number}", f"g{number}", {"parameters": {"in": before, "v": {"w": twice}}})
    here = {"here": "@{{application.slug=g9, path=v.w}}"}

    few = await resolved(client, {"here": "@{{application.slug=g3, path=v.w}}"}, max_depth=20)
    detail = await refused(client, here, max_depth=20, max_embeds=500)

    assert few[0] == {"here": "x" * 8_000}
    assert "max_embeds" in detail


async def test_marker_is_never_a_value(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"v": embed()}})

    for here in (
        embed("$.parameters.v['@ag.embed']", application={"slug": "y"}),
        "@{{application.slug=y, path=/v/@ag.embed}}",
    ):
        assert "does not lead into '@ag.embed'" in await refused(client, {"here": here})


async def test_archived_revision_is_embedded(client: HistoryClient):
    found = await client.post(RETRIEVE, {"application_ref": {"slug": "x"}})
    await client.post(f"/applications/revisions/{found['application_revision']['id']}/archive")

    assert await value_of(client, versioned("application", "x", "1")) == "Good day"


# Placeholders


@pytest.mark.parametrize(
    ("here", "name"),
    [
        (embed(application={"slug": "none"}), "RevisionNotFound"),
        (embed("parameters.none"), "PathNotFound"),
        (embed(testset={"slug": "x"}), "InvalidReference"),
        ("@{{application.slug=none}}", "RevisionNotFound"),
    ],
)
async def test_placeholder_names_the_error(client: HistoryClient, here: Any, name: str):
    assert await value_of(client, here, error_policy="placeholder") == f"<error:{name}>"


# Projects


async def test_no_way_of_naming_leads_to_another_project(shared_database: Database):
    async with clients_of(shared_database, count=2) as [mine, stranger]:
        theirs = await revision(stranger, "theirs", "theirs-v1", {"parameters": {"greeting": "secret", "n": DATA}})
        await deploy(stranger, slug="theirs-v1", to="staging")
        body = {"application_revision_ref": {"slug": "mine-v1"}, "environment_ref": {"slug": "production"}}
        await revision(mine, "mine", "mine-v1", {"parameters": {"v": embed(application_revision={"id": theirs["id"]})}})
        await mine.post("/applications/revisions/deploy", body)
        foreign = {"theirs": {"application_revision": {"id": theirs["id"]}}}
        made = {"environment": {"slug": "leading-out", "data": {"references": foreign}}}
        await mine.post("/simple/environments/", made)
        nobody = str(UUID(int=9))

        details = [
            await refused(mine, {"here": here})
            for here in (
                versioned("application", "theirs", "0"),
                "@{{application_revision.slug=theirs&application_revision.version=0}}",
                "@{{environment.slug=staging}}",
                "@{{environment.slug=leading-out}}",
                "@{{application.slug=mine, path=v.greeting}}",
                f"@{{{{application_revision.id={nobody}}}}}",
            )
        ]

    assert "secret" not in str(details)
    reasons = [detail.replace(theirs["id"], nobody).partition(" has no value: ")[2] for detail in details]
    named = "application_revision.slug=theirs, application_revision.version=0"
    assert reasons.pop(2).endswith("holds nothing at 'references'.")
    assert reasons == [
        *[f"there is no revision that {named} names."] * 2,
        *[f"there is no revision that application_revision.id={nobody} names."] * 3,
    ]
