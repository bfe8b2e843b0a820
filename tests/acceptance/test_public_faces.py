"""What users and programs do with a running stack: send spans by SDK, JSON or Kafka, look at dead letters."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.support.produce import produce
from tests.support.stack import RunningStack

NOW_NS = time.time_ns()


def _named(name: str) -> dict[str, Any]:
    return {"filtering": {"conditions": [{"field": "span_name", "value": name}]}, "windowing": {"limit": 2_000}}


def test_spans_of_the_unmodified_sdk_are_stored(stack: RunningStack):
    exporter = OTLPSpanExporter(endpoint=f"{stack.api}/otlp/v1/traces")
    provider = TracerProvider(resource=Resource.create({"service.name": "sdk-test"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    with provider.get_tracer("tests", "1.2.3").start_as_current_span("sent by the SDK") as span:
        span.set_attribute("answer", 42)
        span.add_event("thought", {"deep": True})
    provider.shutdown()

    [found] = stack.ask_until("/spans/query", _named("sent by the SDK"), lambda answer: answer["count"])["spans"]
    assert found["attributes"]["answer"] == 42
    assert found["resource"]["attributes"]["service"]["name"] == "sdk-test"
    assert (found["scope"]["name"], found["scope"]["version"]) == ("tests", "1.2.3")
    assert [(event["name"], event["attributes"]) for event in found["events"]] == [("thought", {"deep": True})]


def test_returned_span_can_be_sent_under_another_id(stack: RunningStack):
    span = {
        "trace_id": "c0ffee00c0ffee00c0ffee00c0ffee00",
        "span_id": "c0ffee0000000001",
        "span_name": "sent as JSON",
        "span_kind": "SPAN_KIND_CLIENT",
        "status_code": "STATUS_CODE_ERROR",
        "status_message": "no beans",
        "start_time": "2026-05-01T12:00:00.000001Z",
        "end_time": "2026-05-01T12:00:01Z",
        "attributes": {"cup.size": 3, "ag": {"metrics": {"tokens": {"incremental": {"prompt": 5, "completion": 7}}}}},
        "events": [{"name": "exception", "timestamp": "2026-05-01T12:00:00.5Z", "attributes": {"exception.type": "E"}}],
        "links": [],
        "trace_state": "a=b",
        "flags": 257,
    }

    accepted = stack.ask("/tracing/spans/ingest", {"spans": [span]})
    [first] = stack.ask_until("/spans/query", _named("sent as JSON"), lambda answer: answer["count"] == 1)["spans"]
    stack.ask("/tracing/spans/ingest", {"spans": [{**first, "span_id": "c0ffee0000000002"}]})
    both = stack.ask_until("/spans/query", _named("sent as JSON"), lambda answer: answer["count"] == 2)["spans"]

    assert accepted == {"count": 1, "links": [{"trace_id": span["trace_id"], "span_id": span["span_id"]}]}
    assert first["trace_type"] == "annotation"
    assert first["attributes"]["cup"] == {"size": 3}
    assert first["attributes"]["ag"]["metrics"]["errors"]["incremental"] == 1
    storage = ("created_at", "span_id", "attributes")
    again = next(each for each in both if each["span_id"] == "c0ffee0000000002")
    assert {name: value for name, value in again.items() if name not in storage} == {
        name: value for name, value in first.items() if name not in storage
    }


def test_root_has_the_sums_of_its_trace_in_any_order_of_arrival(stack: RunningStack):
    trace_id = "50305030503050305030503050305030"

    def span(number: int, parent: int | None, prompt: int) -> dict[str, Any]:
        tokens = {"tokens": {"incremental": {"prompt": prompt, "completion": 1, "total": prompt + 1}}}
        return {
            "trace_id": trace_id,
            "span_id": f"{number:016x}",
            **({"parent_id": f"{parent:016x}"} if parent else {}),
            "span_name": "sums",
            "start_time": "2026-05-01T12:00:00Z",
            "attributes": {"ag": {"metrics": tokens}},
        }

    produce(stack.kafka, "spans", [json.dumps(span(2, 1, 10)).encode()])
    produce(stack.kafka, "spans", [json.dumps(span(3, 1, 20)).encode()])
    produce(stack.kafka, "spans", [json.dumps(span(1, None, 0)).encode()])
    produce(stack.kafka, "spans", [json.dumps(span(2, 1, 15)).encode()], key=b"sent again")

    def root_has_all(answer: dict[str, Any]) -> bool:
        roots = [each for each in answer["spans"] if "parent_id" not in each]
        return bool(roots) and roots[0]["attributes"]["ag"]["metrics"]["tokens"].get("cumulative") == {
            "prompt": 35,
            "completion": 3,
            "total": 38,
        }

    stack.ask_until("/spans/query", _named("sums"), root_has_all)


def test_ten_bad_spans_of_a_thousand_are_dead_letters_and_the_others_are_stored(stack: RunningStack):
    produce(stack.kafka, "otlp_spans", [_record_with_bad_spans(1_000, every=100)])

    found = stack.ask_until("/spans/query", _named("one of a thousand"), lambda answer: answer["count"] == 990)
    letters = _letters(stack, at_least=10)

    assert "windowing" not in found
    assert sorted(letter["span_index"] for letter in letters) == list(range(0, 1_000, 100))
    assert {(letter["code"], letter["topic"]) for letter in letters} == {("invalid_span_id", "otlp_spans")}
    first = min(letters, key=lambda letter: int(letter["span_index"]))
    shown = json.loads(stack.command("dead-letters", "show", first["id"], "--json").stdout)
    assert shown["reason"] == first["reason"]
    assert shown["bytes_count"] == first["bytes_count"]
    dropped = stack.command("dead-letters", "drop", *[letter["id"] for letter in letters], stdin="y\n")
    assert dropped.returncode == 0, dropped.stderr
    assert stack.command("dead-letters", "list").stdout == "There are no dead letters.\n"


def test_dead_letter_of_an_unknown_project_is_replayed_to_its_topic(stack: RunningStack):
    unknown = b"018f0000-0000-7000-8000-00000000dead"
    span = {"trace_id": "1" * 32, "span_id": "1" * 16, "span_name": "of nobody", "start_time": "2026-05-01T12:00:00Z"}
    produce(stack.kafka, "spans", [json.dumps(span).encode()], headers=[("project-id", unknown)])
    [letter] = _letters(stack, at_least=1)

    replayed = stack.command("dead-letters", "replay", letter["id"])

    assert letter["code"] == "unknown_project"
    assert letter["span_index"] is None
    assert unknown.decode() in letter["reason"]
    assert replayed.returncode == 0, replayed.stderr
    assert "went to spans, partition" in replayed.stdout
    [again] = _letters(stack, at_least=1, but={letter["id"]})
    assert (again["code"], again["id"]) != (letter["code"], letter["id"])
    assert stack.command("dead-letters", "drop", again["id"], "--json", stdin="n\n").stdout == ""
    dropped = stack.command("dead-letters", "drop", again["id"], again["id"], "--json", stdin="y\n")
    assert json.loads(dropped.stdout) == {"id": again["id"], "is_dropped": True}


def test_administrator_replays_and_drops_a_dead_letter_over_http(stack: RunningStack):
    produce(stack.kafka, "spans", [b"no json, over HTTP"])
    path = "/admin/dead-letters?code=undecodable&topic=spans"
    [first] = stack.ask_until(path, None, lambda answer: answer["count"] == 1)["dead_letters"]
    status = stack.ask_until("/admin/status", None, lambda answer: answer["dead_letters"].get("open"))
    shown = stack.ask(f"/admin/dead-letters/{first['id']}")["dead_letter"]

    replayed = stack.ask(f"/admin/dead-letters/{first['id']}/replay", {})["dead_letter"]

    # It is as wrong as before.
    [again] = stack.ask_until(path, None, lambda answer: answer["count"] == 1)["dead_letters"]
    dropped = stack.ask("/admin/dead-letters/drop", {"code": "undecodable", "topic": "spans"})
    assert base64.b64decode(shown["value_base64"]) == b"no json, over HTTP"
    assert replayed["went_to"]["topic"] == "spans"
    assert (again["code"], again["offset"]) == ("undecodable", replayed["went_to"]["offset"])
    assert dropped["count"] == 1
    assert stack.ask(path) == {"count": 0, "dead_letters": []}
    assert {"clearspan", "clickhouse", "postgres", "api_started_at"} == {*status["versions"]}
    assert stack.command("dead-letters", "list").stdout == "There are no dead letters.\n"


def test_invalid_dead_letter_id_is_an_error_message(stack: RunningStack):
    refused = stack.command("dead-letters", "show", "nonsense")

    assert refused.returncode == 1
    assert "ids look like 0-17" in refused.stderr


def test_worker_publishes_its_metrics(stack: RunningStack):
    with urllib.request.urlopen(f"{stack.worker}/metrics", timeout=60) as answer:
        text = answer.read().decode()

    for name in (
        "clearspan_lag_records",
        "clearspan_batch_rows",
        "clearspan_insert_seconds",
        "clearspan_spans_stored_total",
        "clearspan_broker_to_queryable_seconds",
        "clearspan_stage_seconds_total",
    ):
        assert f"\n{name}" in text


def _letters(stack: RunningStack, *, at_least: int, but: set[str] = frozenset()) -> list[dict[str, Any]]:  # type: ignore[assignment]
    deadline_s = time.monotonic() + 120
    while True:
        listed = stack.command("dead-letters", "list", "--json")
        assert listed.returncode == 0, listed.stderr
        letters = [json.loads(line) for line in listed.stdout.splitlines()]
        letters = [letter for letter in letters if letter["id"] not in but]
        if len(letters) >= at_least:
            return letters
        assert time.monotonic() < deadline_s, letters


def _record_with_bad_spans(count: int, *, every: int) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(count):
        spans.add(
            trace_id=b"\7" * 16,
            span_id=b"" if number % every == 0 else (number + 1).to_bytes(8, "big"),
            name="one of a thousand",
            start_time_unix_nano=NOW_NS,
            end_time_unix_nano=NOW_NS + number,
        )
    return request.SerializeToString()
