"""Chats in the events of a span, for each generation; attributes win over them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from common.span import Event, LogMembers, Value
from ingest.semconv.events import data_of_events

ASKED = {"role": "user", "content": "Hello."}
SAID = {"role": "assistant", "content": "Good day."}
CHAT = {"inputs": {"messages": [ASKED]}, "outputs": {"messages": [SAID | {"finish_reason": "stop"}]}}
WITHOUT_CONTENT: list[Value] = [None, "a text", {"role": "user"}, []]
CALL = {"id": "c1", "name": "roll", "arguments": {"sides": 6}}


def events(*named: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event(name, 0, attributes) for name, attributes in named]


def logged(name: str, body: Value, **attributes: Any) -> Event:
    return Event(name, 0, {"gen_ai.system": "openai", **attributes}, log=LogMembers(body))


@pytest.mark.parametrize(
    "sent",
    [
        events(
            ("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role": "user", "content": "Hello."}]'}),
            (
                "gen_ai.content.completion",
                {"gen_ai.completion": '[{"role": "assistant", "content": "Good day.", "finish_reason": "stop"}]'},
            ),
        ),
        events(
            ("gen_ai.user.message", {"gen_ai.system": "openai", "content": "Hello."}),
            ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": '{"content": "Good day."}'}),
        ),
        events(
            ("gen_ai.user.message", {"role": "user", "content": "Hello."}),
            ("gen_ai.choice", {"finish_reason": "end_turn", "message": "Good day."}),
        ),
        events(
            ("gen_ai.user.message", {"content": "Hello."}),
            ("gen_ai.choice", {"finish_reason": "stop", "content": "Good day."}),
        ),
        [
            logged("gen_ai.user.message", {"content": "Hello."}),
            logged("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": SAID}),
        ],
        [
            logged("gen_ai.user.message", '{"role": "user", "content": "Hello."}'),
            logged("gen_ai.choice", {"finish_reason": "error", "message": SAID}, finish_reason="stop"),
        ],
    ],
)
def test_every_generation_gives_the_same_chat(sent: list[Event]) -> None:
    before = copy.deepcopy(sent)

    assert data_of_events(sent) == (CHAT, [])
    assert sent == before


def test_messages_with_calls_and_results_keep_the_order_of_events() -> None:
    function = '[{"id": "c1", "type": "function", "function": {"name": "roll", "arguments": "{\\"sides\\": 6}"}}]'
    sent = events(
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Hello."}),
        ("gen_ai.assistant.message", {"tool_calls": function}),
        ("gen_ai.tool.message", {"id": "c1", "content": "4"}),
        ("gen_ai.choice", {"finish_reason": "tool_calls", "tool_calls": function}),
    )

    data, mapping_errors = data_of_events(sent)

    assert data["inputs"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        ASKED,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
    ]
    assert data["outputs"]["messages"] == [{"role": "assistant", "tool_calls": [CALL], "finish_reason": "tool_call"}]
    assert not mapping_errors


@pytest.mark.parametrize(
    "sent",
    [
        [],
        events(
            ("exception", {"content": "x"}), ("gen_ai.unheard.of", {"content": "x"}), ("user.message", {"content": "x"})
        ),
        events(
            ("gen_ai.user.message", {}),
            ("gen_ai.tool.message", {"id": "c1"}),
            ("gen_ai.choice", {"finish_reason": "stop"}),
        ),
        events(("gen_ai.content.prompt", {})),
        [logged("gen_ai.user.message", body) for body in WITHOUT_CONTENT],
    ],
)
def test_events_without_content_map_to_nothing(sent: list[Event]) -> None:
    assert data_of_events(sent) == ({}, [])


def test_unreadable_event_is_counted_and_affects_no_other() -> None:
    sent = events(
        ("gen_ai.content.prompt", {"gen_ai.prompt": "[{"}),
        ("gen_ai.choice", {"finish_reason": "stop", "message": '{"content": "Good day."}'}),
    )

    assert data_of_events(sent) == ({"outputs": CHAT["outputs"]}, ["not_json"])
