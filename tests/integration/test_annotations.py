"""Evaluators that feedback makes, and the routes of annotations and invocations: the same as simple traces, under other
names (reference ``workflows-evaluators-testsets`` §5 to §7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from tests.support.simple_traces import Simple, simple_clients

LINK = {"trace_id": "a" * 32, "span_id": "b" * 16}
LINKS = {"invocation": LINK}
DATA = {"outputs": {"score": 0.5, "passed": True, "labels": ["a"], "note": None}}
SCHEMA = {
    "type": "object",
    "properties": {
        "outputs": {
            "type": "object",
            "properties": {
                "score": {"type": "number"},
                "passed": {"type": "boolean"},
                "labels": {"type": "array", "items": {"type": "string"}},
                "note": {},
            },
            "required": ["score", "passed", "labels", "note"],
        }
    },
    "required": ["outputs"],
}
UNKNOWN_ID = "00000000-0000-7000-8000-0000000000ff"
NAMED = {"evaluator", "evaluator_variant", "evaluator_revision"}


@pytest.fixture(scope="module")
def tables(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """One database for all tests here: each has its own projects."""
    configured = chdb_settings()
    asyncio.run(migrate(configured, data_dir=chdb_dir))
    return configured


@pytest.fixture
async def two(tables: ClickHouseSettings, chdb_dir: Path, shared_database: Database) -> AsyncIterator[list[Simple]]:
    store = open_store(tables, data_dir=chdb_dir)
    async with simple_clients(store, shared_database, count=2) as clients:
        yield clients
    await store.close()


@pytest.fixture
def api(two: list[Simple]) -> Simple:
    return two[0]


async def annotate(api: Simple, slug: str = "helpful", *, status: int = 200, **members: Any) -> Any:
    """Post an annotation, and store what was published."""
    sent = {"data": DATA, "references": {"evaluator": {"slug": slug}}, "links": LINKS, **members}
    answer = await api.ask("POST", "/annotations/", json={"annotation": sent}, status=status)
    await api.store_published()
    return answer.get("annotation", answer)


async def invoke(api: Simple, references: Any, *, status: int = 200, **members: Any) -> Any:
    sent = {"data": {"outputs": "x"}, "references": references, "links": None, **members}
    answer = await api.ask("POST", "/invocations/", json={"invocation": sent}, status=status)
    await api.store_published()
    return answer.get("invocation", answer)


async def evaluators(api: Simple, slug: str) -> list[Any]:
    found: list[Any] = (await api.ask("POST", "/simple/evaluators/query", json={"evaluator": {"slug": slug}}))[
        "evaluators"
    ]
    return found


async def evaluator(api: Simple, slug: str, outputs: Any) -> Any:
    sent = {"slug": slug, "data": {"schemas": {"outputs": outputs}} if outputs is not None else {}}
    return (await api.ask("POST", "/simple/evaluators/", json={"evaluator": sent}))["evaluator"]


# Evaluators that simple traces make


async def test_feedback_with_a_link_makes_its_evaluator(api: Simple) -> None:
    created = await api.create(data=DATA, references={"evaluator": {"slug": "thumbs"}}, links=LINKS)

    [made] = await evaluators(api, "thumbs")
    assert made["name"] == "thumbs"
    assert made["data"] == {"uri": "agenta:custom:feedback:v0", "schemas": {"outputs": SCHEMA}}
    assert (made["flags"]["is_evaluator"], made["flags"]["is_feedback"]) == (True, True)
    references = created["references"]
    assert references.keys() == NAMED
    assert references["evaluator"] == {"id": made["id"], "slug": "thumbs"}
    assert references["evaluator_variant"]["id"] == made["variant_id"]
    assert (references["evaluator_revision"]["id"], references["evaluator_revision"]["version"]) == (
        made["revision_id"],
        "1",
    )
    stored = (await api.call("GET", f"/{created['trace_id']}"))["trace"]
    assert stored["references"] == references
    applications = await api.ask("POST", "/simple/applications/query", json={})
    assert applications["count"] == 0

    again = await api.create(data={}, references={"evaluator": {"id": made["id"]}}, links=[LINK])
    assert again["references"] == references
    assert len(await evaluators(api, "thumbs")) == 1


@pytest.mark.parametrize(
    "sent", [{"references": {"evaluator": {"slug": "none"}}, "links": {}}, {"references": {}, "links": LINKS}]
)
async def test_feedback_without_a_link_or_a_reference_makes_none(api: Simple, sent: Any) -> None:
    created = await api.create(**sent)

    assert created["references"] == sent["references"]
    assert (await api.ask("POST", "/simple/evaluators/query", json={}))["count"] == 0


async def test_evaluator_without_a_slug_gets_one(api: Simple) -> None:
    created = await api.create(references={"evaluator": {}}, links=LINKS)

    assert len(created["references"]["evaluator"]["slug"]) == 12


async def test_evaluator_with_an_id_of_elsewhere_is_the_one_with_its_slug(api: Simple) -> None:
    named = {"evaluator": {"slug": "moved", "id": UNKNOWN_ID}}
    created = await api.create(references=named, links=LINKS)

    [made] = await evaluators(api, "moved")
    assert created["references"]["evaluator"] == {"id": made["id"], "slug": "moved"}
    assert made["id"] != UNKNOWN_ID


async def test_many_writers_of_one_slug_make_one_evaluator(api: Simple) -> None:
    sent = {"trace": {"data": DATA, "references": {"evaluator": {"slug": "busy"}}, "links": LINKS}}
    answers = await asyncio.gather(
        *(api.call("POST", "/", json=sent, status=202) for _ in range(8)),
        *(api.ask("POST", "/annotations", json={"annotation": sent["trace"]}) for _ in range(8)),
    )

    ids = {str((answer.get("trace") or answer["annotation"])["references"]) for answer in answers}
    assert len(ids) == 1
    assert len(await evaluators(api, "busy")) == 1


async def test_references_that_name_nothing_are_refused(api: Simple) -> None:
    made = await evaluator(api, "known", SCHEMA)
    for references, status in (
        ({"evaluator": {"slug": "known"}, "evaluator_revision": {"version": "7"}}, 404),
        ({"evaluator": {"slug": "new"}, "evaluator_revision": {"id": UNKNOWN_ID}}, 404),
        ({"evaluator": {"id": UNKNOWN_ID}}, 404),
        ({"evaluator": {"slug": "known", "id": UNKNOWN_ID}}, 400),
        ({"evaluator": {"slug": "other", "id": made["id"]}}, 400),
        ({"evaluator": {"slug": "__ag__x"}}, 400),
    ):
        sent = {"trace": {"data": DATA, "references": references, "links": LINKS}}
        await api.call("POST", "/", json=sent, status=status)
    await api.ask("POST", "/evaluators/", json={"evaluator": {"slug": "bare"}})
    bare = {"trace": {"data": DATA, "references": {"evaluator": {"slug": "bare"}}, "links": LINKS}}
    assert "no revision" in (await api.call("POST", "/", json=bare, status=404))["detail"]
    assert api.broker.records("spans") == []


# Annotations


async def test_life_of_an_annotation(api: Simple) -> None:
    """The four calls of the generated client, and the page."""
    created = await annotate(api, origin="human", kind="play", channel="otlp", tags={"a": 1}, meta={"b": 2})

    assert created["references"].keys() == NAMED
    assert (created["origin"], created["kind"], created["channel"]) == ("human", "play", "otlp")
    assert "created_at" not in created
    path = f"/annotations/{created['trace_id']}"
    got = await api.ask("GET", path)
    assert got["count"] == 1
    assert got["annotation"].pop("created_at")
    assert got["annotation"] == created
    span = await api.span(created["trace_id"], created["span_id"])
    assert (span["trace_type"], span["span_name"]) == ("annotation", "helpful")
    assert span["attributes"]["ag"]["flags"] == {
        "is_evaluator": True,
        "is_feedback": True,
        "is_play": True,
        "is_otlp": True,
    }

    changed = {**DATA, "outputs": {**DATA["outputs"], "score": 1}}
    edited = await api.ask("PATCH", path, json={"annotation": {"data": changed}})
    await api.store_published()
    assert (edited["annotation"]["data"], edited["annotation"]["tags"]) == (changed, {"a": 1})
    assert edited["annotation"]["references"] == created["references"]
    for query in (
        {},
        {"annotation": {"references": {"evaluator": {"slug": "helpful"}}, "links": [LINK]}},
        {"annotation": {"origin": "human", "tags": {"a": 1}}},
        {"annotation_links": [{"trace_id": created["trace_id"], "span_id": created["span_id"]}]},
    ):
        page = await api.ask("POST", "/annotations/query", json=query)
        assert [each["trace_id"] for each in page["annotations"]] == [created["trace_id"]], query
    assert (await api.ask("POST", "/annotations/query", json={"annotation": {"origin": "auto"}}))["count"] == 0
    deleted = await api.ask("DELETE", path)
    link = {"trace_id": created["trace_id"], "span_id": created["span_id"]}
    assert deleted == {"count": 1, "annotation_link": link}
    assert await api.ask("DELETE", path) == await api.ask("GET", path) == {"count": 0}
    assert await api.ask("PATCH", path, json={"annotation": {"data": {}}}) == {"count": 0}


async def test_annotation_is_a_simple_trace_and_the_other_way_round(api: Simple) -> None:
    by_annotation = await annotate(api)
    by_trace = await api.create(references={"evaluator": {"slug": "helpful"}}, links=LINKS)
    bare = await api.create(links=LINKS)
    run = await api.create()

    page = await api.ask("POST", "/annotations/query", json={})
    assert {each["trace_id"] for each in page["annotations"]} == {
        each["trace_id"] for each in (by_annotation, by_trace, bare)
    }
    assert (await api.call("GET", f"/{by_annotation['trace_id']}"))["trace"]["data"] == DATA
    for method in ("GET", "DELETE"):
        assert await api.ask(method, f"/annotations/{run['trace_id']}") == {"count": 0}
    assert (await api.call("GET", f"/{run['trace_id']}"))["count"] == 1


async def test_annotation_without_links_makes_an_evaluator_too(api: Simple) -> None:
    created = await annotate(api, "alone", links={})

    assert len(await evaluators(api, "alone")) == 1
    assert (await api.ask("GET", f"/annotations/{created['trace_id']}"))["count"] == 1


async def test_data_must_match_the_schema_of_the_evaluator(api: Simple) -> None:
    await evaluator(api, "strict", SCHEMA)
    before = len(api.broker.records("spans"))
    wrong = {"outputs": {"score": "high", "passed": True, "labels": ["a", 1]}}
    answer = await annotate(api, "strict", data=wrong, status=422)

    place = ["body", "annotation", "data", "outputs"]
    problems = {tuple(problem["loc"]): problem for problem in answer["detail"]}
    assert problems.keys() == {tuple(place), (*place, "score"), (*place, "labels", 1)}
    assert problems[tuple(place)] == {
        "loc": place,
        "msg": '"note" is a required property',
        "type": "value_error.json_schema",
    }
    assert len(api.broker.records("spans")) == before
    created = await annotate(api, "strict")
    path = f"/annotations/{created['trace_id']}"
    refused = await api.ask("PATCH", path, json={"annotation": {"data": wrong}}, status=422)
    assert refused["detail"] == answer["detail"]
    moved = {"data": wrong, "references": {"evaluator": {"slug": "loose"}}}
    edited = (await api.ask("PATCH", path, json={"annotation": moved}))["annotation"]
    assert (edited["references"]["evaluator"]["slug"], edited["references"].keys()) == ("loose", NAMED)


async def test_schema_of_an_evaluator_counts_as_of_the_revision_that_is_named(api: Simple) -> None:
    made = await evaluator(api, "grows", {"type": "object", "required": ["first"]})
    newer = {"id": made["id"], "data": {"schemas": {"outputs": {"type": "object", "required": ["second"]}}}}
    await api.ask("PUT", f"/simple/evaluators/{made['id']}", json={"evaluator": newer})

    await annotate(api, "grows", data={"first": 1}, status=422)
    older = {"evaluator": {"slug": "grows"}, "evaluator_revision": {"version": "1"}}
    created = await annotate(api, data={"first": 1}, references=older)
    assert created["references"]["evaluator_revision"]["version"] == "1"


async def test_evaluator_without_data_says_nothing_about_annotations(api: Simple) -> None:
    made = await evaluator(api, "any", None)
    await annotate(api, "any", data={"whatever": [1]})
    older = {"evaluator": {"slug": "any"}, "evaluator_revision": {"version": "0"}}

    assert made["data"] == {}
    assert "no data" in (await annotate(api, references=older, status=400))["detail"]


@pytest.mark.parametrize(
    "outputs", [{"$ref": "https://example.com/schema"}, {"$ref": "file:///etc/passwd"}, {"$ref": "#/none"}]
)
async def test_schema_that_refers_elsewhere_is_refused(api: Simple, outputs: Any) -> None:
    await evaluator(api, "elsewhere", outputs)

    assert "schemas.outputs cannot be used" in (await annotate(api, "elsewhere", status=400))["detail"]


async def test_what_an_annotation_needs(api: Simple) -> None:
    for missing in ("data", "references", "links"):
        sent = {"data": DATA, "references": {"evaluator": {"slug": "a"}}, "links": LINKS}
        del sent[missing]
        answer = await api.ask("POST", "/annotations", json={"annotation": sent}, status=422)
        assert [problem["loc"] for problem in answer["detail"]] == [["body", "annotation", missing]]
    answer = await annotate(api, references={}, status=422)
    assert [problem["loc"] for problem in answer["detail"]] == [["body", "annotation", "references", "evaluator"]]
    assert (await annotate(api, references={"evaluator": {}}))["references"].keys() == NAMED
    assert "annotation" in (await annotate(api, links=[{"trace_id": "x", "span_id": "y"}], status=400))["detail"]
    answer = await api.ask(
        "POST", "/annotations/query", json={"annotation": {"links": [{"trace_id": "x", "span_id": "y"}]}}, status=400
    )
    assert answer["detail"].startswith("annotation.links[0].trace_id")


# Invocations


async def test_life_of_an_invocation(api: Simple) -> None:
    created = await invoke(api, {"application": {"slug": "bot"}}, origin="human")

    assert created["references"].keys() == {"application", "application_variant", "application_revision"}
    assert created["origin"] == "human"
    application = await api.ask("POST", "/applications/query", json={"application": {"slug": "bot"}})
    assert application["count"] == 1
    path = f"/invocations/{created['trace_id']}"
    assert (await api.ask("GET", path))["invocation"]["data"] == {"outputs": "x"}
    span = await api.span(created["trace_id"], created["span_id"])
    assert (span["trace_type"], span["span_name"]) == ("invocation", "bot")
    page = await api.ask(
        "POST", "/invocations/query", json={"invocation": {"references": {"application": {"slug": "bot"}}}}
    )
    assert [each["trace_id"] for each in page["invocations"]] == [created["trace_id"]]
    edited = await api.ask("PATCH", path, json={"invocation": {"data": {"outputs": "y"}, "tags": {"a": 1}}})
    await api.store_published()
    assert edited["invocation"]["tags"] == {"a": 1}
    assert (await api.ask("DELETE", path))["invocation_link"]["span_id"] == created["span_id"]
    assert await api.ask("GET", path) == {"count": 0}


async def test_only_runs_of_applications_are_invocations(api: Simple) -> None:
    run, annotation = await api.create(), await annotate(api)

    for each in (run, annotation):
        assert await api.ask("GET", f"/invocations/{each['trace_id']}") == {"count": 0}
        assert await api.ask("DELETE", f"/invocations/{each['trace_id']}") == {"count": 0}
    assert (await api.ask("POST", "/invocations/query", json={}))["count"] == 0
    assert "names no application" in (await invoke(api, {}, status=400))["detail"]
    assert "names no application" in (await invoke(api, {"query": {"slug": "q"}}, status=400))["detail"]


async def test_invocation_of_what_is_deployed(api: Simple) -> None:
    sent = {"slug": "bot", "data": {"parameters": {"prompt": "Be brief."}}}
    made = (await api.ask("POST", "/simple/applications/", json={"application": sent}))["application"]
    deployment = {"application_ref": {"slug": "bot"}, "environment_ref": {"slug": "production"}}
    await api.ask("POST", "/applications/revisions/deploy", json=deployment)
    references = {"environment": {"slug": "production"}, "selector": {"key": "bot.revision"}}
    created = await invoke(api, references)

    assert created["references"]["application_revision"]["id"] == made["revision_id"]
    assert created["references"]["environment"]["slug"] == "production"
    assert created["references"]["environment_revision"]["version"] == "2"
    assert created["references"]["selector"] == {"key": "bot.revision"}
    await invoke(api, {**references, "selector": {"key": "none"}}, status=404)
    await invoke(api, {"environment": {"slug": "production"}}, status=400)


# Projects


async def test_projects_do_not_see_each_other(two: list[Simple]) -> None:
    mine, other = two
    created = await annotate(mine, "shared")
    run = await invoke(mine, {"application": {"slug": "bot"}})
    for path in (f"/annotations/{created['trace_id']}", f"/invocations/{run['trace_id']}"):
        for method in ("GET", "DELETE"):
            assert await other.ask(method, path) == {"count": 0}
        one = path.split("/")[1].removesuffix("s")
        assert await other.ask("PATCH", path, json={one: {"data": {}}}) == {"count": 0}
    assert (await other.ask("POST", "/annotations/query", json={}))["count"] == 0
    assert (await other.ask("POST", "/invocations/query", json={}))["count"] == 0
    assert await evaluators(other, "shared") == []
    by_id = {"evaluator": {"id": created["references"]["evaluator"]["id"]}}
    await annotate(other, references=by_id, status=404)
    assert "references" in await annotate(other, "shared", data={"unlike": "it"})
    assert len(await evaluators(mine, "shared")) == 1
    assert (await mine.ask("GET", f"/annotations/{created['trace_id']}"))["count"] == 1
