"""Facets over the real engine and over HTTP: against a client that reads all spans, and what they say when they read a
sample."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio

from common.clickhouse.connect import open_store
from common.clickhouse.leaves import ALWAYS_OBJECT_PATHS, HIDDEN, SpanLeaves, Templates, typed_text
from common.clickhouse.migrate import migrate
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID, span_id_hex, trace_id_hex
from common.paths import value_at
from common.settings import ClickHouseSettings
from common.times import SystemClock, format_us
from query_api.analytics.facets import ARRAYS_MAX, VALUE_BYTES_MAX
from query_api.filter.language import FIELDS, SHORTHANDS, Kind
from query_api.filter.matches import score_value, shorthand_value
from query_api.request.limits import Limits
from tests.support.api import KnownKeys, context_of, serving
from tests.support.span_corpus import OTHER_PROJECT_ID, START_NS, STORED_US, random_span, store_record

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = {"own": DEFAULT_PROJECT_ID, "other": OTHER_PROJECT_ID}
SECRET: Final = "only.elsewhere"
START_US = START_NS // 1000
TYPES = {"s": "string", "n": "number", "b": "boolean", "a": "array", "o": "object"}
WINDOWS: list[dict[str, Any]] = [
    {},
    {"oldest": format_us(START_US + 1_000_000)},
    {"newest": format_us(START_US + 3_000_000)},
    {"oldest": format_us(START_US + 1_000_000), "newest": format_us(START_US + 2_000_000)},
    {"oldest": format_us(START_US + 10**9)},
]
CONDITIONS: list[dict[str, Any]] = [
    {"field": "status_code", "value": "STATUS_CODE_ERROR"},
    {"field": "attributes", "key": "a", "operator": "exists"},
    {"field": "span_name", "operator": "contains", "value": "a"},
    {"field": "trace_id", "operator": "in", "value": [f"{number:02x}" * 16 for number in range(1, 9)]},
    {"field": "duration", "operator": "gt", "value": 1},
]
WITHOUT_VALUE = (Kind.JSON, Kind.SCORES, Kind.ELEMENTS, Kind.CONTENT)
FIELD_KEYS = [name for name, field in FIELDS.items() if field.kind not in WITHOUT_VALUE]
PATH_KEYS = [
    {"field": "resource", "key": "service.name"},
    {"field": "resource", "key": "a"},
    {"field": "scope", "key": "name"},
    {"field": "scores", "key": "a"},
    {"field": "scores", "key": "a.b"},
    *({"field": "attributes", "key": path} for path in ("a", "b", "a.b", "a.0", "é", "", "ag.type.span", "x y.a")),
    "a",
    "attributes.b",
    "ag.metrics.tokens.incremental.total",
]


class Facets:
    """The API over HTTP, and its store."""

    def __init__(self, client: aiohttp.ClientSession, store: ColumnStore) -> None:
        self.client = client
        self.store = store

    async def post(self, path: str, body: Any, *, key: str = "own", status: int = 200) -> Any:
        async with self.client.post(path, json=body, headers={"Authorization": f"ApiKey {key}"}) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def query(self, *, of: str = "own", status: int = 200, **body: Any) -> Any:
        return await self.post("/spans/facets/query", body, key=of, status=status)

    async def spans(self, **body: Any) -> list[dict[str, Any]]:
        windowing = {**body.pop("windowing", {}), "limit": 10_000}
        spans: list[dict[str, Any]] = (await self.post("/spans/query", {**body, "windowing": windowing}))["spans"]
        return spans


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[Facets]:
    """Spans of two projects: some sent again, changed and moved in time, some in another partition, some deleted, some
    twice.
    """
    configured = chdb_settings()
    await migrate(configured, data_dir=chdb_dir)
    store = open_store(configured, data_dir=chdb_dir)
    source = random.Random(5)
    first = [random_span(source, number) for number in range(400)]
    for _ in range(2):  # in one microsecond: which of the two times a span shows is not said
        await store_record(store, first, offset=1, stored_us=STORED_US)
    await store_record(store, [random_span(source, number) for number in source.sample(range(400), 90)], offset=2)
    other_partition = [random_span(source, number) for number in source.sample(range(400), 90)]
    await store_record(store, other_partition, partition_id="cluster/spans/1", offset=1, record_ms=2)
    elsewhere = [random_span(source, number) for number in range(50)]
    for span in elsewhere:
        span.attributes[SECRET] = SECRET
    await store_record(store, elsewhere, offset=9, project_id=OTHER_PROJECT_ID)
    async with serving(context_of(store=store, clock=SystemClock(), keys=KnownKeys(KEYS))) as client:
        api = Facets(client, store)
        for number in (3, 4):
            trace_id = trace_id_hex(bytes([number]) * 16)
            async with client.delete(f"/traces/{trace_id}", headers={"Authorization": "ApiKey own"}) as response:
                assert response.status == 202
        yield api
    await store.close()


def types_by_path(attributes: dict[str, Any]) -> dict[str, str]:
    """The rule of the docs: below an array, or an object with a member ``0``, nothing is listed."""
    leaves = SpanLeaves()
    leaves.append(attributes)
    paths = Templates().of(attributes.copy, leaves, None).stored_paths or leaves.paths
    letters = {path: text[0] for path, text in zip(paths, leaves.texts, strict=True) if not path.endswith(HIDDEN)}
    firsts = filter(None, (re.match(r"(.+?)\.0(?:\.|$)", path, re.DOTALL) for path in paths))
    arrays = {first[1] for first in firsts} - set(paths)
    types = {**{path: TYPES[letter] for path, letter in letters.items()}, **dict.fromkeys(arrays, "array")}
    return {
        path: kind
        for path, kind in types.items()
        if not any(path.startswith(f"{array}.") for array in arrays)
        and path not in ALWAYS_OBJECT_PATHS
        and not is_sum(path)
    }


def is_sum(path: str) -> bool:
    [*above, last] = (path.split(".") + [""] * 4)[:4]
    return above[:2] == ["ag", "metrics"] and above[2] != "duration" and last == "cumulative"


def expected_paths(spans: list[dict[str, Any]]) -> dict[str, tuple[set[str], int]]:
    types, counts = defaultdict(set), Counter[str]()
    for span in spans:
        for path, kind in types_by_path(span["attributes"]).items():
            types[path].add(kind)
            counts[path] += 1
    return {path: (types[path], count) for path, count in counts.items()}


def value_of_key(key: Any, span: dict[str, Any]) -> Any:
    if isinstance(key, str) and key in SHORTHANDS:
        return shorthand_value(key, span)
    if isinstance(key, str) and key in FIELDS:
        return span.get(key)
    if isinstance(key, str):
        key = {"field": "attributes", "key": key.removeprefix("attributes.")}
    if key["field"] == "scores":
        return score_value(span.get("scores", []), key["key"])
    holder = span.get(key["field"])
    if key["field"] != "attributes" and key["key"] != "name":
        return value_at(holder, ["attributes", *key["key"].split(".")])
    return value_at(holder, key["key"].split("."))


def expected_values(key: Any, spans: list[dict[str, Any]]) -> Counter[str]:
    values = (value_of_key(key, span) for span in spans)
    return Counter(typed_text(value) for value in values if value is not None and not isinstance(value, dict | list))


def drawn(source: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {"windowing": source.choice(WINDOWS)}
    if source.random() < 0.7:
        conditions = source.sample(CONDITIONS, source.randrange(1, 3))
        body["filtering"] = {"operator": source.choice(("and", "or", "nand")), "conditions": conditions}
    return body


async def test_names_of_scores_are_those_that_a_client_counts(api: Facets) -> None:
    source = random.Random(13)
    for body in ({}, *(drawn(source) for _ in range(4))):
        spans = await api.spans(**body)
        names = Counter(name for span in spans for name in {score["name"] for score in span.get("scores", [])})

        response = await api.query(**body)

        assert [(each["name"], each["count"]) for each in response.get("scores", [])] == sorted(
            names.items(), key=lambda item: (-item[1], item[0].encode())
        )


async def test_paths_are_those_that_a_client_counts(api: Facets) -> None:
    source = random.Random(11)
    for body in ({}, *(drawn(source) for _ in range(6))):
        expected = expected_paths(await api.spans(**body))

        response = await api.query(**body, limit=1_000)

        facets = [facet for facet in response["facets"] if not is_sum(facet["path"])]
        assert {facet["path"]: (set(facet["types"]), facet["count"]) for facet in facets} == expected
        assert response["count"] == len(response["facets"])
        assert response["facets"] == sorted(
            response["facets"], key=lambda each: (-each["count"], each["path"].encode())
        )
        assert "sampled" not in response


async def test_values_are_those_that_a_client_counts(api: Facets) -> None:
    source = random.Random(12)
    bodies = ({}, *(drawn(source) for _ in range(6)))
    for number, body in enumerate(bodies):
        spans = await api.spans(**body)
        every = [*FIELD_KEYS, *PATH_KEYS]
        for keys in (
            (every[at : at + 16] for at in range(0, len(every), 16)) if number < 2 else [source.sample(every, 5)]
        ):
            limit = source.choice((2, 1_000))
            response = await api.query(**body, keys=keys, limit=limit)
            for key, facet in zip(keys, response["facets"], strict=True):
                check_values(facet, expected_values(key, spans), limit=limit)


def check_values(facet: dict[str, Any], expected: Counter[str], *, limit: int) -> None:
    listed = {typed_text(each["value"]): each["count"] for each in facet["values"]}
    ordered = sorted(expected.items(), key=lambda item: (-item[1], item[0].encode()))
    assert listed == dict(ordered[:limit]), facet
    assert facet.get("others", 0) == expected.total() - sum(listed.values())


@asynccontextmanager
async def limited(api: Facets, **limits: Any) -> AsyncIterator[Facets]:
    """The same store behind an API with smaller limits."""
    context = context_of(store=api.store, clock=SystemClock(), keys=KnownKeys(KEYS), limits=Limits(**limits))
    async with serving(context) as client:
        yield Facets(client, api.store)


@pytest.mark.parametrize("filtering", [None, {"conditions": [CONDITIONS[0]]}])
async def test_sample_is_the_newest_spans(api: Facets, filtering: Any) -> None:
    small_sample = 40
    spans = await api.spans(filtering=filtering)

    async with limited(api, sample_spans=small_sample) as limited_api:
        paths = await limited_api.query(filtering=filtering, limit=1_000)
        values = await limited_api.query(filtering=filtering, keys=["span_id"], limit=1_000)

    examined = {each["value"] for each in values["facets"][0]["values"]}
    assert examined == {span["span_id"] for span in spans[: len(examined)]}
    assert small_sample / 4 < len(examined) <= small_sample  # other versions are in the sample, too
    expected = expected_paths(spans[: len(examined)])
    found = {facet["path"]: facet["count"] for facet in paths["facets"] if not is_sum(facet["path"])}
    assert found == {path: count for path, (_, count) in expected.items()}
    assert paths["sampled"] == values["sampled"]
    assert paths["sampled"]["examined"] == small_sample
    assert paths["sampled"]["of"] >= len(spans)


async def test_sample_ends_after_so_many_bytes(api: Facets) -> None:
    async with limited(api, sample_bytes=1) as limited_api:
        response = await limited_api.query(keys=["span_id"])

    assert response["sampled"]["examined"] == 1


async def test_sample_without_time_to_count_does_not_say_of_how_many(api: Facets) -> None:
    async with limited(api, sample_spans=40, sample_count_s=1e-6) as limited_api:
        response = await limited_api.query()

    assert response["sampled"] == {"examined": 40}


async def test_path_and_value_of_another_project_never_occur(api: Facets) -> None:
    own = [await api.query(limit=1_000), await api.query(keys=[SECRET])]
    other = [await api.query(of="other", limit=1_000), await api.query(of="other", keys=[SECRET])]

    assert SECRET not in str([own[0], own[1]["facets"][0]["values"]])
    assert SECRET in {facet["path"] for facet in other[0]["facets"]}
    assert other[1]["facets"][0]["values"] == [{"value": SECRET, "count": 50}]


async def test_long_values_are_counted_and_not_listed(api: Facets) -> None:
    source = random.Random(1)
    texts = ["é" * (VALUE_BYTES_MAX // 2), "x" * (VALUE_BYTES_MAX + 1), "y" * 1_000_000, "short"]
    spans = [random_span(source, 1_000 + number) for number in range(len(texts))]
    for span, text in zip(spans, texts, strict=True):
        span.attributes["long.text"] = text
    await store_record(api.store, spans, offset=20)

    response = await api.query(keys=["long.text"])

    [facet] = response["facets"]
    assert facet["key"] == "long.text"
    assert {each["value"] for each in facet["values"]} == {texts[0], texts[3]}
    assert facet["others"] == 2


async def test_span_with_thousands_of_arrays_is_answered(api: Facets) -> None:
    messages = [{"role": "user", "parts": [{"text": "x"}]} for _ in range(3_000)]
    crowd = {f"a{number}": [1] for number in range(3_000)}
    span = random_span(random.Random(1), 3_000)._replace(name="many arrays")
    await store_record(api.store, [span._replace(attributes={"messages": messages, "z": crowd})], offset=40)

    response = await api.query(filtering={"conditions": [{"field": "span_name", "value": "many arrays"}]}, limit=1_000)

    paths = {facet["path"]: facet["types"] for facet in response["facets"]}
    assert paths["messages"] == ["array"]
    assert [path for path in paths if path.startswith("messages.")] == []
    assert sum(kinds == ["array"] for kinds in paths.values()) == ARRAYS_MAX


async def test_bounds_may_be_relative(api: Facets) -> None:
    now_ns = SystemClock().now_ns()
    span = random_span(random.Random(1), 2_000)._replace(start_ns=now_ns - 10**9, end_ns=now_ns)
    await store_record(api.store, [span], offset=30)

    response = await api.query(windowing={"oldest": "-1h", "newest": "now"}, keys=["span_id"], limit=50)

    assert response["facets"][0]["values"] == [{"value": span_id_hex(span.span_id), "count": 1}]


async def test_facets_of_the_page_are_answered(api: Facets) -> None:
    for keys in (
        ["span_name"],
        ["start_time"],
        [{"field": "attributes", "key": "a.b"}],
        [{"field": "scope", "key": ""}],
    ):
        response = await api.query(windowing={}, keys=keys, limit=50)
        assert response["facets"][0]["values"] is not None
    assert (await api.query(windowing={}, limit=500))["facets"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"keys": ["links"]}, "keys[0].field: 'links' has no single value"),
    ({"keys": ["span_name", {"field": "nowhere"}]}, "keys[1].field: 'nowhere' is not a field"),
    ({"keys": ["attributes"]}, "keys[0].key: 'attributes' key is required"),
    ({"keys": [{"field": "span_name", "key": "a"}]}, "keys[0].key: 'span_name' has no keys"),
    ({"keys": ["ag.metrics.tokens.cumulative.total"]}, "keys[0].key: 'ag.metrics.tokens.cumulative.total' is a sum"),
    ({"filtering": {"conditions": [{"field": "nowhere"}]}}, "filtering.conditions[0].field"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
async def test_impossible_request_is_refused_with_its_place(api: Facets, body: dict[str, Any], message: str) -> None:
    response = await api.query(**body, status=400)

    assert response["detail"].startswith(message)


INVALID: list[tuple[dict[str, Any], list[str | int]]] = [
    ({"limit": 0}, ["body", "limit"]),
    ({"limit": 1_001}, ["body", "limit"]),
    ({"limit": True}, ["body", "limit"]),
    ({"keys": []}, ["body", "keys"]),
    ({"keys": ["a"] * 17}, ["body", "keys"]),
    ({"keys": [{"field": "span_name", "path": "a"}]}, ["body", "keys", 0, "path"]),
    ({"windowing": {"limit": 5}}, ["body", "windowing", "limit"]),
    ({"key": "a"}, ["body", "key"]),
]


@pytest.mark.parametrize(("body", "place"), INVALID)
async def test_invalid_request_is_refused_with_its_place(
    api: Facets, body: dict[str, Any], place: list[str | int]
) -> None:
    response = await api.query(**body, status=422)

    assert response["detail"][0]["loc"] == place


async def test_explanation_holds_the_statements(api: Facets) -> None:
    response = await api.query(explain=True, keys=["a"])

    assert [statement["step"] for statement in response["explain"]["statements"]] == ["candidates", "values"]
