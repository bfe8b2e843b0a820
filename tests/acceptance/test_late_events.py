"""Log records that name a span, through the whole stack: events of it, whichever is sent first."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.agent_logs import logs_request
from tests.support.otlp import START_NS, request
from tests.support.stack import RunningStack

Member = dict[str, Any]
SAID = {"gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"How many apples?"}]}]'}


def _post(address: str, body: bytes) -> str:
    """Return the coordinates of what was published."""
    sent = urllib.request.Request(address, data=body, headers={"content-type": "application/x-protobuf"})
    with urllib.request.urlopen(sent, timeout=60) as response:
        coordinates: str = response.headers["X-Clearspan-Coordinates"]
        return coordinates


def _query(body: Member, stack: RunningStack, coordinates: str) -> Member:
    headers = {"content-type": "application/json", "X-Clearspan-Wait-For": coordinates}
    sent = urllib.request.Request(stack.api + "/spans/query", data=json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(sent, timeout=120) as response:
        answer: Member = json.load(response)
    return answer


@pytest.mark.parametrize("is_first", [True, False], ids=["event first", "span first"])
def test_log_record_is_an_event_of_the_span_that_it_names(stack: RunningStack, is_first: bool) -> None:
    trace_id, span_id = uuid4().bytes, uuid4().bytes[:8]
    message = ExportTraceServiceRequest.FromString(request(["chat"], attributes={"gen_ai.operation.name": "chat"}))
    [sent] = message.resource_spans[0].scope_spans[0].spans
    sent.trace_id, sent.span_id = trace_id, span_id
    span = message.SerializeToString()
    log = logs_request(
        {
            "trace_id": trace_id,
            "span_id": span_id,
            "time_unix_nano": START_NS,
            "event_name": "gen_ai.client.inference.operation.details",
            "attributes": SAID,
        }
    )
    sends = [(stack.otlp + "/v1/logs", log), (stack.otlp + "/v1/traces", span)]
    first, second = sends if is_first else sends[::-1]
    _post(*first)
    coordinates = _post(*second)

    conditions = [{"field": "trace_id", "operator": "is", "value": trace_id.hex()}]
    answer = _query({"filtering": {"conditions": conditions}}, stack, coordinates)

    [shown] = answer["spans"]
    assert [event["source"] for event in shown["events"]] == ["log"]
    assert shown["attributes"]["ag"]["data"]["inputs"]["messages"][0]["content"] == "How many apples?"
