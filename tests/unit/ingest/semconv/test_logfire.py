"""Logfire: kinds of spans by their templates, readable names, errors, and what its scrubber replaced."""

from __future__ import annotations

from typing import Any

import pytest

from common.codec.decoded import Decoded, Rejections
from common.ids import DEFAULT_PROJECT_ID
from common.kafka.record import Encoding, Record
from common.limits import SpanLimits
from common.nesting import nest
from common.span import Span
from ingest.decode import PlainTopic, Rules, with_projects
from ingest.semconv.logfire import announced, with_readable_name
from tests.support.mapping import map_attributes
from tests.support.reported_cases import ags_of, tokens_of
from tests.support.sample_records import ag_named, normal_named

NAME = "agents-logfire-01"
RESPONSES = "Responses API with {gen_ai.request.model!r}"


def mapped(**attributes: Any) -> dict[str, Any]:
    found = map_attributes(attributes, nest(attributes))
    assert found is not None
    return found.ag


def test_answer_is_the_output() -> None:
    (ag,) = ags_of("logfire-answer")

    assert [message["role"] for message in ag["data"]["inputs"]["messages"]] == ["system", "user"]
    assert ag["data"]["outputs"]["messages"] == [
        {"role": "assistant", "content": "Sunny in Lisbon.", "finish_reason": "stop"}
    ]


def test_function_is_a_tool_that_may_fail() -> None:
    chat, tool, pending = ags_of("logfire-agents")

    assert chat["data"]["outputs"]["messages"][0]["tool_calls"][0]["arguments"] == {"city": "Zürich"}
    assert tool["type"]["span"] == "tool"
    assert tool["meta"]["tool"] == {"name": "get_weather"}
    assert tool["data"] == {"inputs": {"city": "Nowhere"}, "outputs": "An error occurred"}
    assert tool["exception"] == {"message": "Error running tool (non-fatal)"}
    assert pending["type"]["span"] == "unknown"


@pytest.mark.parametrize(
    ("name", "at", "span_type"),
    [
        ("OpenAI Agents trace: {name}", 0, "workflow"),
        ("Task: Agent workflow", 0, "workflow"),
        ("Agent run: {name!r}", 0, "agent"),
        ("Turn {turn} for agent triage", 0, "chain"),
        ("Handoff: {from_agent} → {to_agent}", 0, "tool"),
        ("Function: {name}", 0, "tool"),
        (RESPONSES, 2, "chat"),
    ],
)
def test_template_is_the_kind_of_a_span(name: str, at: int, span_type: str) -> None:
    assert normal_named(NAME, name, at=at).span_type == span_type


def test_record_has_session_agent_handoff_and_answer() -> None:
    answer = ag_named(NAME, RESPONSES, at=2)
    handoff = ag_named(NAME, "Handoff: {from_agent} → {to_agent}")

    assert normal_named(NAME, "OpenAI Agents trace: {name}").session_id == "group-9"
    assert ag_named(NAME, "Agent run: {name!r}")["unsupported"]["agent"] == {"id": "triage", "name": "triage"}
    assert handoff["data"]["inputs"] == {"from_agent": "triage", "to_agent": "weather"}
    assert handoff["meta"]["tool"] == {"name": "handoff to weather"}
    (message,) = answer["data"]["outputs"]["messages"]
    assert message["parts"] == [
        {"type": "reasoning", "content": "It is sunny."},
        {"type": "text", "content": "Sunny in Lisbon."},
    ]
    assert [tool["name"] for tool in answer["data"]["parameters"]["tools"]] == ["get_weather"]
    assert tokens_of(answer) == {"prompt": 2014, "completion": 80, "total": 2094, "cached": 500, "reasoning": 30}


def test_client_spans_have_their_request_and_response() -> None:
    ag = mapped(
        **{
            "logfire.msg_template": "Chat Completion with {request_data[model]!r}",
            "request_data": '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}',
            "response_data": '{"message": {"role": "assistant", "content": "Hi"}, "usage": {"total_tokens": 5}}',
        }
    )

    assert ag["data"]["inputs"]["messages"] == [{"role": "user", "content": "Hello"}]
    assert ag["data"]["outputs"] == {"messages": [{"role": "assistant", "content": "Hi"}]}


def test_guardrail_says_whether_it_was_triggered() -> None:
    sent = {"logfire.msg_template": "Guardrail {name!r} {triggered=}", "name": "polite", "triggered": True}

    assert mapped(**sent) == {"type": {"span": "task"}, "data": {"outputs": {"triggered": True}}}


@pytest.mark.parametrize("key", ["session.id", "gen_ai.conversation.id"])
def test_scrubbed_session_is_no_session(key: str) -> None:
    assert mapped(**{"logfire.msg": "m", key: "trip-21"})["session"] == {"id": "trip-21"}
    assert "session" not in mapped(**{"logfire.msg": "m", key: "[Scrubbed due to 'session']"})
    assert mapped(**{key: "trip-21"})["session"] == {"id": "trip-21"}


@pytest.mark.parametrize("keys", [{"name": "n", "input": "i", "output": "o"}, {"error": "e", "triggered": True}])
def test_keys_without_a_prefix_mean_nothing_without_logfire(keys: dict[str, Any]) -> None:
    found = map_attributes(keys, nest(keys))

    assert found is None or found.ag == {}


def a_span(name: str, attributes: dict[str, Any]) -> Span:
    return Span(b"t" * 16, b"s" * 8, None, name, 0, 0, 0, 0, None, attributes)


def test_message_is_the_name_where_the_name_is_its_template() -> None:
    sent = {"logfire.msg_template": "Function: {name}", "logfire.msg": "Function: get_weather"}

    named = with_readable_name(a_span("Function: {name}", sent))

    assert named.name == "Function: get_weather"
    assert named.attributes == sent
    assert with_readable_name(named) is named


@pytest.mark.parametrize(
    "attributes",
    [{}, {"logfire.msg": "GET /x"}, {"logfire.msg": 5, "logfire.msg_template": "n"}, {"logfire.msg_template": "n"}],
)
def test_other_names_stay(attributes: dict[str, Any]) -> None:
    span = a_span("n", attributes)

    assert with_readable_name(span) is span


def pending_span(**changes: Any) -> Span:
    """Return a span as Logfire exports it when another one begins."""
    attributes = {"logfire.span_type": "pending_span", "logfire.pending_parent_id": "00000000000000aa", "a": 1}
    return Span(
        b"t" * 16, b"p" * 16, b"s" * 16, "work", 1, 5, 5, 0, None, attributes | changes.pop("attributes", {})
    )._replace(**changes)


def test_pending_span_is_the_running_state_of_its_parent() -> None:
    span = announced(pending_span())

    assert span.is_running
    assert (span.span_id, span.parent_id) == (b"s" * 16, bytes.fromhex("00000000000000aa") * 2)
    assert (span.start_ns, span.end_ns) == (5, 5)
    assert span.attributes == {"logfire.span_type": "span", "a": 1}


@pytest.mark.parametrize("parent", [{"logfire.pending_parent_id": "0" * 16}, {"logfire.pending_parent_id": None}])
def test_pending_span_of_a_root_is_a_root(parent: dict[str, Any]) -> None:
    assert announced(pending_span(attributes=parent)).parent_id is None


def test_mark_in_the_name_of_a_pending_span_is_left_out() -> None:
    assert announced(pending_span(name="work (pending)")).name == "work"


@pytest.mark.parametrize(
    "span",
    [
        pending_span(parent_id=None),
        pending_span(attributes={"logfire.pending_parent_id": "xyz"}),
        pending_span(attributes={"logfire.pending_parent_id": 7}),
        pending_span(attributes={"logfire.span_type": "span"}),
        pending_span(attributes={"logfire.span_type": ["pending_span"]}),
    ],
    ids=["no span", "no id", "a number", "a span", "a list"],
)
def test_other_spans_stay_as_they_are(span: Span) -> None:
    assert announced(span) is span


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 0, 1], [1, 0, 0]])
def test_end_wins_over_pending_spans_in_one_record(order: list[int]) -> None:
    ended = pending_span(span_id=b"s" * 16, parent_id=None, end_ns=9, attributes={"logfire.span_type": "span"})
    spans = [[pending_span(), ended][at] for at in order]
    record = Record("t", 0, 5, 1, None, b"{}", ())
    rules = Rules({"t": PlainTopic(Encoding.OTLP_PROTO)}, SpanLimits(), DEFAULT_PROJECT_ID)

    decoded = with_projects(record, Decoded(spans, list(range(len(spans))), Rejections()), rules)

    assert decoded.spans == [ended]
    assert decoded.span_indexes == [order.index(1)]
