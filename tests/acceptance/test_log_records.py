"""Log records of coding agents, sent in every way, are traces; what is refused is reported, or counted."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from tests.support.agent_logs import in_json, in_protobuf, logs_request, spans_of
from tests.support.metrics import metric
from tests.support.otlp_grpc import LOGS
from tests.support.produce import produce
from tests.support.stack import RunningStack

Member = dict[str, Any]


@pytest.fixture(scope="module")
def agents(stack: RunningStack) -> RunningStack:
    """Claude Code over HTTP and again from Kafka, Codex over gRPC and again from Kafka."""
    response = _post(stack.otlp + "/v1/logs", in_protobuf("claude-code"), "application/x-protobuf")
    assert response == b""
    produce(stack.kafka, "otlp_logs_json", [in_json("claude-code"), in_json("codex")])
    with grpc.insecure_channel(stack.otlp_grpc) as channel:
        answer = channel.unary_unary(LOGS)(in_protobuf("codex"), timeout=60)
    partial_success = ExportLogsServiceResponse.FromString(answer).partial_success
    assert partial_success.rejected_log_records == 10
    assert "9 log records (5, 6, 7, 13, 14, 15, 20, 21, 22): It is one event" in partial_success.error_message
    assert "log record 29: It names no span" in partial_success.error_message
    return stack


def _post(address: str, body: bytes, content_type: str) -> bytes:
    request = urllib.request.Request(address, data=body, headers={"content-type": content_type})
    with urllib.request.urlopen(request, timeout=60) as response:
        content: bytes = response.read()
    return content


def _spans(stack: RunningStack, name: str) -> list[Member]:
    traces = {span.trace_id.hex() for span in spans_of(name)}
    address = f"/spans/?trace_ids={','.join(sorted(traces))}"
    answer = stack.ask_until(address, None, lambda answer: answer["count"] >= len(spans_of(name)))
    spans: list[Member] = answer["spans"]
    return spans


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_each_log_record_is_one_span(agents: RunningStack, name: str) -> None:
    returned = {(span["trace_id"], span["span_id"]): span for span in _spans(agents, name)}

    assert returned.keys() == {(span.trace_id.hex(), span.span_id[8:].hex()) for span in spans_of(name)}
    assert sorted(span["span_name"] for span in returned.values()) == sorted(span.name for span in spans_of(name))


def test_trace_is_one_tree_with_tokens_and_costs_of_its_calls(agents: RunningStack) -> None:
    prompt = next(span for span in spans_of("claude-code") if span.name == "claude_code.user_prompt")
    _spans(agents, "claude-code")

    answer = agents.ask(f"/traces/{prompt.trace_id.hex()}")

    [root] = answer["trace"]["spans"].values()
    assert root["span_id"] == prompt.span_id[8:].hex()
    cumulative = root["attributes"]["ag"]["metrics"]
    assert cumulative["tokens"]["cumulative"]["total"] == 3 * (12 + 300 + 40 + 60)
    assert cumulative["costs"]["cumulative"]["total"] == pytest.approx(3 * 0.00196)


def test_agents_are_found_by_model_tool_and_session(agents: RunningStack) -> None:
    session = next(span for span in _spans(agents, "codex"))["attributes"]["conversation"]["id"]
    conditions: list[Member] = [
        {"field": "model", "value": "claude-opus-4-8"},
        {"field": "attributes", "key": "ag.meta.tool.name", "value": "exec_command"},
        {"field": "session", "value": session},
    ]

    counts = [
        agents.ask("/spans/query", {"filtering": {"conditions": [condition]}})["count"] for condition in conditions
    ]

    of_session = [span for span in spans_of("codex") if span.attributes["conversation.id"] == session]
    assert counts == [3, 4, len(of_session)]


def test_what_is_refused_of_kafka_is_counted_and_what_is_broken_is_a_dead_letter(agents: RunningStack) -> None:
    def refused() -> float:
        return metric(agents.worker, 'clearspan_refused_log_records_total{reason="names_no_span",topic="otlp_logs"}')

    before = refused()
    [at] = produce(agents.kafka, "otlp_logs", [logs_request({}, {"trace_id": b"short"}, {})])

    listed = agents.ask_until("/admin/dead-letters?topic=otlp_logs", None, lambda answer: bool(answer["dead_letters"]))
    [dead_letter] = listed["dead_letters"]
    assert (dead_letter["offset"], dead_letter["span_index"], dead_letter["code"]) == (at.offset, 1, "invalid_trace_id")
    assert refused() - before == 2


def test_response_in_json_names_what_is_refused(agents: RunningStack) -> None:
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": "1790000000000000000"}]}]}]})

    response = json.loads(_post(agents.api + "/otlp/v1/logs", body.encode(), "application/json"))

    assert response["partialSuccess"]["rejectedLogRecords"] == "1"
    assert response["partialSuccess"]["errorMessage"].startswith("log record 0: It names no span")
