"""Log records of agents become spans with ids of their own, whatever their order and however often they come."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from common.agent_logs.claude_code import claude_code_span
from common.agent_logs.codex import codex_span
from common.agent_logs.steps import DURATION_MS_MAX
from common.log_refusals import LogRefusal
from common.span import Span, SpanKind, StatusCode
from tests.support.agent_logs import NAMES, TIME_NS, log_of, spans_of

MS = 1_000_000


def claude(event: str, **attributes: Any) -> Span:
    given = {"session.id": "s", "prompt.id": "p", "event.name": event, "event.sequence": 7} | attributes
    given = {key: value for key, value in given.items() if value is not None}
    span = claude_code_span(log_of(body=f"claude_code.{event}", name=event, attributes=given))
    assert isinstance(span, Span)
    return span


def codex(event: str, dotted: dict[str, Any] | None = None, *, time_ns: int = TIME_NS, **attributes: Any) -> Span:
    given = {"conversation.id": "c", "event.name": f"codex.{event}"} | attributes | (dotted or {})
    span = codex_span(log_of(name="event otel/src/x.rs:1", attributes=given, time_ns=time_ns))
    assert isinstance(span, Span)
    return span


@pytest.mark.parametrize("name", NAMES)
def test_each_prompt_is_one_tree(name: str) -> None:
    spans = spans_of(name)

    trace_id, _ = Counter(span.trace_id for span in spans).most_common(1)[0]
    of_trace = [span for span in spans if span.trace_id == trace_id]
    roots = [span for span in of_trace if span.parent_id is None]
    assert len(roots) == 1
    assert {span.parent_id for span in of_trace if span is not roots[0]} == {roots[0].span_id}
    assert len({span.span_id for span in of_trace}) == len(of_trace)


def test_root_is_the_prompt_of_claude_code_and_the_conversation_of_codex() -> None:
    roots = [span.name for name in NAMES for span in spans_of(name) if span.parent_id is None]

    assert roots == ["claude_code.user_prompt"] * 2 + ["codex.conversation_starts"] * 2


def test_record_that_comes_twice_is_the_same_span() -> None:
    assert claude("api_request", duration_ms=5) == claude("api_request", duration_ms=5)
    assert codex("tool_result", call_id="1") == codex("tool_result", call_id="1")


def test_order_of_attributes_does_not_matter() -> None:
    attributes = list(spans_of("codex")[7].attributes.items())
    shuffled = attributes[:]
    random.Random(1).shuffle(shuffled)

    ids = {codex_ids(dict(members)) for members in (attributes, shuffled)}

    assert len(ids) == 1


def codex_ids(attributes: dict[str, Any]) -> tuple[bytes, bytes]:
    span = codex_span(log_of(attributes=attributes))
    assert isinstance(span, Span)
    return span.trace_id, span.span_id


def test_records_of_one_prompt_differ_by_sequence_time_and_name() -> None:
    first = claude("api_request")
    others = [
        claude("api_request", **{"event.sequence": 8}),
        claude("tool_result"),
        claude("api_request", **{"session.id": "t"}),
    ]

    assert len({span.span_id for span in [first, *others]}) == 4
    assert {span.trace_id for span in [first, *others]} == {first.trace_id}


def test_records_of_codex_differ_by_time_and_call() -> None:
    spans = [
        codex("tool_result", call_id="1"),
        codex("tool_result", call_id="2"),
        codex("tool_result", call_id="1", time_ns=TIME_NS + 1),
    ]

    assert len({span.span_id for span in spans}) == 3


def test_traces_differ_by_prompt_else_by_session() -> None:
    by_prompt = claude("api_request", **{"prompt.id": "q"})
    by_session = claude("api_request", **{"prompt.id": None})

    assert len({span.trace_id for span in (claude("api_request"), by_prompt, by_session)}) == 3
    assert by_session.parent_id is None
    assert claude("user_prompt", **{"prompt.id": None}).span_id != by_session.span_id


def test_turn_of_codex_is_a_trace_of_its_own_with_its_prompt_as_root() -> None:
    prompt, call = (codex(event, {"turn.id": "1"}) for event in ("user_prompt", "api_request"))

    assert prompt.parent_id is None
    assert call.parent_id == prompt.span_id
    assert call.trace_id == prompt.trace_id != codex("api_request").trace_id


@pytest.mark.parametrize(
    ("sent", "ms"),
    [
        (250, 250),
        ("250", 250),
        (0.5, 0.5),
        (0, 0),
        (-1, 0),
        (DURATION_MS_MAX + 1, 0),
        ("soon", 0),
        ("NaN", 0),
        (True, 0),
        ([1], 0),
        (10**30, 0),
    ],
)
def test_start_is_the_time_less_the_duration(sent: Any, ms: float) -> None:
    span = claude("api_request", duration_ms=sent)

    assert (span.start_ns, span.end_ns) == (TIME_NS - int(ms * MS), TIME_NS)


def test_failures_have_the_status_error() -> None:
    failed = [
        claude("api_error"),
        claude("internal_error"),
        claude("tool_result", success="false"),
        claude("tool_result", success=False),
        codex("tool_result", success="false"),
        codex("api_request", {"error.message": "no"}),
    ]
    others = [claude("tool_result", success="true"), claude("api_request"), codex("api_request")]

    assert {span.status_code for span in failed} == {StatusCode.STATUS_CODE_ERROR}
    assert {span.status_code for span in others} == {StatusCode.STATUS_CODE_UNSET}


def test_model_calls_are_clients() -> None:
    assert claude("api_request").kind == claude("api_error").kind == SpanKind.SPAN_KIND_CLIENT
    assert codex("sse_event", input_token_count="1").kind == SpanKind.SPAN_KIND_CLIENT
    assert claude("tool_result").kind == SpanKind.SPAN_KIND_INTERNAL


def test_events_of_a_stream_are_refused_except_those_with_tokens_and_failures() -> None:
    part = log_of(
        attributes={"conversation.id": "c", "event.name": "codex.sse_event", "event.kind": "response.created"}
    )

    assert codex_span(part) is LogRefusal.PART_OF_STREAM
    assert codex("sse_event", input_token_count="1").name == "codex.sse_event"
    assert codex("sse_event", {"error.message": "idle timeout"}).status_code == StatusCode.STATUS_CODE_ERROR


def test_record_without_session_is_refused() -> None:
    assert claude_code_span(log_of(body="claude_code.auth")) is LogRefusal.NO_SESSION
    assert codex_span(log_of(name="codex.user_prompt", attributes={"conversation.id": ""})) is LogRefusal.NO_SESSION


@pytest.mark.parametrize(
    "name", ["claude_code", "claude_code.", "claude_code.A b", "codexx.a", "x", "claude_code." + "a" * 100]
)
def test_other_names_are_of_no_agent(name: str) -> None:
    log = log_of(name=name, body=name, attributes={"event.name": name, "session.id": "s", "conversation.id": "c"})

    assert claude_code_span(log) is codex_span(log) is None


@pytest.mark.parametrize("members", [{"name": "claude_code.auth"}, {"attributes": {"event.name": "claude_code.auth"}}])
def test_name_may_be_the_event_the_attribute_or_the_body(members: dict[str, Any]) -> None:
    attributes = {"session.id": "s", **members.pop("attributes", {})}

    span = claude_code_span(log_of(**members, attributes=attributes))

    assert isinstance(span, Span)
    assert span.name == "claude_code.auth"


def test_everything_that_was_sent_is_an_attribute() -> None:
    log = log_of(
        body={"a": [1]},
        attributes={"event.name": "claude_code.auth", "session.id": 5, "x": 1.5},
        severity_number=9,
        severity_text="INFO",
        flags=1,
        dropped_attributes_count=2,
        repaired=("body.a", "attributes.x", "name"),
    )

    span = claude_code_span(log)

    assert isinstance(span, Span)
    assert span.attributes == {
        **log.attributes,
        "claude_code.event": "auth",
        "log.body": {"a": [1]},
        "log.severity_number": 9,
        "log.severity_text": "INFO",
    }
    assert (span.flags, span.dropped_attributes_count) == (1, 2)
    assert span.repaired == ("attributes.log.body.a", "attributes.x", "span_name")
