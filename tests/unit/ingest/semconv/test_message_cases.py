"""Cases of messages that were read wrongly; the right values were given with each case."""

from __future__ import annotations

from typing import Any

import pytest

from common.span import Event, Span
from ingest.normalize import normalize
from tests.support.reported_cases import ags_of

CALL = {"id": "c1", "name": "get_weather", "arguments": {"city": "Zürich"}}
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "?"}
DETAILS = "gen_ai.client.inference.operation.details"


def test_parallel_calls_that_share_an_id_are_all_kept() -> None:
    for ag in ags_of("parallel-calls-with-one-id"):
        (message,) = ag["data"]["outputs"]["messages"]

        assert [call["arguments"] for call in message["tool_calls"]] == [{"city": "Lisbon"}, {"city": "Oslo"}]


def test_instructions_of_a_span_come_before_the_messages_of_its_events() -> None:
    (ag,) = ags_of("instructions-on-the-span")

    assert ag["data"] == {
        "inputs": {
            "messages": [
                {"role": "system", "content": "Answer about weather"},
                {"role": "user", "content": "How is it in Lisbon?"},
            ]
        },
        "outputs": {"messages": [{"role": "assistant", "content": "Sunny.", "finish_reason": "stop"}]},
    }


def data_of(attributes: dict[str, Any], *events: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    sent = tuple(Event(name, 0, said) for name, said in events)
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, attributes, events=sent)])
    data: dict[str, Any] = normalized.attributes["ag"]["data"]
    return data


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"gen_ai.system_instructions": "Be brief."}, {"gen_ai.input.messages": [USER]}),
        ({"gen_ai.input.messages": [USER]}, {"gen_ai.system_instructions": "Be brief."}),
        ({"gen_ai.system_instructions": "Be brief."}, {"gen_ai.input.messages": [SYSTEM, USER]}),
        (
            {"gen_ai.input.messages": [SYSTEM, USER]},
            {"gen_ai.system_instructions": "Be brief.", "gen_ai.input.messages": [USER]},
        ),
    ],
    ids=["instructions on the span", "instructions in the event", "also in the messages", "both on the span"],
)
def test_instructions_and_messages_are_one_chat(attributes: dict[str, Any], said: dict[str, Any]) -> None:
    assert data_of(attributes, (DETAILS, said)) == {"inputs": {"messages": [SYSTEM, USER]}}


def test_content_blocks_of_converse_are_messages_and_calls() -> None:
    chat, tool = ags_of("converse-blocks")

    assert chat["data"] == {
        "inputs": {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c0", "name": "get_weather", "arguments": {"city": "Bern"}}],
                },
                {"role": "tool", "content": "20 °C", "tool_call_id": "c0"},
            ]
        },
        "outputs": {"messages": [{"role": "assistant", "tool_calls": [CALL], "finish_reason": "tool_call"}]},
    }
    assert tool["data"] == {"inputs": {"city": "Zürich"}, "outputs": "21 °C"}


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ([{"toolResult": {"toolUseId": "c", "content": [{"json": {"t": 4}}]}}], {"t": 4}),
        ([{"toolResult": {"toolUseId": "c", "content": [{"text": ""}]}}], ""),
        (
            [{"toolResult": {"toolUseId": "c", "content": [{"text": "a"}, {"text": "b"}]}}],
            [{"text": "a"}, {"text": "b"}],
        ),
        ([{"toolResult": {"toolUseId": "c", "content": [{"image": {}}]}}], [{"image": {}}]),
    ],
)
def test_result_of_one_block_is_its_value(content: Any, read: Any) -> None:
    chat = {"gen_ai.input.messages": [{"role": "user", "content": content}]}

    assert data_of(chat)["inputs"]["messages"] == [{"role": "tool", "content": read, "tool_call_id": "c"}]


def test_block_in_a_result_of_the_conventions_is_its_value() -> None:
    """Strands writes Converse's blocks as the response of a part."""
    part = {"type": "tool_call_response", "id": "c", "response": [{"text": "21 °C"}]}
    chat = {"gen_ai.input.messages": [{"role": "tool", "parts": [part]}]}

    assert data_of(chat)["inputs"]["messages"] == [{"role": "tool", "content": "21 °C", "tool_call_id": "c"}]


def test_block_that_is_the_result_of_a_tool_is_its_value() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": '[{"text": "21 °C"}]'}

    assert data_of(tool)["outputs"] == "21 °C"


def test_other_blocks_of_converse_are_kept() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "x"}},
        {"image": {"format": "png"}},
        {"toolUse": "?"},
    ]

    (message,) = data_of({"gen_ai.input.messages": [{"role": "user", "content": content}]})["inputs"]["messages"]

    assert message["parts"] == [{"type": "reasoning", "content": "hm", "signature": "s"}, *content[1:]]


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (
            {"gen_ai.input.messages": [{"role": "tool", "parts": [{"type": "tool_call", **CALL}]}]},
            {
                "gen_ai.output.messages": [
                    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "21 °C"}]}
                ]
            },
        ),
        (
            {"gen_ai.input.messages": [{"role": "user", "content": '{"city": "Zürich"}'}]},
            {"gen_ai.output.messages": [{"role": "tool", "content": '"21 °C"'}]},
        ),
    ],
)
def test_events_of_a_tool_are_its_arguments_and_result(arguments: dict[str, Any], result: dict[str, Any]) -> None:
    data = data_of({"gen_ai.operation.name": "execute_tool"}, (DETAILS, arguments), (DETAILS, result))

    assert data == {"inputs": {"city": "Zürich"}, "outputs": "21 °C"}


def test_arguments_in_attributes_win_over_events() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": '{"city": "Bern"}'}

    data = data_of(attributes, ("gen_ai.tool.message", {"content": '{"city": "Zürich"}'}))

    assert data == {"inputs": {"city": "Bern"}}


def test_answer_at_the_end_of_a_list_of_events_is_the_output() -> None:
    (answer,) = ags_of("logfire-answer")
    (call,) = ags_of("logfire-tool-call")

    assert answer["data"] == {
        "inputs": {"messages": [{"role": "system", "content": "Answer"}, {"role": "user", "content": "Weather?"}]},
        "outputs": {"messages": [{"role": "assistant", "content": "Sunny in Lisbon.", "finish_reason": "stop"}]},
    }
    assert call["data"] == {
        "inputs": {"messages": [SYSTEM, {"role": "user", "content": "Weather?"}]},
        "outputs": {"messages": [{"role": "assistant", "tool_calls": [CALL]}]},
    }


@pytest.mark.parametrize(
    ("attributes", "is_answered"),
    [({"gen_ai.response.id": "r"}, True), ({"gen_ai.usage.output_tokens": 5}, True), ({"gen_ai.system": "x"}, False)],
)
def test_assistant_message_at_the_end_is_an_input_without_a_response(
    attributes: dict[str, Any], is_answered: bool
) -> None:
    asked, said = {"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good"}
    listed = [{"event.name": f"gen_ai.{message['role']}.message", **message} for message in (asked, said)]
    chat = {"inputs": {"messages": [asked]}, "outputs": {"messages": [said]}}

    expected = chat if is_answered else {"inputs": {"messages": [asked, said]}}
    assert data_of({**attributes, "events": listed}) == expected
    assert data_of(attributes, *((event["event.name"], event) for event in listed)) == expected
