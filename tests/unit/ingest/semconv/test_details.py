"""Content in an event of a model call means what it means in attributes of the span, and counts once if it is in both."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from common.nesting import Nesting
from common.span import Attributes, Event, NormalizedSpan, Span
from ingest.normalize import normalize
from ingest.semconv.details import DETAILS_EVENT, with_details
from tests.support.genai_registry import DECISIONS, VARIABLE, Mapped, attributes_of_registry
from tests.support.sample_records import NAMES, spans_of

VALUES = attributes_of_registry()
MAPPED = sorted(name for name, decision in DECISIONS.items() if isinstance(decision, Mapped))
NO_ATTRIBUTES = Nesting({}, None)
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}
ANSWER = {"role": "assistant", "content": "Good day.", "finish_reason": "stop"}
CONTENT: Attributes = {
    "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hello."}]}]),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Good day."}], "finish_reason": "stop"}]
    ),
    "gen_ai.tool.definitions": '[{"type": "function", "name": "roll"}]',
}
CALL: Attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 40,
}
DATA = {
    "inputs": {"messages": [SYSTEM, USER]},
    "outputs": {"messages": [ANSWER]},
    "parameters": {"tools": [{"type": "function", "name": "roll"}]},
}


def span(attributes: Attributes, *details: Attributes, others: Sequence[Event] = ()) -> Span:
    events = (*others, *(Event(DETAILS_EVENT, 0, said) for said in details))
    return Span(b"\1" * 16, b"\2" * 16, None, "call", 0, 0, 10**6, 0, None, attributes, events)


def normalized_of(attributes: Attributes, *details: Attributes, others: Sequence[Event] = ()) -> NormalizedSpan:
    return normalize([span(attributes, *details, others=others)])[0]


def derived(spans: Sequence[Span]) -> list[Any]:
    """Return what is derived from spans, without the zero errors that any span with events has."""
    normalized_spans = normalize(spans)
    for normalized in normalized_spans:
        if not normalized.ag["metrics"]["errors"].get("incremental"):
            normalized.ag["metrics"]["errors"].pop("incremental", None)
    return [normalized._replace(sent=NO_ATTRIBUTES, flat=None) for normalized in normalized_spans]


def in_event(attributes: Attributes) -> tuple[Attributes, Attributes]:
    own = {key: value for key, value in attributes.items() if key.startswith("ag")}
    return own, {key: value for key, value in attributes.items() if key not in own}


def in_both(attributes: Attributes) -> tuple[Attributes, Attributes]:
    return attributes, attributes


def in_either(attributes: Attributes) -> tuple[Attributes, Attributes]:
    own, said = in_event(attributes)
    every_other = list(said)[::2]
    return own | {key: said.pop(key) for key in every_other}, said


PARTED = pytest.mark.parametrize("parted", [in_event, in_both, in_either])


@PARTED
@pytest.mark.parametrize("name", MAPPED)
def test_attribute_in_an_event_is_one_of_the_span(name: str, parted: Callable[[Attributes], Any]) -> None:
    decision = DECISIONS[name]
    assert isinstance(decision, Mapped)
    attributes = {name.replace(VARIABLE, "user_name"): VALUES[name], **dict(decision.beside)}

    assert derived([span(*parted(attributes))]) == derived([span(attributes)])


@PARTED
@pytest.mark.parametrize("name", NAMES)
def test_real_spans_are_the_same_with_attributes_in_events(name: str, parted: Callable[[Attributes], Any]) -> None:
    spans = spans_of(name)
    given = []
    for sent in spans:
        own, said = parted(sent.attributes)
        given.append(sent._replace(attributes=own, events=(*sent.events, Event(DETAILS_EVENT, 0, said))))

    assert derived(given) == derived(spans)


@PARTED
def test_model_call_has_content_tools_finish_reasons_and_costs(parted: Callable[[Attributes], Any]) -> None:
    own, said = parted(CALL | CONTENT)
    sent = copy.deepcopy((own, said))

    normalized = normalized_of(own, said)

    ag = normalized.ag
    assert ag["data"] == DATA
    assert ag["meta"]["response"]["finish_reasons"] == ["stop"]
    assert ag["metrics"]["tokens"]["incremental"] == {"prompt": 100, "completion": 20, "total": 120, "cached": 40}
    assert ag["metrics"]["costs"] == normalized_of(CALL).ag["metrics"]["costs"] != {}
    assert normalized.usage_is_own == normalized_of(CALL).usage_is_own
    assert (own, said) == sent


def test_shown_attributes_are_those_of_the_span() -> None:
    normalized = normalized_of(CALL, CONTENT)

    assert normalized.sent == normalized_of(CALL).sent
    assert normalized.flat == CALL


def test_value_of_the_span_wins_then_that_of_the_first_event() -> None:
    first, second = ({"gen_ai.request.model": name, "gen_ai.response.id": name} for name in ("first", "second"))

    meta = normalized_of({"gen_ai.request.model": "own"}, first, second | {"gen_ai.response.model": "second"}).ag[
        "meta"
    ]

    assert meta == {"request": {"model": "own"}, "response": {"id": "first", "model": "second"}}


def test_events_with_one_part_each_are_put_together() -> None:
    assert normalized_of(CALL, *({key: value} for key, value in CONTENT.items())).ag["data"] == DATA


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([[USER], [ANSWER]], [USER, ANSWER]),
        ([[USER], json.dumps([USER])], [USER]),
        ([[USER], [USER, ANSWER]], [USER, ANSWER]),
        ([[USER, ANSWER], [USER]], [USER, ANSWER]),
        ([[USER], [ANSWER], [ANSWER]], [USER, ANSWER]),
        ([[USER], [ANSWER], [USER, ANSWER, SYSTEM]], [USER, ANSWER, SYSTEM]),
        ([[USER], [], "none", [ANSWER]], [USER, ANSWER]),
    ],
)
def test_messages_of_several_events_are_one_chat(sent: list[Any], expected: list[Any]) -> None:
    """Strands sends the result of a tool as the messages of a second event."""
    before = copy.deepcopy(sent)

    data = normalized_of(CALL, *({"gen_ai.input.messages": messages} for messages in sent)).ag["data"]

    assert data == {"inputs": {"messages": expected}}
    assert sent == before
    own = normalized_of(CALL | {"gen_ai.input.messages": [SYSTEM]}, *({"gen_ai.input.messages": it} for it in sent))
    assert own.ag["data"] == {"inputs": {"messages": [SYSTEM]}}


def test_value_of_the_span_in_an_older_spelling_counts_once() -> None:
    older = {"gen_ai.system": "openai", "gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 20}
    older |= {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hello."}

    ag = normalized_of(older, CALL | {"gen_ai.input.messages": [USER]}).ag

    assert ag["data"] == {"inputs": {"messages": [USER]}}
    assert ag["metrics"]["tokens"]["incremental"]["total"] == 120


def test_older_events_beside_details_double_nothing() -> None:
    older = [
        Event("gen_ai.user.message", 0, {"content": "Hello."}),
        Event("gen_ai.choice", 0, {"finish_reason": "stop", "message": '{"content": "Good day."}'}),
    ]

    assert normalized_of(CALL, CONTENT, others=older).ag["data"] == DATA


@pytest.mark.parametrize("parted", [in_event, in_both])
def test_unreadable_value_is_named_once_and_affects_no_other(parted: Callable[[Attributes], Any]) -> None:
    broken = {"gen_ai.output.messages": "[{", "gen_ai.usage.input_tokens": "many"}

    normalized = normalized_of(*parted(CALL | CONTENT | broken))

    assert sorted(normalized.mapping_errors) == ["not_a_count", "not_json"]
    assert normalized.ag["data"] == {name: member for name, member in DATA.items() if name != "outputs"}


def test_text_that_was_cut_off_gives_way_to_a_whole_one() -> None:
    cut = {key: value[:-5] for key, value in CONTENT.items()}

    for own, details in ((cut, [CONTENT]), ({}, [cut, CONTENT]), (CONTENT, [cut])):
        normalized = normalized_of(CALL | own, *details)

        assert normalized.ag["data"] == DATA
        assert not normalized.mapping_errors


def test_value_that_is_empty_is_none() -> None:
    assert normalized_of(CALL | dict.fromkeys(CONTENT), CONTENT | dict.fromkeys(CALL)).ag["data"] == DATA


def test_nested_attributes_count_as_flat_ones() -> None:
    flat = {"gen_ai.input.messages": [USER], "gen_ai.request.model": "of the event"}
    nested = {"gen_ai": {"input": {"messages": [USER]}, "request": {"model": "of the event"}}}
    own = {"gen_ai.request.model": "own"}
    own_nested = {"gen_ai": {"request": {"model": "own"}}}

    for span_attributes, said in ((own, nested), (own_nested, flat), (own_nested, nested)):
        ag = normalized_of(span_attributes, said).ag

        assert (ag["data"], ag["meta"]) == ({"inputs": {"messages": [USER]}}, {"request": {"model": "own"}})


def test_response_that_is_published_again_keeps_its_ag() -> None:
    first = normalized_of({}, CALL | CONTENT)

    again = normalized_of(first.attributes, CALL | CONTENT)

    assert (again.ag, again.metrics, again.usage_is_own) == (first.ag, first.metrics, first.usage_is_own)


@pytest.mark.parametrize("said", [{"ag": {"type": {"trace": "x"}}}, {"ag.data.outputs": "no"}, {"ag": "no"}])
def test_ag_in_an_event_is_not_read(said: Attributes) -> None:
    assert normalized_of(CALL, said | CONTENT).ag["data"] == DATA


def test_other_events_add_no_attributes() -> None:
    sent = dict(CALL)

    assert with_details(sent, [Event("gen_ai.evaluation.result", 0, {"gen_ai.response.id": "r"})]) is sent
    assert with_details(sent, [Event(DETAILS_EVENT, 0, CALL)]) is sent


@pytest.mark.parametrize("parted", [in_event, in_both])
@pytest.mark.parametrize("kind", [{"gen_ai.operation.name": "execute_tool"}, {"gen_ai.tool.name": "roll"}])
def test_message_of_a_tool_is_its_arguments_or_result(kind: Attributes, parted: Callable[[Attributes], Any]) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "roll", "arguments": {"sides": 6}}
    result = {"type": "tool_call_response", "id": "c1", "response": "4"}
    chat = {
        f"gen_ai.{name}.messages": [{"role": "tool", "parts": [part]}]
        for name, part in (("input", call), ("output", result))
    }

    assert normalized_of(*parted(kind | chat)).ag["data"] == {"inputs": {"sides": 6}, "outputs": "4"}


def test_error_of_an_event_is_the_failure_of_the_span() -> None:
    assert derived([span(CALL, {"error.type": "timeout"})]) == derived([span(CALL | {"error.type": "timeout"})])
