"""Items of OpenAI's Responses API among messages."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.semconv.messages import messages_of

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather", "arguments": '{"city":"Lisbon"}'}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]}
TOOL_CALL = {"id": "c1", "name": "get_weather", "arguments": {"city": "Lisbon"}}


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ([CALL], [{"role": "assistant", "tool_calls": [TOOL_CALL]}]),
        ([CALL, SAID], [{"role": "assistant", "content": "One moment.", "tool_calls": [TOOL_CALL]}]),
        (
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look it up."}]}, CALL],
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "reasoning", "content": "Look it up."}],
                    "tool_calls": [TOOL_CALL],
                }
            ],
        ),
        ([{"type": "reasoning", "summary": []}, SAID], [{"role": "assistant", "content": "One moment."}]),
        (
            [
                {"role": "user", "content": "Weather?"},
                CALL,
                {"type": "function_call_output", "call_id": "c1", "output": "Sunny"},
                SAID,
            ],
            [
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "tool_calls": [TOOL_CALL]},
                {"role": "tool", "content": "Sunny", "tool_call_id": "c1"},
                {"role": "assistant", "content": "One moment."},
            ],
        ),
        (
            [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, SAID],
            [
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
                        {"type": "text", "content": "One moment."},
                    ],
                }
            ],
        ),
    ],
)
def test_items_of_an_answer_are_one_message(items: list[Any], messages: list[Any]) -> None:
    assert messages_of(items) == messages


def test_call_of_langchain_is_no_item() -> None:
    sent = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "args": {}, "id": "c1", "type": "tool_call"}]}
    ]

    assert messages_of(sent) == [{"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "arguments": {}}]}]
