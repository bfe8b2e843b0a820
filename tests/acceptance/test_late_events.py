"""What comes before or after its span, through the whole stack: log events and scores."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.agent_logs import logs_request
from tests.support.deployment import until
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


def _ask(method: str, address: str, body: Member | None = None) -> Member:
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(address, data=data, headers={"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(sent, timeout=60) as response:
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


def test_scores_come_before_their_span_and_go_with_their_annotation(stack: RunningStack) -> None:
    """An evaluation that names the response, and an annotation that links to the span, both before the span."""
    trace_id, span_id, response_id = uuid4().bytes, uuid4().bytes[:8], f"chatcmpl-{uuid4().hex}"
    said = {"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": "0.75"}
    log = {"time_unix_nano": START_NS, "event_name": "gen_ai.evaluation.result"}
    _post(stack.otlp + "/v1/logs", logs_request({**log, "attributes": {**said, "gen_ai.response.id": response_id}}))
    link = {"trace_id": trace_id.hex(), "span_id": span_id.hex()}
    trace = {"data": {"outputs": {"tone": 0.5, "is_polite": True}}, "references": {}, "links": [link]}
    annotation = _ask("POST", stack.api + "/simple/traces/", {"trace": trace})["trace"]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.id": response_id}
    message = ExportTraceServiceRequest.FromString(request(["chat"], attributes=attributes))
    [sent] = message.resource_spans[0].scope_spans[0].spans
    sent.trace_id, sent.span_id = trace_id, span_id
    coordinates = _post(stack.otlp + "/v1/traces", message.SerializeToString())
    conditions = [{"field": "trace_id", "operator": "is", "value": trace_id.hex()}]

    def scores() -> dict[str, Any]:
        [shown] = _query({"filtering": {"conditions": conditions}}, stack, coordinates)["spans"]
        return {score["name"]: score.get("value") for score in shown.get("scores", ())}

    whole = {"relevance": 0.75, "tone": 0.5, "is_polite": 1}
    until(lambda: scores() == whole, what="all scores")

    _ask("DELETE", f"{stack.api}/traces/{annotation['trace_id']}")
    until(lambda: scores() == {"relevance": 0.75}, what="no scores of the deleted annotation")
