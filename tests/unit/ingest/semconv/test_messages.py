"""Messages in one shape, from every spelling; a value that is not a message is unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.codec import span_json
from common.limits import SpanLimits
from common.nesting import nest
from common.span import Span
from ingest.normalize import normalize
from ingest.semconv import messages
from ingest.semconv.converters import VALUE_LEVELS_MAX
from ingest.semconv.messages import messages_of
from ingest.semconv.rows import MappingError
from ingest.semconv.tools import tool_offered
from tests.support.mapping import map_attributes

NOW_NS = 1_800_000_000_000_000_000
CALL = {"id": "c1", "name": "roll", "arguments": {"sides": 6}}


@pytest.mark.parametrize(
    "sent",
    [
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": CALL | {"id": None}}]},
        {"role": "assistant", "tool_calls": [{"id": "c1", "name": "roll", "arguments": '{"sides": 6}'}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "roll", "args": {"sides": 6}}]},
        {"role": "assistant", "parts": [{"type": "tool_call", **CALL}]},
        {"role": "assistant", "parts": [{"type": "tool_call", **CALL, "arguments": '{"sides": 6}'}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "roll", "input": {"sides": 6}}]},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "roll", "input": {"sides": 6}}],
        },
        {
            "message": {
                "role": "assistant",
                "tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "roll", "arguments": '{"sides": 6}'}}}],
            }
        },
        {
            "message": {
                "role": "assistant",
                "contents": [
                    {
                        "message_content": {"type": "tool_use"},
                        "tool_call": {"id": "c1", "function": {"name": "roll", "arguments": '{"sides": 6}'}},
                    }
                ],
                "tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "roll", "arguments": '{"sides": 6}'}}}],
            }
        },
        {"type": "ai", "data": {"content": "", "tool_calls": [CALL], "type": "ai", "name": None}},
        {"lc": 1, "type": "constructor", "kwargs": {"content": "", "type": "ai", "tool_calls": [CALL]}},
    ],
    ids=[
        "chat completions",
        "openllmetry",
        "langchain",
        "genai",
        "pydantic",
        "anthropic",
        "vercel",
        "openinference",
        "openinference twice",
        "langchain saved",
        "langchain constructor",
    ],
)
def test_tool_call_of_every_source_has_one_shape(sent: dict[str, Any]) -> None:
    assert messages_of([sent]) == [{"role": "assistant", "tool_calls": [CALL]}]


@pytest.mark.parametrize(
    "sent",
    [
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
        {"role": "tool", "content": "4", "id": "c1"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": "4"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "4"}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "4"}]}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": '"4"'}]},
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "4"}}],
        },
    ],
    ids=["chat completions", "pydantic events", "genai", "pydantic", "anthropic", "converse", "in quotes", "vercel"],
)
def test_tool_result_of_every_source_has_one_shape(sent: dict[str, Any]) -> None:
    assert messages_of([sent]) == [{"role": "tool", "content": "4", "tool_call_id": "c1"}]


@pytest.mark.parametrize("result", [{"a": [1]}, ["x", {"y": 1}], 4, False, "[1]"])
def test_tool_result_is_not_changed(result: Any) -> None:
    assert messages_of([{"role": "tool", "content": result, "id": "c"}])[0]["content"] == result
    part = {"type": "tool_call_response", "id": "c", "response": result}
    assert messages_of([{"role": "tool", "parts": [part]}])[0]["content"] == result


def result(call_id: str | None, response: Any) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": call_id, "response": response}


@pytest.mark.parametrize(
    ("parts", "read"),
    [
        (
            [result("c1", "4"), result("c2", "5")],
            [
                {"role": "tool", "content": "4", "tool_call_id": "c1"},
                {"role": "tool", "content": "5", "tool_call_id": "c2"},
            ],
        ),
        (
            [result("c1", "4"), result("c1", "5")],
            [
                {
                    "role": "tool",
                    "parts": [{"type": "text", "content": "4"}, {"type": "text", "content": "5"}],
                    "tool_call_id": "c1",
                }
            ],
        ),
        ([result("c1", [4]), result("c1", "5")], [{"role": "tool", "content": [[4], "5"], "tool_call_id": "c1"}]),
        (
            [{"type": "text", "content": "Rolled."}, result("c1", "4")],
            [
                {
                    "role": "tool",
                    "parts": [{"type": "text", "content": "Rolled."}, {"type": "text", "content": "4"}],
                    "tool_call_id": "c1",
                }
            ],
        ),
    ],
    ids=["two calls", "one call", "one call with values", "a text and a result"],
)
def test_parts_of_a_tool_message_are_one_message_for_each_call(parts: list[Any], read: list[Any]) -> None:
    assert messages_of([{"role": "tool", "parts": parts}]) == read


def test_text_calls_and_results_of_one_message_are_separated() -> None:
    sent = {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "Let me see."},
            {"type": "tool_call", **CALL},
            {"type": "tool_call_response", "id": "c1", "response": 4},
        ],
        "finish_reason": "tool_calls",
    }

    assert messages_of([sent]) == [
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL], "finish_reason": "tool_call"},
        {"role": "tool", "content": 4, "tool_call_id": "c1"},
    ]


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        type(self).comparisons += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def test_many_calls_in_one_message_take_linear_time() -> None:
    sent = [{"id": CountedText(number), "name": "roll"} for number in range(1_000)]
    parts = [{"type": "tool_call", **call} for call in sent]

    (message,) = messages_of([{"role": "assistant", "parts": parts, "tool_calls": sent}])

    assert len(message["tool_calls"]) == 1_000
    assert CountedText.comparisons < 10_000


@pytest.mark.parametrize("key", ["tool_calls", "parts"])
def test_calls_with_equal_ids_in_one_list_are_all_kept(key: str) -> None:
    ids = [[1], [1], {"a": 1}, 5, 5, "", "", None, None]
    sent = [{"type": "tool_call", "id": sent_id, "name": "roll"} for sent_id in ids]

    (message,) = messages_of([{"role": "assistant", key: sent}])

    assert [call.get("id") for call in message["tool_calls"]] == ids


@pytest.mark.parametrize(
    ("outside", "count"),
    [(CALL, 1), (CALL | {"name": "toss"}, 2), (CALL | {"arguments": {"sides": 8}}, 2), (CALL | {"id": "c2"}, 2)],
)
def test_call_outside_the_parts_is_the_same_only_if_it_is_equal(outside: dict[str, Any], count: int) -> None:
    (message,) = messages_of([{"role": "assistant", "parts": [{"type": "tool_call", **CALL}], "tool_calls": [outside]}])

    assert len(message["tool_calls"]) == count


def test_call_without_an_id_is_never_the_same() -> None:
    call = CALL | {"id": ""}

    (message,) = messages_of([{"role": "assistant", "parts": [{"type": "tool_call", **call}], "tool_calls": [call]}])

    assert message["tool_calls"] == [call, call]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("x", {"content": "x"}),
        ("", {"content": ""}),
        (["x"], {"content": "x"}),
        ([{"type": "input_text", "text": "x"}], {"content": "x"}),
        (
            [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
            {"parts": [{"type": "text", "content": "x"}, {"type": "text", "content": "y"}]},
        ),
        (
            [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "x"}],
            {"parts": [{"type": "reasoning", "content": "hm", "signature": "s"}, {"type": "text", "content": "x"}]},
        ),
        (
            [{"type": "image_url", "image_url": {"url": "u"}}],
            {"parts": [{"type": "image_url", "image_url": {"url": "u"}}]},
        ),
        ([{"future": 1}], {"parts": [{"future": 1}]}),
        ({"a": 1}, {"content": {"a": 1}}),
        ([], {}),
        (None, {}),
    ],
)
def test_message_of_every_source_has_one_shape(content: Any, shown: dict[str, Any]) -> None:
    assert messages_of([{"role": "user", "content": content}]) == [{"role": "user"} | shown]


def test_messages_in_json_an_array_and_numbered_members_are_equal() -> None:
    sent = [{"role": "user", "content": str(number)} for number in range(12)]

    assert messages_of(sent) == sent
    assert messages_of(json.dumps(sent)) == sent
    assert messages_of(dict(reversed([(str(number), message) for number, message in enumerate(sent)]))) == sent
    assert messages_of({"7": sent[7], "10": sent[10]}) == [sent[7], sent[10]]
    assert messages_of({"9" * 5_000: sent[0]}) == [sent[0]]


def test_incomplete_numbered_calls_and_parts_are_read_in_order() -> None:
    sent = {
        "llm.input_messages.0.message.role": "assistant",
        "llm.input_messages.0.message.contents.10.message_content.type": "text",
        "llm.input_messages.0.message.contents.10.message_content.text": "Last.",
        "llm.input_messages.0.message.contents.2.message_content.type": "text",
        "llm.input_messages.0.message.contents.2.message_content.text": "First.",
        "llm.input_messages.0.message.tool_calls.1.tool_call.function.name": "roll",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.1.name": "roll",
        "llm.tools.10.tool.json_schema": '{"name": "last"}',
        "llm.tools.2.tool.json_schema": '{"name": "first"}',
    }

    mapped = map_attributes(sent, nest(sent))

    assert mapped is not None
    assert mapped.mapping_errors == []
    assert mapped.ag["data"] == {
        "inputs": {
            "messages": [
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": "First."}, {"type": "text", "content": "Last."}],
                    "tool_calls": [{"name": "roll"}],
                }
            ]
        },
        "outputs": {"messages": [{"role": "assistant", "tool_calls": [{"name": "roll"}]}]},
        "parameters": {"tools": [{"name": "first"}, {"name": "last"}]},
    }


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("Hello.", "not_json"),
        ("[", "not_json"),
        ("5", "not_messages"),
        (5, "not_messages"),
        ({"role": "user"}, "not_messages"),
        (["Hello."], "not_messages"),
        ([{"role": ["user"]}], "not_text"),
        ([{"role": "user", "content": [5]}], "not_messages"),
        ([{"role": "user", "tool_calls": "many"}], "not_messages"),
        ([{"role": "user", "tool_calls": ["one"]}], "not_messages"),
        ([{"role": "user", "tool_calls": [{"tool_call": 5}]}], "not_messages"),
        ([{"role": "user", "contents": [{"message_content": 5}]}], "not_messages"),
    ],
)
def test_value_that_is_not_a_message_is_a_mapping_error(sent: Any, reason: str) -> None:
    with pytest.raises(MappingError) as caught:
        messages_of(sent)

    assert caught.value.reason == reason


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_values_in_messages_are_as_deep_as_a_response_may_be() -> None:
    def call(arguments: Any) -> list[dict[str, Any]]:
        return messages_of([{"role": "a", "tool_calls": [{"name": "t", "arguments": arguments}]}])

    deepest, too_deep = nested(VALUE_LEVELS_MAX), nested(VALUE_LEVELS_MAX + 1)

    assert call(deepest) == call(json.dumps(deepest))
    assert call(json.dumps(too_deep))[0]["tool_calls"][0]["arguments"] == json.dumps(too_deep)
    with pytest.raises(MappingError, match="too_deep"):
        call(too_deep)


WORDS = st.sampled_from(["user", "tool", "", "text", "x"])
PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "role": WORDS | st.none() | st.just(5),
        "content": WORDS | st.none(),
        "parts": st.lists(
            st.fixed_dictionaries({"type": WORDS}, optional={"content": WORDS, "text": WORDS}), max_size=2
        ),
        "tool_call_id": WORDS | st.none() | st.just(5),
        "message": st.fixed_dictionaries(
            {}, optional={"role": WORDS, "content": WORDS, "name": WORDS, "tool_call_id": WORDS}
        ),
    },
)


@given(PLAIN)
@example({"role": "tool", "content": "5", "tool_call_id": "call"})
@example({"role": "tool", "content": "5", "tool_call_id": ""})
@example({"role": "user", "content": "5", "tool_call_id": "call"})
def test_fast_path_gives_the_same_messages(sent: dict[str, Any]) -> None:
    short = messages._plain(sent)

    assert short is None or [short] == list(messages._messages(sent))


@pytest.mark.parametrize(
    "sent",
    [
        {"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}},
        {"type": "function", "name": "t", "description": "d", "inputSchema": {"type": "object"}},
        {"type": "function", "name": "t", "description": "d", "input_schema": '{"type": "object"}'},
        {
            "tool": {
                "json_schema": '{"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}}'
            }
        },
        '{"type": "function", "name": "t", "description": "d", "parameters": {"type": "object"}}',
    ],
    ids=["chat completions", "vercel", "openllmetry", "openinference", "text"],
)
def test_offered_tool_of_every_source_has_one_shape(sent: Any) -> None:
    shown = {"type": "function", "name": "t", "description": "d", "parameters": {"type": "object"}}

    assert tool_offered(sent) == shown


def said(**attributes: Any) -> Any:
    flat = {key.replace("__", "."): value for key, value in attributes.items()}
    mapped = map_attributes(flat, nest(flat))
    return mapped and (mapped.ag.get("data"), mapped.mapping_errors)


@pytest.mark.parametrize(
    ("instructions", "says"),
    [
        ('[{"type": "text", "content": "Be brief."}]', "Be brief."),
        ("Be brief.", "Be brief."),
        (["Be brief."], "Be brief."),
    ],
)
def test_instructions_come_first(instructions: Any, says: str) -> None:
    chat = '[{"role": "user", "parts": [{"type": "text", "content": "?"}]}]'
    system, user = {"role": "system", "content": says}, {"role": "user", "content": "?"}

    assert said(gen_ai__system_instructions=instructions, gen_ai__input__messages=chat) == (
        {"inputs": {"messages": [system, user]}},
        [],
    )
    assert said(gen_ai__system_instructions=instructions) == ({"inputs": {"messages": [system]}}, [])


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_that_the_messages_show_are_taken_once(role: str) -> None:
    chat = json.dumps([{"role": role, "content": "Be brief."}, {"role": "user", "content": "?"}])

    data, _ = said(gen_ai__system_instructions="Be brief.", gen_ai__input__messages=chat)

    assert data["inputs"]["messages"] == json.loads(chat)


def test_messages_without_content_do_not_replace_an_older_spelling() -> None:
    older = {"gen_ai__completion__0__role": "assistant", "gen_ai__completion__0__tool_calls__0__name": "roll"}
    empty = '[{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]'

    data, _ = said(**older, gen_ai__output__messages=empty)

    assert data["outputs"] == {"messages": [{"role": "assistant", "tool_calls": [{"name": "roll"}]}]}


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ('[{"text": "Hello."}]', {"content": "Hello."}),
        ('[{"type": "text", "text": "Hello."}]', {"content": "Hello."}),
        ('[{"type": "fruit"}]', {"content": '[{"type": "fruit"}]'}),
        ("[1]", {"content": "[1]"}),
        ("[", {"content": "["}),
    ],
)
def test_parts_in_the_text_of_a_numbered_message_are_read(content: str, read: dict[str, Any]) -> None:
    attributes = {"gen_ai__prompt__0__role": "user", "gen_ai__prompt__0__content": content}

    assert said(**attributes) == ({"inputs": {"messages": [{"role": "user", **read}]}}, [])


def test_value_is_read_by_its_mime_type() -> None:
    value = '{"city": "Porto"}'

    assert said(input__value=value, input__mime_type="application/json") == ({"inputs": {"city": "Porto"}}, [])
    assert said(input__value=value, input__mime_type="text/plain") == ({"inputs": {"value": value}}, [])
    assert said(input__value=value) == ({"inputs": {"value": value}}, [])
    assert said(input__value="[1]", input__mime_type="application/json") == ({"inputs": {"value": [1]}}, [])
    assert said(output__value="4", output__mime_type="application/json") == ({"outputs": 4}, [])
    assert said(output__value="4") == ({"outputs": "4"}, [])
    assert said(input__value="{", input__mime_type="application/json") == ({"inputs": {"value": "{"}}, ["not_json"])


def test_readable_messages_of_a_raw_request_are_a_chat() -> None:
    readable = '{"model": "m", "messages": [{"type": "human", "data": {"content": "?"}}]}'
    other = '{"messages": [[1]]}'

    assert said(input__value=readable, input__mime_type="application/json") == (
        {"inputs": {"model": "m", "messages": [{"role": "user", "content": "?"}]}},
        [],
    )
    assert said(input__value=other, input__mime_type="application/json") == ({"inputs": json.loads(other)}, [])


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"message": {"role": "user", "content": "x"}}, {"role": "user", "content": "x"}),
        (
            {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"},
            {"role": "assistant", "content": "x", "finish_reason": "stop"},
        ),
        (
            {"role": "tool", "content": "4", "tool_call_id": "c1", "name": "roll"},
            {"role": "tool", "content": "4", "tool_call_id": "c1", "name": "roll"},
        ),
        (
            {"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "c1"},
            {"role": "tool", "content": "4", "tool_call_id": "c1"},
        ),
        ({"role": "tool", "content": "4", "tool_call_id": 7}, {"role": "tool", "content": "4", "tool_call_id": "7"}),
        ({"role": "user", "content": "x", "name": "Ann"}, {"role": "user", "content": "x", "name": "Ann"}),
        ({"role": "user", "parts": [{"type": "text", "content": "x"}]}, {"role": "user", "content": "x"}),
        (
            {"role": "user", "parts": [{"type": "text", "content": "x"}, {"type": "text", "content": "y"}]},
            {"role": "user", "parts": [{"type": "text", "content": "x"}, {"type": "text", "content": "y"}]},
        ),
        (
            {"role": "user", "parts": [{"type": "uri", "content": "x"}]},
            {"role": "user", "parts": [{"type": "uri", "content": "x"}]},
        ),
        (
            {"role": "user", "parts": [{"type": "text", "content": "x", "cache": True}]},
            {"role": "user", "content": "x"},
        ),
        ({"role": "user", "parts": ["ab"]}, {"role": "user", "content": "ab"}),
        ({"role": "user", "parts": []}, {"role": "user"}),
        ({"type": "human", "content": "x"}, {"role": "user", "content": "x"}),
        ({"role": "user", "content": "x", "id": "m1"}, {"role": "user", "content": "x"}),
        ({"role": "tool", "content": "4", "id": "c1"}, {"role": "tool", "content": "4", "tool_call_id": "c1"}),
        (
            {"role": "assistant", "content": "x", "finish_reason": "stop"},
            {"role": "assistant", "content": "x", "finish_reason": "stop"},
        ),
        ({"role": "user", "content": "x", "data": {"content": "y"}}, {"role": "user", "content": "x"}),
        (
            {"role": "assistant", "content": "I roll.", "tool_calls": [CALL]},
            {"role": "assistant", "content": "I roll.", "tool_calls": [CALL]},
        ),
        (
            {"role": "assistant", "content": "", "finish_reason": "stop"},
            {"role": "assistant", "content": "", "finish_reason": "stop"},
        ),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]},
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}]},
        ),
        ({"role": "tool", "content": [{"sides": 6}]}, {"role": "tool", "content": [{"sides": 6}]}),
        ({"role": "tool", "content": ["type"]}, {"role": "tool", "content": ["type"]}),
        ({"role": "", "content": "x"}, {"content": "x"}),
        ({"role": 7, "content": "x"}, {"role": "7", "content": "x"}),
        ({"message": "x"}, {}),
    ],
)
def test_no_member_of_a_simple_message_is_lost(sent: dict[str, Any], read: dict[str, Any]) -> None:
    assert messages_of([sent]) == [read]


@pytest.mark.parametrize("sent", [5, None, True, "x", ["x"], {"role": "assistant", "tool_calls": 5}])
def test_value_that_is_not_an_object_is_not_a_message(sent: Any) -> None:
    with pytest.raises(MappingError, match="not_messages"):
        messages_of([{"role": "user", "content": "x"}, sent])


@pytest.mark.parametrize("sent", ["5", "{}", "[5]"])
def test_values_that_are_not_objects_are_not_events(sent: str) -> None:
    flat = {"events": sent, "logfire.msg": "x"}
    mapped = map_attributes(flat, nest(flat))

    assert mapped is not None
    assert mapped.mapping_errors == ["not_messages"]


@pytest.mark.parametrize(
    "sent", [{"role": "user", "content": "4", "name": ""}, {"role": "tool", "content": "4", "id": ""}]
)
def test_empty_name_or_id_is_left_out(sent: dict[str, Any]) -> None:
    assert messages_of([sent]) == [{"role": sent["role"], "content": "4"}]


def test_raw_request_is_used_if_messages_are_empty() -> None:
    flat = {"llm.input_messages.0.message.role": "user", "input.value": "?"}

    assert map_attributes(flat, nest(flat)) == ({"data": {"inputs": {"value": "?"}}}, [])


def test_deepest_values_can_be_published_again() -> None:
    """``span_json`` takes an ``ag`` of 24 levels and the three around ``ag.data.inputs``."""
    deepest = {"llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments": nested(VALUE_LEVELS_MAX)}
    too_deep = {"llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments": nested(VALUE_LEVELS_MAX + 1)}
    (normalized,) = normalize([a_span(deepest)])
    assert "inputs" in normalized.attributes["ag"]["data"]
    answer = {
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "start_time": "2026-01-01T00:00:00Z",
        "attributes": {"ag": normalized.attributes["ag"]},
    }

    decoded = span_json.decode(json.dumps(answer).encode(), limits=SpanLimits(), now_ns=NOW_NS, sent_ns=NOW_NS)

    assert decoded.rejections.in_full == []
    assert decoded.spans[0].attributes["ag"] == normalized.attributes["ag"]
    assert normalize([a_span(too_deep)])[0].mapping_errors == ["too_deep"]


def a_span(attributes: dict[str, Any]) -> Span:
    return Span(bytes(15) + b"a", bytes(15) + b"b", None, "work", 0, NOW_NS, NOW_NS, 0, None, attributes)
