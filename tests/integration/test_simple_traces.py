"""Simple traces from HTTP to HTTP: published, stored as the worker stores them, found again (reference §1.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from common.clickhouse.connect import open_store
from common.clickhouse.migrate import migrate
from common.kafka.record import Coordinates
from common.postgres.pool import Database
from common.settings import ClickHouseSettings
from query_api.freshness.headers import read_signed_coordinates
from tests.support.simple_traces import Simple, simple_clients

AUTHORIZED = {"Authorization": "key-0"}
UNKNOWN = f"{9:032x}"
INVOCATION = {"trace_id": "a" * 32, "span_id": "b" * 16}
OTHER = {"trace_id": "c" * 32, "span_id": "d" * 16}
EVALUATOR = {"id": "019d952f-5945-71b1-b8cb-d6d8e675c18d", "slug": "helpful"}


@pytest.fixture(scope="module")
def tables(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> ClickHouseSettings:
    """One database for all tests here: each has its own project."""
    configured = chdb_settings()
    asyncio.run(migrate(configured, data_dir=chdb_dir))
    return configured


@pytest.fixture
async def api(tables: ClickHouseSettings, chdb_dir: Path, shared_database: Database) -> AsyncIterator[Simple]:
    store = open_store(tables, data_dir=chdb_dir)
    async with simple_clients(store, shared_database) as [simple]:
        yield simple
    await store.close()


async def test_created_trace_is_returned_unchanged(api: Simple) -> None:
    sent: dict[str, Any] = {
        "origin": "human",
        "kind": "play",
        "channel": "otlp",
        "tags": {"a.b": 1},
        "meta": {"note": None, "by": "ada"},
        "data": {"outputs": {"score": 0.5}, "score": [1]},
        "references": {"evaluator": EVALUATOR, "application": {"slug": "shop"}, "selector": {"key": "x"}},
        "links": {"invocation": INVOCATION},
    }

    created = await api.create(**sent)
    found = await api.call("GET", f"/{created['trace_id']}")

    references = created.pop("references")
    assert references.pop("evaluator")["slug"] == EVALUATOR["slug"]
    assert references.keys() == sent["references"].keys() - {"evaluator"} | {"evaluator_variant", "evaluator_revision"}
    assert {name: created[name] for name in created if name in sent} == {
        name: sent[name] for name in sent if name != "references"
    }
    found["trace"].pop("references")
    assert found["trace"].pop("created_at")
    assert found["trace"] == created


async def test_a_trace_with_links_is_an_annotation(api: Simple) -> None:
    linked, plain = await api.create(links={"invocation": INVOCATION}), await api.create(links=[])

    for trace, trace_type in ((linked, "annotation"), (plain, "invocation")):
        span = await api.span(trace["trace_id"], trace["span_id"])
        assert span["trace_type"] == trace_type
        assert span["span_type"] == "task"


async def test_simple_trace_is_named_after_its_evaluator(api: Simple) -> None:
    names = {
        "helpful": {"evaluator": EVALUATOR},
        "annotation": {"evaluator": {"id": EVALUATOR["id"]}, "query": {"slug": "q"}},
    }

    for name, references in names.items():
        created = await api.create(references=references)
        assert (await api.span(created["trace_id"], created["span_id"]))["span_name"] == name


async def test_write_returns_coordinates(api: Simple) -> None:
    sent: dict[str, Any] = {"trace": {"data": {}, "references": {}, "links": {}}}
    async with api.client.post("/simple/traces/", json=sent, headers=AUTHORIZED) as created:
        trace_id = (await created.json())["trace"]["trace_id"]
    await api.store_published()
    async with api.client.patch(
        f"/simple/traces/{trace_id}", json={"trace": {"data": {}}}, headers=AUTHORIZED
    ) as edited:
        assert edited.status == 200

    of_both = [[Coordinates("spans", record.partition, record.offset)] for record in api.broker.records("spans")]
    signed = [response.headers["X-Clearspan-Coordinates"] for response in (created, edited)]
    read = [read_signed_coordinates(text, project_id=api.project_id, secret=b"secret") for text in signed]
    assert read == of_both


async def test_ids_of_links_are_returned_in_one_spelling(api: Simple) -> None:
    link = {"trace_id": "0x" + "A" * 32, "span_id": "b" * 32}

    created = await api.create(links={"invocation": link})

    assert created["links"] == {"invocation": INVOCATION}
    assert (await api.call("GET", f"/{created['trace_id']}"))["trace"]["links"] == created["links"]


@pytest.mark.parametrize(
    "links", [{}, [], [INVOCATION], [INVOCATION, OTHER], {"a": INVOCATION, "b": OTHER}, {"a": INVOCATION, "key": OTHER}]
)
async def test_links_are_returned_in_the_form_in_which_they_were_sent(api: Simple, links: Any) -> None:
    created = await api.create(links=links)

    found = (await api.call("GET", f"/{created['trace_id']}"))["trace"]["links"]

    assert created["links"] == found == (links or found)
    assert len(found) == len(links)


@pytest.mark.parametrize("names", [[None], [7], ["a", None], ["a", "a"]])
async def test_links_with_equal_names_are_a_list(api: Simple, names: list[Any]) -> None:
    links = [{**link, "attributes": {"key": name}} for link, name in zip((INVOCATION, OTHER), names, strict=False)]

    await api.ingest({"trace_id": UNKNOWN, "span_id": "b" * 16, "links": links})

    assert (await api.call("GET", f"/{UNKNOWN}"))["trace"]["links"] == [INVOCATION, OTHER][: len(names)]


async def test_link_to_an_id_whose_second_half_is_zero_is_returned(api: Simple) -> None:
    created = await api.create(links=[{**INVOCATION, "span_id": "e" * 16 + "0" * 16}])

    found = (await api.call("GET", f"/{created['trace_id']}"))["trace"]

    assert created["links"] == found["links"] == [{**INVOCATION, "span_id": "0" * 16}]


async def test_simple_trace_is_its_root_though_a_child_started_earlier(api: Simple) -> None:
    root, child = (
        {"trace_id": UNKNOWN, "span_id": digit * 16, "start_time": f"2026-01-02T03:04:0{second}Z", **more}
        for digit, second, more in (("1", 5, {}), ("2", 4, {"parent_id": "1" * 16}))
    )
    await api.ingest(child)
    assert (await api.call("GET", f"/{UNKNOWN}"))["trace"]["span_id"] == "2" * 16
    await api.ingest(root)

    shown = [(await api.call("GET", f"/{UNKNOWN}"))["trace"], (await api.call("POST", "/query"))["traces"][0]]
    edited = (await api.call("PATCH", f"/{UNKNOWN}", json={"trace": {"data": {}}}))["trace"]
    deleted = (await api.call("DELETE", f"/{UNKNOWN}"))["link"]

    assert {trace["span_id"] for trace in (*shown, edited, deleted)} == {"1" * 16}


async def test_edit_keeps_other_members_of_the_span(api: Simple) -> None:
    ag = {
        "data": {"outputs": 1, "more": 2},
        "selector": {"key": "x"},
        "references": {"query": {"slug": "q"}},
        "unknown": 3,
        "metrics": {"tokens": {"incremental": {"total": 5}}},
    }
    await api.ingest(
        {
            "trace_id": UNKNOWN,
            "span_id": "b" * 16,
            "span_name": "judge",
            "status_code": "STATUS_CODE_ERROR",
            "links": [INVOCATION],
            "events": [{"name": "e", "timestamp": "2026-01-02T03:04:05Z"}],
            "attributes": {"model": "small", "ag": ag},
        }
    )
    before = await api.span(UNKNOWN, "b" * 16)

    await api.call("PATCH", f"/{UNKNOWN}", json={"trace": {"data": {"outputs": 4}}})
    await api.store_published()

    after = await api.span(UNKNOWN, "b" * 16)
    assert before["attributes"]["ag"].pop("data") == {"outputs": 1}
    assert before["attributes"]["ag"]["unsupported"].pop("data") == {"more": 2}
    assert after["attributes"]["ag"].pop("data") == {"outputs": 4}
    assert after == before


async def test_edit_keeps_members_that_it_does_not_name(api: Simple) -> None:
    created = await api.create(
        origin="human",
        tags={"a": 1},
        meta={"b": 2},
        data={"outputs": 1, "extra": True},
        references={"evaluator": EVALUATOR},
        links={"invocation": INVOCATION},
    )
    path = f"/{created['trace_id']}"

    edited = await api.call("PATCH", path, json={"trace": {"data": {"outputs": 2}, "meta": {"c": 3}}})
    await api.store_published()

    found = (await api.call("GET", path))["trace"]
    assert found.pop("created_at")
    assert edited["trace"] == found
    expected = {**created, "data": {"outputs": 2}, "meta": {"c": 3}}
    assert {name: found[name] for name in expected} == expected


async def test_edit_replaces_members_that_it_names(api: Simple) -> None:
    references = {"evaluator": EVALUATOR, "selector": {"key": "x"}}
    created = await api.create(tags={"a": 1}, references=references, links={"invocation": INVOCATION})
    changes = {"data": {}, "tags": {"b": 2}, "references": {"query": {"slug": "q"}}, "links": []}

    await api.call("PATCH", f"/{created['trace_id']}", json={"trace": changes})
    await api.store_published()

    found = (await api.call("GET", f"/{created['trace_id']}"))["trace"]
    assert found["references"] == {"query": {"slug": "q"}}
    assert not found["links"]
    assert (found["data"], found["tags"]) == ({}, {"b": 2})
    span = await api.span(created["trace_id"], created["span_id"])
    assert span["trace_type"] == "invocation"
    assert [reference["slug"] for reference in span["references"]] == ["q"]


async def test_members_removed_by_an_edit_leave_no_hash(api: Simple) -> None:
    created = await api.create(references={"evaluator": EVALUATOR}, links={"invocation": INVOCATION})
    ids = created["trace_id"], created["span_id"]
    assert "hashes" in await api.span(*ids)

    await api.call("PATCH", f"/{ids[0]}", json={"trace": {"data": {}, "references": {}, "links": {}}})
    await api.store_published()

    assert not {"hashes", "references", "links"} & (await api.span(*ids)).keys()


async def test_edit_reaches_a_span_whose_id_has_128_bits(api: Simple) -> None:
    span = {"trace_id": UNKNOWN, "span_id": f"{1:016x}{2:016x}", "parent_id": f"{3:016x}{4:016x}"}
    await api.ingest(span)

    edited = await api.call("PATCH", f"/{UNKNOWN}", json={"trace": {"data": {"outputs": 1}}})
    await api.store_published()

    assert edited["trace"]["span_id"] == f"{2:016x}"
    of_parent = {"conditions": [{"field": "parent_id", "value": span["parent_id"]}]}
    async with api.client.post("/spans/query", json={"filtering": of_parent}, headers=AUTHORIZED) as response:
        [found] = (await response.json())["spans"]
    assert found["attributes"]["ag"]["data"] == {"outputs": 1}
    assert (await api.call("GET", f"/{UNKNOWN}"))["trace"]["data"] == {"outputs": 1}


async def test_unknown_simple_trace_is_none(api: Simple) -> None:
    assert await api.call("GET", f"/{UNKNOWN}") == {"count": 0}
    assert await api.call("PATCH", f"/{UNKNOWN}", json={"trace": {"data": {}}}) == {"count": 0}
    assert await api.call("DELETE", f"/{UNKNOWN}") == {"count": 0}
    assert await api.call("POST", "/query") == {"count": 0, "traces": []}
    for method in ("GET", "DELETE"):
        assert await api.call(method, "/xyz", status=400) == {"detail": "Invalid trace_id."}


async def test_reference_whose_name_is_not_text_is_kept_but_not_returned(api: Simple) -> None:
    references = [{"slug": "shop", "attributes": {"key": "application"}}, {"slug": "odd", "attributes": {"key": 7}}]
    span = {"trace_id": UNKNOWN, "span_id": "b" * 16, "references": references}
    await api.ingest(span)

    assert (await api.call("GET", f"/{UNKNOWN}"))["trace"]["references"] == {"application": {"slug": "shop"}}
    await api.call("PATCH", f"/{UNKNOWN}", json={"trace": {"data": {}}})
    await api.store_published()
    assert (await api.span(UNKNOWN, "b" * 16))["references"] == references


async def test_deleted_trace_is_not_returned(api: Simple) -> None:
    created = await api.create()
    path = f"/{created['trace_id']}"

    deleted = await api.call("DELETE", path)

    assert deleted == {"count": 1, "link": {"trace_id": created["trace_id"], "span_id": created["span_id"]}}
    assert await api.call("DELETE", path) == {"count": 0}
    assert await api.call("GET", path) == {"count": 0}


@pytest.mark.parametrize("missing", ["data", "references", "links"])
async def test_missing_required_member_is_422(api: Simple, missing: str) -> None:
    trace: dict[str, Any] = {"data": {}, "references": {}, "links": {}}
    del trace[missing]

    refused = await api.call("POST", "/", json={"trace": trace}, status=422)

    assert refused["detail"][0]["loc"] == ["body", "trace", missing]


@pytest.mark.parametrize(
    "trace", [{"origin": "me"}, {"kind": "x"}, {"channel": "x"}, {"data": []}, {"links": {"a": {}}}]
)
async def test_wrong_shape_of_a_simple_trace_is_422(api: Simple, trace: dict[str, Any]) -> None:
    sent = {"data": {}, "references": {}, "links": {}, **trace}

    await api.call("POST", "/", json={"trace": sent}, status=422)


async def test_invalid_link_is_rejected_and_nothing_is_published(api: Simple) -> None:
    sent = {"data": {}, "references": {}, "links": {"a": {"trace_id": "x", "span_id": "y"}}}

    await api.call("POST", "/", json={"trace": sent}, status=400)

    assert not list(api.broker.records("spans"))


async def test_filter_by_origin_kind_and_channel(api: Simple) -> None:
    values = {
        "origin": ("custom", "human", "auto"),
        "kind": ("adhoc", "eval", "play"),
        "channel": ("otlp", "web", "sdk", "api"),
    }
    made = {(name, value): await api.create(**{name: value}) for name, allowed in values.items() for value in allowed}

    for name, allowed in values.items():
        for value in allowed:
            found = await api.ids(trace={name: value})
            assert found == {trace["trace_id"] for trace in made.values() if trace[name] == value}


async def test_filter_by_tags_meta_references_and_links(api: Simple) -> None:
    one = await api.create(tags={"a.b": 1, "c": "x"}, meta={"m": {"n": 1, "o": 2}}, references={"evaluator": EVALUATOR})
    also = {**OTHER, "span_id": "e" * 16}
    links = {"invocation": INVOCATION, "also": also}
    two = await api.create(tags={"c": "x"}, references={"application": EVALUATOR}, links=links)
    three = await api.create(references={"selector": {"key": "x"}}, links=[INVOCATION, OTHER])
    names = {one["trace_id"]: 1, two["trace_id"]: 2, three["trace_id"]: 3}

    async def found(**trace: Any) -> set[int]:
        return {names[trace_id] for trace_id in await api.ids(trace=trace)}

    assert await found(tags={"c": "x"}) == {1, 2}
    assert await found(tags={"a.b": 1}) == {1}
    assert await found(tags={}, meta={}, references={}, links={}) == {1, 2, 3}
    assert await found(meta={"m": {"n": 1}}) == {1}
    assert await found(references={"evaluator": {"slug": "helpful"}}) == {1}
    assert await found(references={"application": {"id": EVALUATOR["id"]}}) == {2}
    assert await found(references={"selector": {"key": "x"}}) == {3}
    assert await found(links={"invocation": INVOCATION}) == await found(links=links) == {2}
    assert await found(links={"invocation": INVOCATION, "also": OTHER}) == set()
    assert await found(links=[]) == set()
    assert await found(links=[INVOCATION]) == {2, 3}
    assert await found(links=[OTHER, {**OTHER, "span_id": "1" * 16}]) == {3}
    by_identity = [{"trace_id": one["trace_id"], "span_id": "1" * 16}]
    assert await api.ids(links=by_identity) == {one["trace_id"]}
    assert await api.ids(links=[]) == set()
    assert await api.ids(links=by_identity, trace={"links": [OTHER]}) == set()


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ({"links": [INVOCATION, {**INVOCATION, "trace_id": "xyz"}]}, "links[1].trace_id"),
        ({"trace": {"links": [{**INVOCATION, "trace_id": "xyz"}]}}, "trace.links[0].trace_id"),
        ({"trace": {"links": {"invocation": {**INVOCATION, "span_id": "xyz"}}}}, "trace.links.invocation.span_id"),
    ],
)
async def test_invalid_id_is_rejected_with_its_path(api: Simple, question: dict[str, Any], place: str) -> None:
    refused = await api.call("POST", "/query", json=question, status=400)

    assert refused["detail"].startswith(f"{place}: “xyz” is not a ")


@pytest.mark.parametrize(
    ("question", "refusal"),
    [
        ({"links": [INVOCATION] * 10_001}, "links: the list has 10001 values; "),
        ({"trace": {"origin": "auto", "tags": {"n": 2**64}}}, "trace.tags: the integer does not fit into 64 bits."),
        ({"trace": {"tags": {"a": 1}, "meta": {"a": "x" * 65_536}}}, "trace.meta: the value has "),
        ({"trace": {"references": {"query": {"version": "x" * 65_536}}}}, "trace.references.query: the value has "),
        ({"trace": {"references": {"selector": {"a": "x" * 65_536}}}}, "trace.references.selector: the value has "),
        ({"trace": {"links": [INVOCATION] * 10_001}}, "trace.links: the list has 10001 values; "),
        ({"trace": {"links": {f"l{n}": INVOCATION for n in range(257)}}}, "trace.links.l256: more than 256 conditions"),
    ],
)
async def test_value_that_no_filter_can_hold_is_rejected_with_its_path(
    api: Simple, question: dict[str, Any], refusal: str
) -> None:
    refused = await api.call("POST", "/query", json=question, status=400)

    assert refused["detail"].startswith(refusal)


async def test_simple_traces_have_no_feed(api: Simple) -> None:
    refused = await api.call("POST", "/query", json={"windowing": {"by": "created_at"}}, status=400)

    assert refused["detail"].startswith("windowing.by: ")


async def test_simple_traces_are_returned_in_pages(api: Simple) -> None:
    made = [(await api.create())["trace_id"] for _ in range(3)]

    first = await api.call("POST", "/query", json={"windowing": {"limit": 2}})
    rest = await api.call("POST", "/query", json={"windowing": {"limit": 2, **first["windowing"]}})

    assert [trace["trace_id"] for page in (first, rest) for trace in page["traces"]] == made[::-1]
    assert (first["count"], rest["count"]) == (2, 1)
    assert "windowing" not in rest
