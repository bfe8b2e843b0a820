"""Samples that ``tests.record`` makes: what it replaces, and that it makes those that are there."""

from __future__ import annotations

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.record import json_of, manifest_entries, sample_of
from tests.support.sample_records import SAMPLES


@pytest.mark.parametrize("name", ["dspy", "haystack", "mcp-openllmetry"])
def test_sample_is_made_from_its_requests(name: str) -> None:
    listed = {each["file"]: each for each in json.loads((SAMPLES / "manifest.json").read_bytes())["files"]}
    in_json, in_protobuf = f"{name}-01.otlp_json.json", f"{name}-01.otlp_proto.bin"

    sample = sample_of([(SAMPLES / in_protobuf).read_bytes()])

    assert json_of(sample) == (SAMPLES / in_json).read_bytes()
    did, versions = listed[in_json]["did"], listed[in_json]["versions"]
    assert manifest_entries(name, sample, did, versions) == [listed[in_json], listed[in_protobuf]]


def test_paths_and_processes_of_this_machine_are_replaced() -> None:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, text in (("service.name", "shop"), ("process.pid", "7"), ("host.name", "desk")):
        resource_spans.resource.attributes.add(key=key).value.string_value = text
    span = resource_spans.scope_spans.add().spans.add(name="call")
    event = span.events.add(name="exception")
    event.attributes.add(
        key="exception.stacktrace"
    ).value.string_value = (
        'File "/home/ada/venv/lib/python3.11/site-packages/openai/client.py", File "/tmp/run/app.py", 127.0.0.1:40123'
    )

    sample = sample_of([request.SerializeToString()])

    (found,) = sample.resource_spans
    assert [each.key for each in found.resource.attributes] == ["service.name"]
    assert found.scope_spans[0].spans[0].events[0].attributes[0].value.string_value == (
        'File "/app/site-packages/openai/client.py", File "/app", 127.0.0.1:8000'
    )
