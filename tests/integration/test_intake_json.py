"""Spans as JSON over HTTP: the responses, and what is then in Kafka (contract §4, reference §4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from common.codec import span_json
from common.errors import Unavailable
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import CONTENT_TYPES, Coordinates
from common.limits import SpanLimits
from common.settings import Encoding
from common.span import Span
from query_api.freshness.headers import read_signed_coordinates
from query_api.intake.records import partition_of
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving

TRACE_A, TRACE_B = "a" * 32, "b" * 32
NOW_NS = ManualClock().now_ns()
READ_LATER_NS = NOW_NS + 60_000_000_000
PARTITIONS_COUNT = 2


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
async def client(broker: MemoryBroker) -> AsyncIterator[aiohttp.ClientSession]:
    async with serving(context_of(broker=broker)) as client:
        yield client


def _span(number: int, *, trace_id: str = TRACE_A, **members: Any) -> dict[str, Any]:
    return {"trace_id": trace_id, "span_id": f"{number:016x}", "start_time": 1_750_000_000, **members}


def _tree(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"spans": {str(index): span for index, span in enumerate(spans)}}


def _published(broker: MemoryBroker) -> dict[str, list[Span]]:
    """Return the spans of each trace, by its id; each record holds traces of its partition, the first as its key."""
    found: dict[str, list[Span]] = {}
    for record in broker.records("spans"):
        assert record.key is not None
        assert record.value is not None
        assert record.header("project-id") == str(DEFAULT_PROJECT_ID).encode()
        assert record.header("content-type") == CONTENT_TYPES[Encoding.SPAN_JSON].encode()
        decoded = span_json.decode(record.value, limits=SpanLimits(), now_ns=READ_LATER_NS)
        assert not decoded.rejections.in_full
        assert record.key == decoded.spans[0].trace_id
        assert {partition_of(span.trace_id, PARTITIONS_COUNT) for span in decoded.spans} == {record.partition}
        for span in decoded.spans:
            found.setdefault(span.trace_id.hex(), []).append(span)
    return found


def _numbers(broker: MemoryBroker, trace_id: str = TRACE_A) -> list[int]:
    return [int(span.span_id[8:].hex(), 16) for span in _published(broker)[trace_id]]


async def test_spans_are_published_as_one_record_a_partition(
    client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    spans = [_span(1), _span(2, trace_id=TRACE_B), _span(3)]

    response = await client.post("/tracing/spans/ingest", json={"spans": spans})

    assert response.status == 202
    assert await response.json() == {
        "count": 3,
        "links": [{"trace_id": span["trace_id"], "span_id": span["span_id"]} for span in spans],
    }
    assert (_numbers(broker), _numbers(broker, TRACE_B)) == ([1, 3], [2])
    of_traces = {partition_of(bytes.fromhex(trace_id), PARTITIONS_COUNT) for trace_id in (TRACE_A, TRACE_B)}
    assert [record.partition for record in broker.records("spans")] == sorted(of_traces)
    signed = response.headers["X-Clearspan-Coordinates"]
    where = read_signed_coordinates(signed, project_id=DEFAULT_PROJECT_ID, secret=b"secret")
    assert where == [Coordinates("spans", record.partition, record.offset) for record in broker.records("spans")]


async def test_every_sent_member_is_published(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    span = _span(
        1,
        attributes={"big": 2**63 - 1, "null": None, "a.b": [1, {"c": 2.5}]},
        references=[{"id": "019d952f594571b1b8cbd6d8e675c18d", "slug": "app"}],
        links=[{"trace_id": TRACE_B, "span_id": "0x" + "1" * 16, "flags": 1}],
        events=[{"name": "exception", "timestamp": "2025-06-15T15:06:40Z"}],
        trace_state="a=b",
        resource={"attributes": {"service": {"name": "shop"}}},
        unknown={"kept": True},
    )

    await client.post("/tracing/spans/ingest", json={"spans": [span]})

    (record,) = broker.records("spans")
    assert orjson.loads(record.value or b"") == {"spans": [span]}


async def test_span_without_a_time_gets_the_time_of_its_arrival(
    client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    """Otherwise each read of the record would give the span another time."""
    await client.post("/tracing/spans/ingest", json={"spans": [{"trace_id": TRACE_A, "span_id": "1" * 16}]})

    ((span,),) = _published(broker).values()
    assert (span.start_ns, span.end_ns) == (NOW_NS, NOW_NS)


async def test_trees_by_trace_id_are_flattened_children_first(
    client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    roots = [_span(1, spans={"child": _span(2)}), _span(3)]

    response = await client.post("/tracing/spans/ingest", json={"traces": {TRACE_A: {"spans": {"same name": roots}}}})

    answer = await response.json()
    assert [link["span_id"][-1] for link in answer["links"]] == ["2", "1", "3"]
    assert _numbers(broker) == [2, 1, 3]


@pytest.mark.parametrize("body", [{}, {"spans": []}, {"spans": None}])
async def test_empty_request_is_no_error(
    body: dict[str, Any], client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    response = await client.post("/tracing/spans/ingest", json=body)

    assert (response.status, await response.json()) == (202, {"count": 0, "links": []})
    assert broker.records("spans") == []


async def test_last_of_duplicate_spans_is_kept(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    spans = [_span(1, span_name="first"), _span(2), _span(1, span_name="last", trace_id=TRACE_A.upper())]

    response = await client.post("/tracing/spans/ingest", json={"spans": spans})

    assert (await response.json())["count"] == 2
    assert {span.name for span in _published(broker)[TRACE_A] if span.span_id.endswith(b"\x01")} == {"last"}


@pytest.mark.parametrize("path", ["/tracing/spans/ingest", "/traces/ingest", "/traces", "/tracing/traces/"])
async def test_missing_body_is_422(path: str, client: aiohttp.ClientSession) -> None:
    response = await client.post(path)

    assert response.status == 422
    assert await response.json() == {
        "detail": [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}]
    }


@pytest.mark.parametrize(
    ("members", "loc"),
    [
        ({"trace_id": None}, ["trace_id"]),
        ({"span_id": 5}, ["span_id"]),
        ({"span_kind": "CLIENT"}, ["span_kind"]),
        ({"status_code": 1}, ["status_code"]),
        ({"start_time": []}, ["start_time", "datetime"]),
        ({"references": [{"id": "no uuid"}]}, ["references", 0, "id"]),
        ({"attributes": []}, ["attributes"]),
        ({"events": {}}, ["events"]),
    ],
)
async def test_wrong_structure_is_422_with_its_location(
    members: dict[str, Any], loc: list[str | int], client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    response = await client.post("/tracing/spans/ingest", json={"spans": [_span(1), {**_span(2), **members}]})

    assert response.status == 422
    assert (await response.json())["detail"][0]["loc"] == ["body", "spans", 1, *loc]
    assert broker.records("spans") == []


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"trace_id": "xyz"}, "trace"),
        ({"span_id": "0" * 16}, "span"),
        ({"start_time": 12345}, "ambiguous"),
        ({"start_time": "1999-12-31T23:59:59Z"}, "2000"),
        ({"links": [{"span_id": "1" * 16}]}, "link"),
        ({"repaired": ["\x00", 5]}, "repaired"),
    ],
)
async def test_invalid_span_rejects_the_request_with_its_path(
    members: dict[str, Any], words: str, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    root = _span(1, spans={"bad one": {**_span(2), **members}})

    response = await client.post("/tracing/spans/ingest", json={"traces": {"x": {"spans": {"root": root}}}})

    detail = (await response.json())["detail"]
    assert response.status == 400
    assert detail.startswith("traces.x.spans.root.spans.bad one: ")
    assert words in detail
    assert broker.records("spans") == []


async def test_what_the_worker_repairs_is_accepted(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    span = _span(1, span_name="a\0b", attributes={"deep": deep}, repaired=["attributes.before"])

    response = await client.post("/tracing/spans/ingest", json={"spans": [span]})

    assert response.status == 202, await response.text()
    [published] = _published(broker)[TRACE_A]
    assert published.repaired == ("attributes.before", "span_name", "attributes.deep")


@pytest.mark.parametrize("name", [b'"\\ud800"', b'"\xff"'])
async def test_body_that_is_not_unicode_is_422(name: bytes, client: aiohttp.ClientSession) -> None:
    body = json.dumps({"spans": [_span(1, span_name="@@")]}).encode().replace(b'"@@"', name)

    response = await client.post("/tracing/spans/ingest", data=body, headers={"Content-Type": "application/json"})

    assert response.status == 422


async def test_integer_above_64_bits_is_rejected_not_rounded(client: aiohttp.ClientSession) -> None:
    response = await client.post("/tracing/spans/ingest", json={"spans": [_span(1, attributes={"n": 2**64})]})

    assert response.status == 400


async def test_ingested_traces_return_their_ids(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    traces = [_tree(_span(1)), {"trace_id": TRACE_B, **_tree(_span(2, trace_id=TRACE_B))}]

    response = await client.post("/traces/ingest", json={"traces": traces})

    assert (response.status, await response.json()) == (202, {"count": 2, "trace_ids": [TRACE_A, TRACE_B]})
    assert set(_published(broker)) == {TRACE_A, TRACE_B}


async def test_one_trace_is_created(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    trace = _tree(_span(1, spans={"child": [_span(2), _span(3)]}))

    response = await client.post("/api/traces/", json={"trace": trace})

    assert (response.status, await response.json()) == (202, {"count": 1, "trace_id": TRACE_A})
    assert _numbers(broker) == [2, 3, 1]


@pytest.mark.parametrize("path", ["/traces/{}", "/tracing/traces/{}"])
async def test_trace_is_replaced_under_any_form_of_its_id(path: str, client: aiohttp.ClientSession) -> None:
    body = {"trace": _tree(_span(1))} if path.startswith("/traces") else {"spans": [_span(1)]}

    response = await client.put(path.format("0x" + TRACE_A.upper()), json=body)

    assert response.status == 202


TWO_IDS = "Trace payload must contain exactly one trace_id."


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("POST", "/traces/ingest", {}, "Missing traces"),
        ("POST", "/traces/ingest", {"traces": []}, "Missing traces"),
        ("POST", "/traces", {}, "Missing trace"),
        ("POST", "/traces", {"trace": {}}, "Missing trace"),
        ("POST", "/traces", {"trace": {"spans": {}}}, "Missing spans"),
        ("POST", "/traces", {"trace": _tree(_span(1), _span(2))}, "Too many root spans"),
        ("POST", "/traces", {"trace": _tree(_span(1, parent_id="2" * 16))}, "Missing root span"),
        ("POST", "/traces", {"trace": _tree(_span(1), _span(2, trace_id=TRACE_B, parent_id="1" * 16))}, TWO_IDS),
        ("POST", "/tracing/traces", {}, "Missing trace"),
        ("POST", "/tracing/traces", {"spans": []}, "Missing spans"),
        ("POST", "/tracing/traces", {"traces": {"a": _tree(_span(1)), "b": _tree(_span(2))}}, "Too many traces"),
        ("POST", "/tracing/traces", {"spans": [_span(1), _span(2)]}, "Too many root spans"),
        ("PUT", f"/traces/{TRACE_B}", {"trace": _tree(_span(1))}, f"Path trace_id '{TRACE_B}' does not match payload trace_id."),
        ("PUT", f"/tracing/traces/{TRACE_B}", {"spans": [_span(1)]}, f"Path trace_id '{TRACE_B}' does not match payload trace_id '{TRACE_A}'."),
        ("PUT", "/traces/xyz", {"trace": _tree(_span(1))}, "Invalid trace_id in path or payload."),
        ("PUT", f"/traces/{TRACE_A}", {"trace": {"trace_id": TRACE_B, **_tree(_span(1))}}, TWO_IDS),
    ],
)  # fmt: skip
async def test_invalid_trace_has_the_message_of_the_reference(
    method: str, path: str, body: dict[str, Any], detail: str, client: aiohttp.ClientSession, broker: MemoryBroker
) -> None:
    response = await client.request(method, path, json=body)

    assert (response.status, await response.json()) == (400, {"detail": detail})
    assert broker.records("spans") == []


async def test_kafka_away_is_503(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    broker.publish_faults.append(Unavailable("Kafka is unavailable."))

    response = await client.post("/tracing/spans/ingest", json={"spans": [_span(1)]})

    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert await response.json() == {"detail": "Kafka is unavailable."}


async def test_many_spans_are_accepted(client: aiohttp.ClientSession, broker: MemoryBroker) -> None:
    spans = [_span(number) for number in range(1, 1_001)]

    response = await client.post("/tracing/spans/ingest", json={"spans": spans})

    assert (await response.json())["count"] == len(_numbers(broker)) == 1_000
