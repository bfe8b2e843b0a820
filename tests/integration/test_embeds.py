"""Embedded references over HTTP, on a real Postgres (reference ``workflows-evaluators-testsets`` §4, contract §5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from common.postgres.pool import Database
from common.settings import LimitSettings, Settings
from tests.support.api import KnownKeys, context_of, serving
from tests.support.embeds import RESOLVE, RETRIEVE, embed, refused, resolved, revision
from tests.support.history import HistoryClient, clients_of

OF_X = "@ag.embed[@ag.references[workflow_revision.slug=x-v1], @ag.selector[path=parameters.greeting]]"


@pytest.fixture
async def client(shared_database: Database) -> AsyncIterator[HistoryClient]:
    """A client whose project has the revision ``x-v1`` of the variant ``x.main`` of the application ``x``."""
    async with clients_of(shared_database) as [client]:
        await revision(client, "x", "x-v1", {"parameters": {"greeting": "Hello", "n": 5, "list": [{"a": None}]}})
        yield client


# Spellings


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (embed(), "Hello"),
        (embed(application={"slug": "x"}, application_variant=None), "Hello"),
        (
            {
                "@ag.embed": {
                    "@ag.references": {"application": {"slug": "x", "id": None}},
                    "@ag.selector": {"key": None, "path": "parameters.n"},
                }
            },
            5,
        ),
        (embed("parameters.n"), 5),
        (embed("parameters.list.0"), {"a": None}),
        (embed("parameters.list.0.a"), None),
        (embed(None), {"parameters": {"greeting": "Hello", "n": 5, "list": [{"a": None}]}}),
        (embed(""), {"parameters": {"greeting": "Hello", "n": 5, "list": [{"a": None}]}}),
        (OF_X, "Hello"),
        (f"{OF_X}, {OF_X}!", "Hello, Hello!"),
        ("@ag.embed[@ag.references[workflow_revision.slug=x-v1],@ag.selector[path=parameters.n]]", "5"),
        ("@{{application_revision.slug=x-v1, path=parameters.greeting}}!", "Hello!"),
        ("@{{ application_revision.slug = x-v1 , path = parameters.list }}", '[{"a":null}]'),
        (
            "@ag.embed[@ag.references[application.slug=x]]",
            '{"parameters":{"greeting":"Hello","n":5,"list":[{"a":null}]}}',
        ),
        (f"{OF_X} and @{{{{workflow.slug=x, path=parameters.n}}}}", "Hello and 5"),
        ([{"deep": [embed()]}], [{"deep": ["Hello"]}]),
    ],
)
async def test_every_notation_is_replaced(client: HistoryClient, value: Any, expected: Any):
    parameters, _ = await resolved(client, {"before": 1, "here": value, "after": [2.5]})

    assert parameters == {"before": 1, "here": expected, "after": [2.5]}


@pytest.mark.parametrize(
    "text",
    [
        "mail me @{{handle}}",
        "@{{customer.name}}",
        "@{{date.format:short}}",
        "{{application.slug=x}}",
        "@ag.embed",
        "a@b.c",
        "@{{a b.c=d",
    ],
)
async def test_text_that_only_looks_like_an_embed_stays(client: HistoryClient, text: str):
    parameters, info = await resolved(client, {"text": text, "name@ag.embed": 1})

    assert parameters == {"text": text, "name@ag.embed": 1}
    assert info == {"references_used": [], "depth_reached": 0, "embeds_resolved": 0, "errors": []}


@pytest.mark.parametrize(
    "references",
    [
        {"application": {"slug": "x"}},
        {"workflow": {"slug": "x"}},
        {"application_variant": {"slug": "x.main"}},
        {"application_variant": {"slug": "x.main"}, "application_revision": {"version": "0"}},
        {"workflow": {"slug": "x"}, "workflow_revision": {"version": "0"}},
        {
            "application": {"slug": "x"},
            "application_variant": {"slug": "x.main"},
            "application_revision": {"slug": "x-v1"},
        },
    ],
)
async def test_embeds_name_revisions_like_a_retrieval(client: HistoryClient, references: Any):
    parameters, _ = await resolved(client, {"here": embed(**references)})

    assert parameters == {"here": "Hello"}


async def test_embeds_may_name_by_id_in_any_notation(client: HistoryClient):
    found = await client.post(RETRIEVE, {"application_ref": {"slug": "x"}})
    names = found["retrieval_info"]["references"]

    for name, reference in names.items():
        for spelled in (reference["id"], reference["id"].replace("-", "").upper()):
            parameters, _ = await resolved(
                client,
                {
                    "object": embed(**{name: {"id": spelled}}),
                    "text": f"@{{{{{name}.id={spelled}, path=parameters.n}}}}",
                },
            )
            assert parameters == {"object": "Hello", "text": "5"}


async def test_embedded_variant_without_a_version_means_its_head(client: HistoryClient):
    [variant] = (await client.post("/applications/variants/query"))["application_variants"]
    await client.commit(variant["id"], data={"parameters": {"greeting": "Good day"}})

    parameters, _ = await resolved(client, {"head": embed(application={"slug": "x"}), "old": embed()})

    assert parameters == {"head": "Good day", "old": "Hello"}


async def test_embedded_environment_is_its_data(client: HistoryClient):
    await client.post(
        "/applications/revisions/deploy", {"application_ref": {"slug": "x"}, "environment_ref": {"slug": "production"}}
    )

    parameters, info = await resolved(client, {"deployed": embed("references", environment={"slug": "production"})})

    assert parameters["deployed"]["x.revision"]["application_revision"]["slug"] == "x-v1"
    assert info["references_used"][0]["environment"]["slug"] == "production"


# What is reported


async def test_one_embed_is_counted_once(client: HistoryClient):
    found = await client.post(RETRIEVE, {"application_ref": {"slug": "x"}})

    _, info = await resolved(client, {"here": OF_X})

    names = found["retrieval_info"]["references"]
    used = {name.replace("application", "workflow"): reference for name, reference in names.items()}
    assert info == {"references_used": [used], "depth_reached": 1, "embeds_resolved": 1, "errors": []}


async def test_revision_is_reported_once_however_often_it_is_embedded(client: HistoryClient):
    _, info = await resolved(client, {"a": f"{OF_X} {OF_X}", "b": embed("parameters.n")})

    assert (info["embeds_resolved"], info["depth_reached"], len(info["references_used"])) == (3, 1, 1)


# Depth


async def test_embedded_data_may_embed(client: HistoryClient):
    await revision(
        client, "y", "y-v1", {"parameters": {"text": f"<{OF_X}>", "value": {"inner": embed("parameters.n")}}}
    )
    outer = {
        "text": "(@{{application_revision.slug=y-v1, path=parameters.text}})",
        "value": embed("parameters.value", application={"slug": "y"}),
    }

    parameters, info = await resolved(client, outer)

    assert parameters == {"text": "(<Hello>)", "value": {"inner": 5}}
    assert (info["embeds_resolved"], info["depth_reached"], len(info["references_used"])) == (4, 2, 2)


async def chain(client: HistoryClient, length: int) -> None:
    """``c1`` embeds ``c0``, ``c2`` embeds ``c1``, …"""
    await revision(client, "c0", "c0", {"parameters": {"v": "end"}})
    for number in range(1, length):
        inner = f"@{{{{application_revision.slug=c{number - 1}, path=parameters.v}}}}"
        await revision(client, f"c{number}", f"c{number}", {"parameters": {"v": inner}})


async def test_depth_counts_levels_and_has_a_limit(client: HistoryClient):
    await chain(client, 4)
    here = {"here": embed("parameters.v", application={"slug": "c3"})}

    assert (await resolved(client, here, max_depth=4))[0] == {"here": "end"}
    assert (await resolved(client, here))[1]["depth_reached"] == 4
    detail = await refused(client, here, max_depth=3)
    assert detail.startswith("data.parameters.here: ")
    assert "max_depth" in detail


async def test_embeds_are_counted_as_often_as_they_occur(client: HistoryClient):
    here = {"a": f"{OF_X} {OF_X}", "b": embed()}

    assert (await resolved(client, here, max_embeds=3))[1]["embeds_resolved"] == 3
    detail = await refused(client, here, max_embeds=2)
    assert detail.startswith("data.parameters.b: ")
    assert "max_embeds" in detail
    _, info = await resolved(client, here, max_embeds=1, error_policy="keep")
    assert (info["embeds_resolved"], len(info["errors"])) == (1, 2)


@pytest.mark.parametrize("member", ["max_depth", "max_embeds"])
@pytest.mark.parametrize("number", [-1, 10**6])
async def test_limits_of_a_request_have_bounds(client: HistoryClient, member: str, number: int):
    body = {"application_revision": {"data": {"parameters": {}}}, member: number}

    response = await client.post(RESOLVE, body, status=422)

    assert response["detail"][0]["loc"] == ["body", member]


@pytest.mark.parametrize(
    ("ring", "at"),
    [
        ({"a": "b", "b": "a"}, "data.parameters.here"),
        ({"a": "a"}, "data.parameters.here"),
        ({"a": "b", "b": "c", "c": "a"}, "data.parameters.here"),
    ],
)
async def test_cycle_is_rejected(client: HistoryClient, ring: dict[str, str], at: str):
    for name, inner in ring.items():
        value = f"@{{{{application_revision.slug={inner}, path=parameters.v}}}}"
        await revision(client, name, name, {"parameters": {"v": value}})

    detail = await refused(client, {"here": embed("parameters.v", application={"slug": "a"})})

    assert detail.startswith(f"{at}: ")
    assert "cycle" in detail


async def test_revision_that_embeds_itself_is_a_cycle(client: HistoryClient):
    await revision(client, "self", "self-v1", {"parameters": {"v": embed(None, application={"slug": "self"})}})

    response = await client.post(RETRIEVE, {"application_ref": {"slug": "self"}, "resolve": True}, status=400)

    assert response["detail"].startswith("data.parameters.v: ")
    assert "cycle" in response["detail"]


async def test_other_part_of_the_same_revision_is_not_a_cycle(client: HistoryClient):
    value = embed("parameters.tone", application_revision={"slug": "own-v1"})
    await revision(client, "own", "own-v1", {"parameters": {"tone": "kind", "style": value}})

    response = await client.post(RETRIEVE, {"application_ref": {"slug": "own"}, "resolve": True})

    assert response["application_revision"]["data"] == {"parameters": {"tone": "kind", "style": "kind"}}


# What cannot be resolved

UNRESOLVABLE = [
    embed(application_revision={"slug": "none"}),
    embed(application={"slug": "x"}, application_revision={"version": "9"}),
    embed(application={"slug": "x"}, application_revision={"version": "zero"}),
    embed(application_revision={"version": "0"}),
    embed(application={"slug": "other"}, application_revision={"slug": "x-v1"}),
    embed(application={}),
    embed(evaluator={"slug": "none"}),
    embed(testset={"slug": "x"}),
    embed(application={"slug": "x"}, environment={"slug": "production"}),
    embed(application={"slugg": "x"}),
    embed(application={"slug": "a b"}),
    embed(application={"id": "x"}),
    embed("parameters.none"),
    embed("parameters.greeting.more"),
    embed("parameters.list.9"),
    {"@ag.embed": {}},
    {"@ag.embed": "x"},
    {"@ag.embed": {"@ag.references": {}}},
    {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}, "more": 1}},
    {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}, "@ag.selector": {"keys": "x"}}},
    {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}, "@ag.selector": {"path": 1}}},
    {"@ag.embed": {"@ag.references": {"application": {"slug": "x"}}}, "beside": 1},
    "@ag.embed[]",
    "@ag.embed[@ag.references[]]",
    "@ag.embed[@ag.references[application.slug]]",
    "@ag.embed[@ag.references[application.slug=x], @ag.selector[path]]",
    "@ag.embed[@ag.references[application.slug=x, application.slug=y]]",
    "@ag.embed[@ag.references[application.slug=x]",
    "@{{application.slug=none}}",
    "@{{snippet.slug=x}}",
    "@{{application.slug=x, path=a, path=b}}",
]


@pytest.mark.parametrize("value", UNRESOLVABLE, ids=str)
async def test_unresolved_reference_is_400_with_its_place(client: HistoryClient, value: Any):
    detail = await refused(client, {"list": [1, {"here": value}]})

    assert detail.startswith("data.parameters.list[1].here: the embedded reference has no value: ")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"slug": "no/slug"}, "application.slug: 'slug' must be URL-safe."),
        (["x"], "application must be an object with id, slug or version."),
    ],
)
async def test_invalid_reference_says_why(client: HistoryClient, sent: Any, reason: str):
    detail = await refused(client, {"here": embed(application=sent)})

    assert detail == f"data.parameters.here: the embedded reference has no value: {reason}"


@pytest.mark.parametrize("value", UNRESOLVABLE, ids=str)
async def test_unresolved_reference_is_kept_or_replaced_by_policy(client: HistoryClient, value: Any):
    for policy, expected in (("keep", value), ("placeholder", "<error:")):
        parameters, info = await resolved(client, {"here": value, "there": embed()}, error_policy=policy)

        shown = parameters.pop("here")
        # The rest of an unreadable marker is text.
        assert shown == expected or str(shown).startswith("<error:")
        assert parameters == {"there": "Hello"}
        assert (info["embeds_resolved"], len(info["errors"])) == (1, 1)
        assert info["errors"][0].startswith("data.parameters.here: ")


async def test_rest_of_a_text_stays(client: HistoryClient):
    parameters, _ = await resolved(
        client, {"here": f"{OF_X}: @{{{{application.slug=none}}}}."}, error_policy="placeholder"
    )

    assert parameters == {"here": "Hello: <error:RevisionNotFound>."}


async def test_revision_of_another_project_looks_missing(shared_database: Database):
    async with clients_of(shared_database, count=2) as [mine, stranger]:
        theirs = await revision(stranger, "secret", "secret-v1", {"parameters": {"greeting": "theirs"}})
        responses = []
        for references in (
            {"application_revision": {"id": theirs["id"]}},
            {"application_variant": {"id": theirs["application_variant_id"]}},
            {"application": {"id": theirs["application_id"]}},
            {"application": {"slug": "secret"}},
            {"application_revision": {"slug": "secret-v1"}},
        ):
            [(name, reference)] = references.items()
            [(member, value)] = reference.items()
            other = value.replace("secret", "nobody") if member == "slug" else "00000000-0000-7000-8000-0000000000ff"
            absent = await refused(mine, {"here": embed(**{name: {member: other}})})
            responses.append((await refused(mine, {"here": embed(**references)}), absent.replace(other, value)))

    assert all(own == absent for own, absent in responses), responses


async def test_foreign_part_next_to_an_own_part_is_not_read(shared_database: Database):
    async with clients_of(shared_database, count=2) as [mine, stranger]:
        theirs = await revision(stranger, "x", "x-v1", {"parameters": {"greeting": "theirs"}})
        await revision(mine, "x", "x-v1", {"parameters": {"greeting": "mine"}})

        parameters, _ = await resolved(mine, {"here": embed(application={"slug": "x"})})
        detail = await refused(mine, {"here": embed(application_revision={"id": theirs["id"], "slug": "x-v1"})})

    assert parameters == {"here": "mine"}
    assert "there is no revision" in detail


# Routes


async def test_retrieval_resolves_on_request(client: HistoryClient):
    committed = await revision(client, "y", "y-v1", {"parameters": {"here": OF_X}})

    plain = await client.post(RETRIEVE, {"application_ref": {"slug": "y"}})
    response = await client.post(RETRIEVE, {"application_ref": {"slug": "y"}, "resolve": True})

    assert plain["application_revision"] == committed
    assert "resolution_info" not in plain
    assert response["application_revision"] == {**committed, "data": {"parameters": {"here": "Hello"}}}
    assert response["retrieval_info"] == plain["retrieval_info"]
    assert response["resolution_info"]["embeds_resolved"] == 1


async def test_workflows_deployments_and_the_resolve_route_do_too(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"here": OF_X}})
    await client.post(
        "/applications/revisions/deploy", {"application_ref": {"slug": "y"}, "environment_ref": {"slug": "production"}}
    )

    responses = [
        (await client.post("/workflows/revisions/retrieve", {"workflow_ref": {"slug": "y"}, "resolve": True}))[
            "workflow_revision"
        ],
        (
            await client.post(
                RETRIEVE, {"environment_ref": {"slug": "production"}, "key": "y.revision", "resolve": True}
            )
        )["application_revision"],
        (await client.post(RESOLVE, {"application_ref": {"slug": "y"}}))["application_revision"],
    ]

    assert [response["data"] for response in responses] == [{"parameters": {"here": "Hello"}}] * 3


async def test_revision_can_be_sent_as_it_was_returned(client: HistoryClient):
    committed = await revision(client, "y", "y-v1", {"parameters": {"here": OF_X}})

    response = await client.post(RESOLVE, {"application_revision": committed})

    assert response["application_revision"] == {"data": {"parameters": {"here": "Hello"}}}


async def test_workflows_resolve_what_the_sdk_sends(client: HistoryClient):
    path = "/workflows/revisions/resolve"
    sent = {"workflow_revision": {"data": {"parameters": {"here": OF_X}}}}

    inline = await client.post(path, {**sent, "max_depth": 10, "max_embeds": 100, "error_policy": "exception"})
    named = await client.post(path, {"workflow_revision_ref": {"slug": "x-v1"}})

    assert inline["workflow_revision"] == {"data": {"parameters": {"here": "Hello"}}}
    assert inline["resolution_info"]["embeds_resolved"] == 1
    assert named["workflow_revision"]["slug"] == "x-v1"
    assert named["retrieval_info"]["references"].keys() == {"workflow", "workflow_variant", "workflow_revision"}
    assert await client.post(path, {"workflow_ref": {"slug": "none"}}) == {"count": 0}
    assert "workflow_ref" in (await client.post(path, {}, status=400))["detail"]


async def test_deployed_reference_without_a_value_is_400(client: HistoryClient):
    await revision(client, "y", "y-v1", {"parameters": {"here": "@{{application.slug=none}}"}})

    for path, word in ((RETRIEVE, "application"), ("/workflows/revisions/retrieve", "workflow")):
        response = await client.post(path, {f"{word}_ref": {"slug": "y"}, "resolve": True}, status=400)
        assert response["detail"].startswith("data.parameters.here: ")


async def test_environments_resolve_too(client: HistoryClient):
    references = {"x.revision": {"application": {"slug": "x"}}}
    body = {"environment": {"slug": "mine", "data": {"references": references}}}
    made = (await client.post("/simple/environments/", body))["environment"]
    path = "/environments/revisions/resolve"

    named = await client.post(path, {"environment_ref": {"slug": "mine"}})
    inline = await client.post(path, {"environment_revision": {"data": {"references": references}}})

    assert named["environment_revision"]["id"] == made["revision_id"]
    assert named["environment_revision"]["data"] == {"references": references}
    assert named["resolution_info"] == {"references_used": [], "depth_reached": 0, "embeds_resolved": 0, "errors": []}
    assert named["retrieval_info"]["references"]["environment"]["slug"] == "mine"
    assert inline["environment_revision"] == {"data": {"references": references}}
    assert await client.post(path, {"environment_ref": {"slug": "none"}}) == {"count": 0}
    assert await client.post(path, {"environment_ref": {"slug": "staging"}}) == {"count": 0}  # it has no data
    await client.post(path, {"environment_revision": {}}, status=400)
    await client.post(path, {}, status=400)
    response = await client.post(path, {"environment_revision": {"dat": {}}}, status=422)
    assert response["detail"][0]["loc"] == ["body", "environment_revision", "dat"]


async def test_data_without_embeds_is_returned_as_committed(client: HistoryClient):
    data = {"parameters": {"z": 1.0, "a": 2**70, "n": None, "text": "@{{name}}"}}
    committed = await revision(client, "y", "y-v1", data)

    response = await client.post(RETRIEVE, {"application_ref": {"slug": "y"}, "resolve": True})

    assert json.dumps(response["application_revision"]["data"]) == json.dumps(committed["data"])


# Bounds


@pytest.fixture
async def small(shared_database: Database) -> AsyncIterator[HistoryClient]:
    """A project of an API on which resolved data has at most 10,000 bytes."""
    async with clients_of(shared_database) as [client]:
        settings = Settings(auth="on", limits=LimitSettings(resolved_bytes_max=10_000))
        keys = KnownKeys({client.key: client.project_id})
        async with serving(context_of(settings=settings, keys=keys, database=shared_database)) as session:
            yield HistoryClient(session, client.key, client.project_id)


@pytest.fixture
async def shallow(shared_database: Database) -> AsyncIterator[HistoryClient]:
    """A project of an API on which the limits of embedded references are below the defaults of a request."""
    async with clients_of(shared_database) as [client]:
        settings = Settings(auth="on", limits=LimitSettings(embed_depth_max=1, embeds_max=2))
        keys = KnownKeys({client.key: client.project_id})
        async with serving(context_of(settings=settings, keys=keys, database=shared_database)) as session:
            yield HistoryClient(session, client.key, client.project_id)


async def test_setting_below_the_default_limits_requests(shallow: HistoryClient):
    await revision(shallow, "x", "x-v1", {"parameters": {"greeting": "Hello"}})
    await revision(shallow, "y", "y-v1", {"parameters": {"v": OF_X}})

    assert (await resolved(shallow, {"here": f"{OF_X} {OF_X}"}))[0] == {"here": "Hello Hello"}
    retrieved = await shallow.post(RETRIEVE, {"application_ref": {"slug": "y"}, "resolve": True})
    assert retrieved["application_revision"]["data"] == {"parameters": {"v": "Hello"}}
    assert "max_embeds" in await refused(shallow, {"here": f"{OF_X} {OF_X} {OF_X}"})
    assert "max_depth" in await refused(shallow, {"here": embed("parameters.v", application={"slug": "y"})})


async def test_null_options_are_absent(client: HistoryClient):
    options = dict.fromkeys(("max_depth", "max_embeds", "error_policy"))

    assert (await resolved(client, {"here": OF_X}, **options))[0] == {"here": "Hello"}
    assert "x-v2" in await refused(client, {"here": OF_X.replace("x-v1", "x-v2")}, **options)


async def test_references_that_multiply_end_at_the_limit_of_bytes(small: HistoryClient):
    await revision(small, "b0", "b0", {"parameters": {"v": "x" * 100}})
    for number in range(1, 8):
        inner = f"@{{{{application_revision.slug=b{number - 1}, path=parameters.v}}}}"
        await revision(small, f"b{number}", f"b{number}", {"parameters": {"v": inner * 2}})

    parameters, _ = await resolved(small, {"here": embed("parameters.v", application={"slug": "b4"})})
    detail = await refused(small, {"here": embed("parameters.v", application={"slug": "b7"})}, max_embeds=1_000)

    assert parameters == {"here": "x" * 1_600}
    assert "too large" in detail


@pytest.mark.parametrize("policy", ["exception", "keep", "placeholder"])
async def test_texts_that_grow_by_quoting_end_at_the_limit_of_bytes(small: HistoryClient, policy: str):
    await revision(small, "q0", "q0", {"parameters": {"v": '"' * 50}})
    for number in range(1, 10):
        inner = f"@{{{{application_revision.slug=q{number - 1}, path=parameters}}}}"
        await revision(small, f"q{number}", f"q{number}", {"parameters": {"v": inner}})
    here = {"here": embed("parameters", application={"slug": "q9"})}

    body = {"application_revision": {"data": {"parameters": here}}, "error_policy": policy}
    status, response = await small.try_call("POST", RESOLVE, json=body)

    assert (status, len(json.dumps(response)) < 20_000) == (400 if policy == "exception" else 200, True)


async def test_a_part_that_is_too_large_is_not_read(small: HistoryClient):
    await revision(small, "big", "big", {"parameters": {"small": 1, "large": "x" * 11_000}})

    parameters, _ = await resolved(small, {"here": embed("parameters.small", application={"slug": "big"})})
    detail = await refused(small, {"here": embed(None, application={"slug": "big"})})

    assert parameters == {"here": 1}
    assert "too large" in detail


async def test_too_large_data_is_rejected_only_if_it_embeds(small: HistoryClient):
    large = {"large": "x" * 11_000}

    assert (await resolved(small, large))[0] == large
    assert await refused(small, {**large, "here": embed(application={"slug": "x"})})


async def test_many_embeds_are_read_up_to_the_limit(client: HistoryClient):
    flood = "@{{a.id=}}" * 100_000

    body = {"application_revision": {"data": {"script": flood}}, "error_policy": "keep"}
    response = await client.post(RESOLVE, body)

    assert response["application_revision"] == {"data": {"script": flood}}
    assert (response["resolution_info"]["embeds_resolved"], len(response["resolution_info"]["errors"])) == (0, 100)


async def test_nesting_has_the_limit_of_data(client: HistoryClient):
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    await revision(client, "deep", "deep", {"parameters": {"v": deep}})
    here: Any = embed("parameters.v", application={"slug": "deep"})
    for _ in range(30):
        here = [here]

    assert (await resolved(client, {"here": embed("parameters.v", application={"slug": "deep"})}))[0] == {"here": deep}
    assert "nest deeper" in await refused(client, {"here": here})


async def test_level_is_read_in_one_statement(
    client: HistoryClient, shared_database: Database, monkeypatch: pytest.MonkeyPatch
):
    for number in range(20):
        inner = f"@{{{{application.slug=x, path=parameters.n}}}} {number}"
        await revision(client, f"p{number}", f"p{number}", {"parameters": {"v": inner}})
    here = [embed("parameters.v", application={"slug": f"p{number}"}) for number in range(20)]
    statements: list[str] = []
    fetch_all = Database.fetch_all

    async def counted(self: Database, sql: str, *arguments: object) -> Any:
        statements.append(sql)
        return await fetch_all(self, sql, *arguments)

    monkeypatch.setattr(Database, "fetch_all", counted)

    parameters, info = await resolved(client, {"here": here})

    assert parameters["here"] == [f"5 {number}" for number in range(20)]
    assert (info["embeds_resolved"], len(info["references_used"])) == (40, 21)
    assert len(statements) == 2
