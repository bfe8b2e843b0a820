"""Real records of an OpenTelemetry Collector, published to Kafka byte for byte, are returned completely over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.support.otlp_oracle import KINDS, STATUSES, attributes, path_in, sent_spans
from tests.support.produce import produce
from tests.support.stack import RunningStack

SAMPLES = Path(__file__).parents[1] / "data/samples"
Spans: TypeAlias = dict[tuple[str, str], dict[str, Any]]
NAMES = sorted(path.name.removesuffix(".otlp_json.json") for path in SAMPLES.glob("*.otlp_json.json"))


@pytest.fixture(scope="module")
def returned(stack: RunningStack) -> dict[str, tuple[Spans, Spans]]:
    """What the API returns after all samples were published as protobuf, and after all were published as JSON."""
    produce(stack.kafka, "otlp_spans", [(SAMPLES / f"{name}.otlp_proto.bin").read_bytes() for name in NAMES])
    from_protobuf = {name: _read(stack, _sent(name), after="") for name in NAMES}
    produce(stack.kafka, "otlp_spans_json", [(SAMPLES / f"{name}.otlp_json.json").read_bytes() for name in NAMES])
    return {
        name: (spans, _read(stack, _sent(name), after=max(span["created_at"] for span in spans.values())))
        for name, spans in from_protobuf.items()
    }


def _sent(name: str) -> dict[tuple[str, str], Any]:
    spans = sent_spans((SAMPLES / f"{name}.otlp_json.json").read_bytes())
    return {(each["span"]["traceId"], each["span"]["spanId"]): each for each in spans}


def test_samples_are_those_of_the_manifest():
    files = json.loads((SAMPLES / "manifest.json").read_bytes())["files"]

    assert [f"{name}.otlp_json.json" for name in NAMES] == [
        each["file"] for each in files if "json" in each["encoding"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sample_is_returned_completely_from_both_encodings(returned: Mapping[str, tuple[Spans, Spans]], name: str):
    from_protobuf, from_json = returned[name]
    sent = _sent(name)

    for key, said in sent.items():
        _assert_whole(from_protobuf[key], said)
        assert _without_storage(from_json[key]) == _without_storage(from_protobuf[key])


def _read(stack: RunningStack, sent: Any, *, after: str) -> Spans:
    traces = ",".join(sorted({trace_id for trace_id, _ in sent}))

    def is_enough(answer: dict[str, Any]) -> bool:
        fresh = [span for span in answer["spans"] if span["created_at"] > after]
        return {(span["trace_id"], span["span_id"]) for span in fresh} >= set(sent)

    answer = stack.ask_until(f"/spans/?trace_ids={traces}", None, is_enough)
    return {(span["trace_id"], span["span_id"]): span for span in answer["spans"]}


def _without_storage(span: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in span.items() if name != "created_at"}


def _assert_whole(answer: dict[str, Any], said: dict[str, Any]) -> None:
    span = said["span"]
    assert answer.get("parent_id", "") == span.get("parentSpanId", "")
    assert answer["span_name"] == _name(span.get("name", ""), said["attributes"])
    assert answer["span_kind"] == f"SPAN_KIND_{KINDS[span.get('kind', 0)]}"
    assert answer["status_code"] == f"STATUS_CODE_{STATUSES[span['status'].get('code', 0)]}"
    assert answer.get("status_message", "") == span["status"].get("message", "")
    assert answer["start_time_unix_nano"] == span["startTimeUnixNano"]
    assert answer["end_time_unix_nano"] == span["endTimeUnixNano"]
    assert answer.get("trace_state", "") == span.get("traceState", "")
    assert answer.get("flags", 0) == span.get("flags", 0)
    for ours, theirs in (
        ("dropped_attributes_count", "droppedAttributesCount"),
        ("dropped_events_count", "droppedEventsCount"),
        ("dropped_links_count", "droppedLinksCount"),
    ):
        assert answer.get(ours, 0) == span.get(theirs, 0)
    _assert_attributes(answer["attributes"], said["attributes"])
    _assert_events(answer.get("events", []), span.get("events", []))
    _assert_links(answer.get("links", []), span.get("links", []))
    _assert_resource(answer.get("resource", {}), said)
    _assert_scope(answer.get("scope", {}), said)


def _name(sent: str, attributes: dict[str, Any]) -> str:
    """Return the name of a span: instead of the template of Logfire's message, the message."""
    return attributes["logfire.msg"] if attributes.get("logfire.msg_template") == sent else sent


def _assert_attributes(answer: dict[str, Any], sent: dict[str, Any]) -> None:
    for key, value in sent.items():
        if key == "ag" or key.startswith("ag."):
            continue  # rebuilt into one fixed shape (reference §3), covered by the tests of normalize
        assert _holds(path_in(answer, key), value), key


def _holds(answer: Any, sent: Any) -> bool:
    """Return whether the values are equal; a returned object may have more members: `map.empty` adds to `map` (reference §2.2)."""
    if isinstance(sent, dict) and isinstance(answer, dict):
        return all(key in answer and _holds(answer[key], value) for key, value in sent.items())
    return bool(answer == sent) and isinstance(answer, bool) == isinstance(sent, bool)


def _assert_events(answer: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    assert len(answer) == len(sent)
    for ours, theirs in zip(answer, sent, strict=True):
        assert ours["name"] == theirs.get("name", "")
        assert ours["time_unix_nano"] == theirs.get("timeUnixNano", "0")
        assert ours.get("attributes", {}) == attributes(theirs)
        assert ours.get("dropped_attributes_count", 0) == theirs.get("droppedAttributesCount", 0)


def _assert_links(answer: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    assert len(answer) == len(sent)
    for ours, theirs in zip(answer, sent, strict=True):
        assert (ours["trace_id"], ours["span_id"]) == (theirs["traceId"], theirs["spanId"])
        assert ours.get("attributes", {}) == attributes(theirs)
        assert ours.get("trace_state", "") == theirs.get("traceState", "")
        assert ours.get("flags", 0) == theirs.get("flags", 0)
        assert ours.get("dropped_attributes_count", 0) == theirs.get("droppedAttributesCount", 0)


def _assert_resource(answer: dict[str, Any], said: dict[str, Any]) -> None:
    _assert_attributes(answer.get("attributes", {}), attributes(said["resource"]))
    assert answer.get("schema_url", "") == said["resource_schema_url"]
    assert answer.get("dropped_attributes_count", 0) == said["resource"].get("droppedAttributesCount", 0)


def _assert_scope(answer: dict[str, Any], said: dict[str, Any]) -> None:
    assert answer.get("name", "") == said["scope"].get("name", "")
    assert answer.get("version", "") == said["scope"].get("version", "")
    _assert_attributes(answer.get("attributes", {}), attributes(said["scope"]))
    assert answer.get("schema_url", "") == said["scope_schema_url"]
    assert answer.get("dropped_attributes_count", 0) == said["scope"].get("droppedAttributesCount", 0)
