"""The sets of the performance table have the cardinalities and sizes that their measurements are compared by."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bench.records import spans_of
from bench.varied import SETS, STEP_NS

SPANS = 5_000
END_NS = 1_790_000_000_000_000_000


def requests_of(name: str) -> list[ExportTraceServiceRequest]:
    return [ExportTraceServiceRequest.FromString(record) for record in SETS[name](SPANS, end_ns=END_NS)]


def all_spans(name: str) -> list[Span]:
    return [span for request in requests_of(name) for span in spans_of(request)]


def values_by_key(spans: list[Span]) -> dict[str, list[Any]]:
    values = defaultdict[str, list[Any]](list)
    for span in spans:
        for attribute in span.attributes:
            values[attribute.key].append(getattr(attribute.value, str(attribute.value.WhichOneof("value"))))
    return values


@pytest.mark.parametrize("name", ["plain", "llm"])
def test_records_are_canonical_protobuf(name: str) -> None:
    for record in SETS[name](1_000, end_ns=END_NS):
        assert ExportTraceServiceRequest.FromString(record).SerializeToString(deterministic=True) == record


@pytest.mark.parametrize("name", SETS)
def test_the_same_arguments_give_the_same_bytes(name: str) -> None:
    first, again, other = (list(SETS[name](200, seed=seed, end_ns=END_NS)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


@pytest.mark.parametrize(("name", "bytes_per_span"), [("plain", 460), ("llm", 2_015)])
def test_spans_have_their_size_on_the_wire(name: str, bytes_per_span: int) -> None:
    size = sum(map(len, SETS[name](SPANS, end_ns=END_NS))) / SPANS

    assert size == pytest.approx(bytes_per_span, rel=0.02)


@pytest.mark.parametrize("name", ["plain", "llm"])
def test_traces_have_ten_spans_that_start_every_three_milliseconds_and_end_now(name: str) -> None:
    spans = all_spans(name)
    traces = defaultdict[bytes, list[Span]](list)
    for span in spans:
        traces[span.trace_id].append(span)

    assert {len(trace) for trace in traces.values()} == {10}
    assert {span.parent_span_id for trace in traces.values() for span in trace[:1]} == {b""}
    assert all(span.parent_span_id == trace[0].span_id for trace in traces.values() for span in trace[1:])
    starts = [span.start_time_unix_nano for span in spans]
    assert all(STEP_NS / 2 < later - earlier < 2 * STEP_NS for earlier, later in pairwise(starts))
    assert 0 < END_NS - starts[-1] <= STEP_NS
    assert len({span.span_id for span in spans}) == SPANS
    assert len({span.name for span in spans}) == 10
    assert len({span.kind for span in spans}) == 5


def test_a_record_has_one_service_and_at_most_the_given_spans() -> None:
    requests = [ExportTraceServiceRequest.FromString(each) for each in SETS["plain"](1_050, spans_per_record=100)]

    assert [sum(1 for _ in spans_of(request)) for request in requests] == [100] * 10 + [50]
    services = [request.resource_spans[0].resource.attributes[0].value.string_value for request in requests]
    assert services[:3] == ["service-0", "service-1", "service-2"]
    assert len(set(services)) == 10


def test_plain_values_vary() -> None:
    values = values_by_key(all_spans("plain"))

    assert {key: len(found) for key, found in values.items()} == dict.fromkeys(values, SPANS)
    different = {key: len(set(found)) for key, found in values.items()}
    few = {"http.method": 4, "http.status_code": 5, "http.route": 50, "user.id": 100, "cloud.region": 8}
    assert {key: different[key] for key in few} == few
    assert values["http.status_code"].count(200) / SPANS == pytest.approx(0.8, abs=0.03)
    assert different["request.id"] == different["log.text"] == SPANS
    many = ["http.url", "net.peer.ip", "net.peer.port", "http.response_size"]
    assert min(different[key] for key in many) > 0.9 * SPANS
    assert len({word for text in values["log.text"] for word in text.split()}) > 2_900
    assert len(values) == 11


def test_llm_texts_do_not_repeat() -> None:
    values = values_by_key(all_spans("llm"))

    assert {key: len(found) for key, found in values.items()} == dict.fromkeys(values, SPANS)
    different = {key: len(set(found)) for key, found in values.items()}
    texts = ["input.value", "output.value", "gen_ai.input.messages", "llm.invocation_parameters"]
    assert [different[key] for key in texts] == [SPANS] * 4
    assert (different["llm.model_name"], different["user.id"]) == (5, 100)
    assert 1_700 < different["session.id"] <= 2_000
    message = json.loads(values["input.value"][0])["messages"][1]["content"]
    assert json.loads(values["gen_ai.input.messages"][0])[0]["parts"][0]["content"] == message
    assert len(values) == 20


def test_instrumentations_have_new_ids_and_times() -> None:
    spans = all_spans("instrumentations")

    assert len({span.span_id for span in spans}) == len(spans) >= SPANS
    assert min(span.start_time_unix_nano for span in spans) >= END_NS - SPANS * STEP_NS
    assert len(values_by_key(spans)) > 200
