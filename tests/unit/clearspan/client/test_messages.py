"""The conversation of a trace has each message once, with what could command a terminal escaped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clearspan.client.messages import _Conversation

SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "Roll a die."}
CALLED = {"role": "assistant", "tool_calls": [{"id": "1", "name": "roll", "arguments": {"sides": 6}}]}
ROLLED = {"role": "tool", "name": "roll", "content": 4}
ANSWERED = {"role": "assistant", "content": "It is a 4."}


def call(inputs: list[Any], outputs: list[Any]) -> dict[str, Any]:
    data = {"inputs": {"messages": inputs}, "outputs": {"messages": outputs}}
    return {"span_id": "00000000000000a1", "span_name": "chat", "attributes": {"ag": {"data": data}}}


def printed(capsys: pytest.CaptureFixture[str], *calls: dict[str, Any], full: bool = False) -> str:
    conversation = _Conversation(is_full=full, as_json=False)
    for each in calls:
        conversation.print_call(each)
    return capsys.readouterr().out


def test_messages_of_earlier_calls_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    called = {**CALLED, "finish_reason": "tool_calls"}
    text = printed(capsys, call([SYSTEM, ASKED], [called]), call([SYSTEM, ASKED, CALLED, ROLLED], [ANSWERED]))

    assert text.count("Roll a die.") == 1
    assert '    calls roll {"sides": 6}\n' in text
    assert "  … 3 messages as before\n  tool roll\n    4\n  assistant\n    It is a 4.\n" in text


def test_same_message_later_in_a_conversation_is_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, call([ASKED], [ANSWERED]), call([SYSTEM, ASKED], [ANSWERED]))

    assert text.count("Roll a die.") == 2


def test_hostile_content_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = {"role": "user\x1b[2J", "content": "\x1b]0;t\x07\n\u202etxt\r[red]x"}
    text = printed(capsys, call([hostile], []))

    assert "user\\x1b[2J" in text
    assert "    \\x1b]0;t\\x07\n    \\u202etxt\\x0d[red]x\n" in text


def test_long_content_is_cut_unless_all_of_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    long = call([{"role": "user", "content": "x" * 5_000}], [])

    assert "… 3,000 more characters; --full shows them" in printed(capsys, long)
    assert "x" * 5_000 in printed(capsys, long, full=True)


@pytest.mark.parametrize("messages", [None, "text", [None, 3, "x"], [{}], [{"content": [None, 3, {"text": "t"}, {"a": 1}]}],
                                      [{"tool_calls": [None, {}, {"function": {"name": "f", "arguments": "{}"}}, {"function": 3}]}]])  # fmt: skip
def test_messages_of_any_shape_are_printed(messages: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, call(messages, messages))


def test_messages_as_json_name_their_span(capsys: pytest.CaptureFixture[str]) -> None:
    _Conversation(is_full=False, as_json=True).print_call(call([ASKED], []))

    assert json.loads(capsys.readouterr().out) == {
        "span_id": "00000000000000a1", "span_name": "chat", "side": "input", "message": ASKED,
    }  # fmt: skip
