"""Chats in values that may hold anything: which values are chats, and what becomes of them."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.semconv.chats import SAID_INPUTS, SAID_INPUTS_IN_JSON, SAID_OUTPUTS, TOOLS_OF_REQUEST, chat_in

ASKED = {"role": "user", "content": "Weather?"}
SAID = {"role": "assistant", "content": "Sunny."}
STOPPED = SAID | {"finish_reason": "stop"}
CALL = {"role": "assistant", "tool_calls": [{"id": "c1", "name": "get_weather", "arguments": {"city": "Lisbon"}}]}
RESULT = {"role": "tool", "content": "Sunny", "tool_call_id": "c1"}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}

CALL_OF_OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Lisbon"}'}}
    ],
}
CALL_OF_LANGCHAIN = {
    "content": "",
    "type": "ai",
    "tool_calls": [{"name": "get_weather", "args": {"city": "Lisbon"}, "id": "c1", "type": "tool_call"}],
}


def constructed(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a message as LangChain writes it: the class and the arguments of its constructor."""
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": arguments}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ([ASKED, CALL_OF_OPENAI, RESULT], [ASKED, CALL, RESULT]),
        (SAID, [SAID]),
        ({"messages": [ASKED]}, [ASKED]),
        ({"messages": [[ASKED], [SAID]]}, [ASKED, SAID]),
        ({"messages": [["user", "Weather?"], ["ai", "Sunny."]]}, [ASKED, SAID]),
        ({"messages": [[constructed("HumanMessage", content="Weather?", type="human")]]}, [ASKED]),
        ({"messages": [constructed("HumanMessage", content="Weather?")]}, [ASKED]),
        ({"messages": [{"type": "human", "data": {"content": "Weather?"}}]}, [ASKED]),
        ({"messages": [{"content": "Weather?", "type": "human"}, CALL_OF_LANGCHAIN]}, [ASKED, CALL]),
        ({"output": {"content": "Sunny", "type": "tool", "tool_call_id": "c1"}}, [RESULT]),
        ({"choices": [{"message": SAID, "finish_reason": "stop"}], "id": "x"}, [STOPPED]),
        (
            {
                "generations": [
                    [
                        {
                            "message": constructed("AIMessage", content="Sunny."),
                            "generation_info": {"finish_reason": "stop"},
                        }
                    ]
                ]
            },
            [STOPPED],
        ),
        (
            {
                "generations": [
                    {"message": {"type": "ai", "content": "Sunny.", "response_metadata": {"stop_reason": "end_turn"}}}
                ]
            },
            [STOPPED],
        ),
        ({"generations": [[{"text": "Sunny."}]]}, [SAID]),
        ({"system": "Be brief.", "messages": [ASKED]}, [{"role": "system", "content": "Be brief."}, ASKED]),
        ({"instructions": "Be brief.", "input": [ASKED]}, [{"role": "system", "content": "Be brief."}, ASKED]),
        ({"object": "response", "id": "r", "output": [{"type": "message", **SAID}]}, [SAID]),
    ],
)
def test_chats_have_their_messages_under_one_name(value: Any, messages: list[Any]) -> None:
    assert chat_in(value) == {"messages": messages}
    assert SAID_INPUTS.read(orjson.dumps(value).decode()) == {"messages": messages}


@pytest.mark.parametrize(
    "value",
    [
        {"city": "Lisbon"},
        {"role": "admin", "name": "Ada"},
        {"messages": "none"},
        {"messages": []},
        {"messages": [ASKED, {"id": 5}]},
        {"input": [{"name": "get_weather", "args": {}, "id": "c1", "type": "tool_call"}]},
        {"output": "21 °C"},
        {"generations": []},
        {"choices": []},
        {"choices": ["a", "b"]},
        [],
        ["user", "Weather?"],
        [{"id": 1, "text": "Lisbon"}],
        [{"role": "user", "content": [5]}],
        "Weather?",
        5,
        None,
    ],
)
def test_other_values_stay_as_they_were_sent(value: Any) -> None:
    assert chat_in(value) == value


def test_members_next_to_the_messages_stay_except_tools() -> None:
    request = {"messages": [ASKED], "tools": [TOOL], "model": "gpt-4o", "documents": [1]}

    assert chat_in(request) == {"messages": [ASKED], "model": "gpt-4o", "documents": [1]}
    assert TOOLS_OF_REQUEST.read(orjson.dumps(request).decode()) == [
        {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    ]
    assert TOOLS_OF_REQUEST.read("no tools") is None


@pytest.mark.parametrize(
    ("sent", "inputs", "outputs", "inputs_in_json"),
    [
        ("Weather?", {"value": "Weather?"}, "Weather?", {"value": "Weather?"}),
        ('"Weather?"', {"value": '"Weather?"'}, '"Weather?"', {"value": "Weather?"}),
        ("4", {"value": "4"}, "4", {"value": 4}),
        ('["a"]', {"value": ["a"]}, ["a"], {"value": ["a"]}),
        ('{"city": "Lisbon"}', {"city": "Lisbon"}, {"city": "Lisbon"}, {"city": "Lisbon"}),
        ('{"city": ', {"value": '{"city": '}, '{"city": ', {"value": '{"city": '}),
    ],
)
def test_texts_are_parsed_as_far_as_they_are_json(sent: str, inputs: Any, outputs: Any, inputs_in_json: Any) -> None:
    assert SAID_INPUTS.read(sent) == inputs
    assert SAID_OUTPUTS.read(sent) == outputs
    assert SAID_INPUTS_IN_JSON.read(sent) == inputs_in_json


MEMBERS = st.sampled_from(
    [
        "messages",
        "input",
        "output",
        "choices",
        "generations",
        "message",
        "role",
        "content",
        "type",
        "kwargs",
        "data",
        "id",
        "tools",
        "system",
        "instructions",
        "object",
        "tool_calls",
        "call_id",
        "summary",
        "text",
        "generation_info",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(
        [
            "user",
            "human",
            "ai",
            "function_call",
            "reasoning",
            "message",
            "function_call_output",
            "response",
            "web_search_call",
        ]
    )
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4), max_leaves=15
)


@given(VALUES)
def test_any_value_is_read_and_never_changed(value: Any) -> None:
    before = copy.deepcopy(value)

    chat_in(value)

    assert value == before
