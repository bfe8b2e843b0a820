"""Attributes of which the key of one continues that of another: every key that was sent finds its value (issue 38)."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import orjson
import pytest
import pytest_asyncio

from common.clickhouse.span_columns import SPANS_TABLE, stamped
from common.clickhouse.store import ColumnStore
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Record
from common.limits import SpanLimits
from common.settings import ClickHouseSettings, Encoding, TopicSettings
from common.times import SystemClock
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, decode_chunk
from tests.support.api import KnownKeys, context_of, serving
from tests.support.span_corpus import START_NS, STORED_US
from tests.support.stores import opened_store

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACE_ID = "0af7651916cd43dd8448eb211c803105"
SENT = {
    "with prefixes": {
        "error": True,
        "error.type": "TimeoutError",
        "code.function.name": "app.run",
        "code.function": "run",
        "agno.agent": "weather",
        "agno.agent.id": "w1",
        "amount": "much",
        "amount.total": 5,
        "tags": "none",
        "tags.all": ["new", "red"],
    },
    "alone": {
        "error.type": "TimeoutError",
        "code.function.name": "app.run",
        "agno.agent.id": "w1",
        "amount.total": 6,
        "tags.all": ["red", "new"],
    },
}
RESOURCES = {
    "with prefixes": {"service": "all", "service.name": "shop", "host": "h", "host.name": "node-1"},
    "alone": {"service.name": "shop", "host.name": "node-1"},
}
NAMES = set(SENT)
PROJECTS = {"sent": UUID(int=0xA), "again": UUID(int=0xB)}


def otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": list(map(otlp_value, value))}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def otlp_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": otlp_value(value)} for key, value in attributes.items()]


def otlp_request() -> bytes:
    spans = [
        {
            "resource": {"attributes": otlp_attributes(RESOURCES[name])},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": TRACE_ID,
                            "spanId": f"{number:016x}",
                            "name": name,
                            "startTimeUnixNano": str(START_NS + number),
                            "endTimeUnixNano": str(START_NS + number),
                            "attributes": otlp_attributes(attributes),
                        }
                    ]
                }
            ],
        }
        for number, (name, attributes) in enumerate(SENT.items(), 1)
    ]
    return orjson.dumps({"resourceSpans": spans})


class Stored:
    """The API over the spans of one project; the name of the project is its key."""

    def __init__(self, client: aiohttp.ClientSession, project: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"ApiKey {project}"}

    async def post(self, path: str, body: Any) -> Any:
        async with self._client.post(path, json=body, headers=self._headers) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def get(self, path: str, **parameters: str) -> str:
        async with self._client.get(path, params=parameters, headers=self._headers) as response:
            assert response.status == 200, await response.text()
            return await response.text()

    async def spans(self, *conditions: dict[str, Any]) -> list[dict[str, Any]]:
        spans: list[dict[str, Any]] = (
            await self.post("/spans/query", {"filtering": {"conditions": list(conditions)}})
        ).get("spans", [])
        return spans

    async def names(self, key: str, operator: str, value: Any = None, field: str = "attributes") -> set[str]:
        spans = await self.spans({"field": field, "key": key, "operator": operator, "value": value})
        return {span["span_name"] for span in spans}


async def store_value(store: ColumnStore, value: bytes, encoding: Encoding, project: str) -> None:
    """Decode the value of a record and store its spans."""
    record = Record(project, 0, 0, 5, None, value)
    topics = {project: TopicSettings(encoding=encoding, project_id=PROJECTS[project])}
    chunk = Chunk([record], {record.source: f"cluster/{project}/0"}, START_NS)
    decoded = decode_chunk(chunk, Rules(topics, SpanLimits(), DEFAULT_PROJECT_ID))
    assert [outcome.rejections for outcome in decoded.outcomes if outcome.rejections] == []
    rows = stamped(decoded.rows, stored_us=STORED_US)
    await store.insert(SPANS_TABLE, rows, dedup_token=project, deadline_s=60.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def apis(chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]) -> AsyncIterator[dict[str, Stored]]:
    """The spans as they were sent, and the response with them published as spans of another project."""
    async with opened_store(chdb_settings(), data_dir=chdb_dir) as store:
        await store_value(store, otlp_request(), Encoding.OTLP_JSON, "sent")
        async with serving(context_of(store=store, clock=SystemClock(), keys=KnownKeys(PROJECTS))) as client:
            sent = Stored(client, "sent")
            response = orjson.dumps(await sent.post("/spans/query", {}))
            await store_value(store, response, Encoding.SPAN_JSON, "again")
            yield {"sent": sent, "again": Stored(client, "again")}


@pytest.fixture(params=PROJECTS)
def api(request: pytest.FixtureRequest, apis: dict[str, Stored]) -> Stored:
    """The API over the spans of one of the projects."""
    return apis[request.param]


async def test_responses_show_the_rest_of_a_key_with_its_dots(api: Stored) -> None:
    [span] = await api.spans({"field": "span_name", "value": "with prefixes"})

    assert span["attributes"]["code"] == {"function": "run", "function.name": "app.run"}
    assert span["attributes"]["error.type"] == "TimeoutError"
    assert span["resource"]["attributes"]["host.name"] == "node-1"


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("error.type", "exists", None),
        ("error.type", "is", "TimeoutError"),
        ("error.type", "in", ["TimeoutError", "x"]),
        ("error.type", "matches", "^Time"),
        ("code.function.name", "exists", None),
        ("code.function.name", "contains", "RUN"),
        ("code", "exists", None),
        ("agno.agent.id", "is", "w1"),
        ("amount.total", "gte", 5),
        ("tags.all", "is", ["new"]),
        ("tags.all", "in", ["new"]),
        ("tags.all", "has", "red"),
        ("tags.all.0", "in", ["new", "red"]),
        ("nowhere", "not_exists", None),
    ],
)
async def test_filter_finds_the_key_that_was_sent(api: Stored, key: str, operator: str, value: Any) -> None:
    assert await api.names(key, operator, value) == NAMES


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [("error", "is", True), ("code.function", "is", "run"), ("agno.agent", "startswith", "w"), ("tags", "is", "none")],
)
async def test_filter_finds_the_prefix(api: Stored, key: str, operator: str, value: Any) -> None:
    assert await api.names(key, operator, value) == {"with prefixes"}


@pytest.mark.parametrize(
    ("key", "operator", "value"),
    [
        ("host.name", "exists", None),
        ("host.name", "is", "node-1"),
        ("host.name", "in", ["node-1"]),
        ("host.name", "endswith", "-1"),
        ("attributes.host.name", "eq", "node-1"),
        ("service.name", "is", "shop"),
        ("service.name", "in", ["shop", 5]),
        ("service.name", "contains", "SHO"),
    ],
)
async def test_filter_finds_the_key_of_a_resource(api: Stored, key: str, operator: str, value: Any) -> None:
    assert await api.names(key, operator, value, field="resource") == NAMES


@pytest.mark.parametrize(
    ("field", "key", "value"),
    [
        ("attributes", "error.type", "TimeoutError"),
        ("attributes", "code.function.name", "app.run"),
        ("resource", "host.name", "node-1"),
        ("resource", "service.name", "shop"),
    ],
)
async def test_groups_and_facets_count_both_spans(api: Stored, field: str, key: str, value: str) -> None:
    groups = await api.post("/spans/groups/query", {"group_by": [{"field": field, "key": key}]})
    facets = await api.post("/spans/facets/query", {"keys": [{"field": field, "key": key}]})

    assert [(*group["by"].values(), group["values"]["count"]) for group in groups["groups"]] == [(value, 2)]
    assert facets["facets"] == [{"field": field, "key": key, "values": [{"value": value, "count": 2}]}]


async def test_paths_are_the_keys_that_were_sent(api: Stored) -> None:
    facets = (await api.post("/spans/facets/query", {}))["facets"]

    listed = {facet["path"]: facet["count"] for facet in facets if not facet["path"].startswith("ag.")}
    expected = {key: sum(key in attributes for attributes in SENT.values()) for key in SENT["with prefixes"]}
    assert listed == expected


async def test_spans_are_ranked_and_exported_by_the_key(api: Stored) -> None:
    ranked = await api.post("/spans/query", {"windowing": {"sort": {"by": "amount.total"}}})
    columns = ",".join(("span_name", "attributes.amount.total", "attributes.tags.all", "service"))
    exported = await api.get("/spans/export", format="csv", columns=columns)

    assert [span["span_name"] for span in ranked["spans"]] == ["alone", "with prefixes"]
    header, *lines = csv.reader(exported.splitlines())
    assert header == columns.split(",")
    assert sorted(lines) == [
        ["alone", "6", '["red","new"]', "shop"],
        ["with prefixes", "5", '["new","red"]', "shop"],
    ]
