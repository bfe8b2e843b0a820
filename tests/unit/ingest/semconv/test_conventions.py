"""Real spans of each instrumentation: the expected ``ag`` was written by hand from what they sent."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ingest.normalize import normalize
from tests.support.sample_records import NAMES, ag_named, normal_named, normals_of, spans_of, spans_of_json

HOW_OF_PORTO = [
    {"role": "system", "content": "You are a friendly guide to European cities."},
    {"role": "user", "content": "Describe Porto in one sentence."},
]
PORTO = "Porto lies on the Douro, is known for its bridges and tiled churches, and is best seen on foot."
WEATHER_CALL = {"id": "call_000044", "name": "get_weather", "arguments": {"city": "Porto", "unit": "celsius"}}
TRAM_CALL = {"id": "call_000045", "name": "get_tram_times", "arguments": {"line": 1, "stop": "Passeio Alegre"}}


def own(ag: dict[str, Any]) -> dict[str, Any]:
    """Return what the span itself reports, without what the server computes, such as costs."""
    metrics = {
        name: {"incremental": found["incremental"]}
        for name, found in ag["metrics"].items()
        if "incremental" in found and name in ("tokens", "errors")
    }
    meta = {name: member for name, member in ag.get("meta", {}).items() if name != "cost_source"}
    said = ag | {"metrics": metrics, "meta": meta, "type": ag["type"].get("span")}
    return {name: member for name, member in said.items() if member}


def test_openinference_maps_a_chat() -> None:
    assert own(ag_named("openinference-openai-01", "ChatCompletion")) == {
        "type": "chat",
        "data": {
            "inputs": {"messages": HOW_OF_PORTO},
            "outputs": {"messages": [{"role": "assistant", "content": PORTO, "finish_reason": "stop"}]},
            "parameters": {
                "prompt_template": {
                    "template": "Describe {city} in one sentence.",
                    "version": "v3",
                    "variables": {"city": "Porto"},
                }
            },
        },
        "metrics": {
            "tokens": {"incremental": {"prompt": 35, "completion": 23, "total": 58, "cached": 0, "reasoning": 0}}
        },
        "session": {"id": "session-7f31"},
        "user": {"id": "traveller-12"},
        "tags": {"guide": True, "portugal": True},
        "meta": {
            "system": "openai",
            "request": {"model": "gpt-4o-mini", "max_tokens": 120, "temperature": 0.2},
            "response": {"model": "gpt-4o-mini-2024-07-18", "finish_reasons": ["stop"]},
            "channel": "web",
            "beta": True,
            "attempt": 2,
        },
    }


def test_openinference_maps_tool_calls() -> None:
    first_call = ag_named("openinference-openai-01", "ChatCompletion", at=2)
    second_call = ag_named("openinference-openai-01", "ChatCompletion", at=3)
    assistant = {"role": "assistant", "tool_calls": [WEATHER_CALL, TRAM_CALL]}

    assert first_call["data"]["outputs"] == {"messages": [assistant | {"finish_reason": "tool_call"}]}
    assert [tool["name"] for tool in first_call["data"]["parameters"]["tools"]] == ["get_weather", "get_tram_times"]
    assert first_call["data"]["parameters"]["tools"][1] == {
        "type": "function",
        "name": "get_tram_times",
        "description": "The next trams",
        "parameters": {"type": "object", "properties": {"line": {"type": "integer"}, "stop": {"type": "string"}}},
    }
    assert second_call["data"]["inputs"]["messages"][1:] == [
        assistant,
        {"role": "tool", "tool_call_id": "call_000044", "content": '{"temperature": 19, "sky": "cloudy"}'},
        {"role": "tool", "tool_call_id": "call_000045", "content": '{"next": ["10:20", "10:40"]}'},
    ]


def test_openinference_maps_tool_agent_and_embeddings() -> None:
    tool = ag_named("openinference-openai-01", "get_weather")
    agent = ag_named("openinference-openai-01", "guide_agent")
    embeddings = ag_named("openinference-openai-01", "CreateEmbeddings")

    assert own(tool) == {
        "type": "tool",
        "data": {"inputs": {"city": "Porto", "unit": "celsius"}, "outputs": '{"temperature": 19, "sky": "cloudy"}'},
        "meta": {"tool": {"name": "get_weather"}},
    }
    assert agent["type"]["span"] == "agent"
    assert agent["data"]["inputs"] == {"value": "Do I need a jacket in Porto, and when does the tram leave?"}
    assert agent["data"]["outputs"].startswith("It is 19 degrees")
    assert own(embeddings) == {
        "type": "embedding",
        "data": {"inputs": {"value": ["A bridge of iron over the Douro", "Azulejos no átrio da estação"]}},
        "metrics": {"tokens": {"incremental": {"prompt": 14, "total": 14}}},
        "meta": {
            "system": "openai",
            "request": {"model": "text-embedding-3-small", "dimensions": 8, "encoding_format": "base64"},
            "response": {"model": "text-embedding-3-small"},
        },
    }


def test_openinference_maps_thinking_and_cached_tokens() -> None:
    thought = ag_named("openinference-anthropic-01", "messages.create", at=3)
    cached = ag_named("openinference-anthropic-01", "messages.create")

    assert thought["data"]["outputs"]["messages"] == [
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "reasoning",
                    "content": "The reader asks for a season. Frost points to winter.",
                    "signature": "c2lnbmF0dXJl",
                },
                {"type": "text", "content": "Frost is a word of the winter season."},
            ],
            "finish_reason": "stop",
        }
    ]
    assert cached["metrics"]["tokens"]["incremental"] == {
        "prompt": 166,
        "completion": 22,
        "total": 188,
        "cached": 120,
        "cache_write": 30,
    }


def test_langgraph_messages_in_the_raw_input_are_mapped() -> None:
    agent = ag_named("langgraph-rag-01", "desk_agent")
    retriever = ag_named("langgraph-rag-01", "VectorStoreRetriever")

    assert agent["session"] == {"id": "thread-5"}
    assert agent["data"]["inputs"] == {"messages": [{"role": "user", "content": "Where do I return books?"}]}
    assert [message["role"] for message in agent["data"]["outputs"]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert retriever["type"]["span"] == "query"
    assert [document["id"] for document in retriever["data"]["outputs"]["documents"]] == ["note-1", "note-2"]


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("openllmetry-classic-01", {"session": {"id": "island-4"}, "user": {"id": "guest-9"}})],
)
def test_openllmetry_maps_numbered_attributes(name: str, attributes: dict[str, Any]) -> None:
    assert own(ag_named(name, "openai.chat", at=3)) == attributes | {
        "type": "chat",
        "data": {
            "inputs": {
                "messages": [
                    {"role": "user", "content": "When is the next ferry?"},
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "call_000053", "name": "next_ferry", "arguments": {"harbour": "Den Helder"}}
                        ],
                    },
                    {
                        "role": "tool",
                        "tool_call_id": "call_000053",
                        "content": '{"harbour": "Den Helder", "at": "09:30"}',
                    },
                ]
            },
            "outputs": {
                "messages": [
                    {
                        "role": "assistant",
                        "content": "The next ferry leaves Den Helder at half past nine.",
                        "finish_reason": "stop",
                    }
                ]
            },
        },
        "metrics": {"tokens": {"incremental": {"prompt": 87, "completion": 12, "total": 99, "cached": 0}}},
        "meta": {
            "system": "openai",
            "request": {"model": "gpt-4o", "stream": False},
            "response": {"model": "gpt-4o-2024-08-06", "id": "chatcmpl-000055", "finish_reasons": ["stop"]},
        },
    }


def test_openllmetry_maps_functions_texts_and_entities() -> None:
    first_call = ag_named("openllmetry-classic-01", "openai.chat", at=2)
    embedded = ag_named("openllmetry-classic-01", "openai.embeddings")
    tool = ag_named("openllmetry-classic-01", "next_ferry.tool")

    assert first_call["data"]["parameters"]["tools"] == [
        {
            "name": "next_ferry",
            "description": "Next ferry",
            "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}}},
        }
    ]
    assert embedded["type"]["span"] == "embedding"
    assert len(embedded["data"]["inputs"]["value"]) == 3
    assert tool["type"]["span"] == "tool"
    assert tool["meta"]["tool"] == {"name": "next_ferry"}
    assert tool["data"] == {
        "inputs": {"args": [], "kwargs": {"harbour": "Den Helder"}},
        "outputs": {"harbour": "Den Helder", "at": "09:30"},
    }


def test_openllmetry_maps_messages_in_json() -> None:
    ag = ag_named("traceloop-sdk-01", "openai.chat", at=2)

    assert own(ag) == {
        "type": "chat",
        "data": {
            "inputs": {"messages": [{"role": "user", "content": "Where is my order A-1007?"}]},
            "outputs": {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "call_000085", "name": "look_up_order", "arguments": {"order": "A-1007"}}
                        ],
                        "finish_reason": "tool_call",
                    }
                ]
            },
            "parameters": {
                "tools": [
                    {
                        "type": "function",
                        "name": "look_up_order",
                        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}},
                    }
                ]
            },
        },
        "metrics": {
            "tokens": {"incremental": {"prompt": 14, "completion": 10, "total": 24, "cached": 0, "reasoning": 0}}
        },
        "session": {"id": "chat-88"},
        "user": {"id": "baker-5"},
        "meta": {
            "system": "openai",
            "request": {"model": "gpt-4o", "stream": False},
            "response": {"model": "gpt-4o-2024-08-06", "id": "chatcmpl-000086", "finish_reasons": ["tool_call"]},
            "attempt": 3,
        },
        "unsupported": {"agent": {"id": "order_agent", "name": "order_agent"}},
    }
    assert normal_named("traceloop-sdk-01", "order_agent.agent").agent_id == "order_agent"


@pytest.mark.parametrize(
    ("name", "at", "system", "request_says"),
    [
        (
            "genai-openai-v2-01",
            0,
            "openai",
            {"model": "gpt-4o-mini", "temperature": 0, "max_tokens": 80, "stop_sequences": ["\n\n"], "seed": 7},
        ),
        ("genai-openai-v2-legacy-01", 0, "openai", {"model": "gpt-4o-mini", "temperature": 0.7}),
        (
            "genai-openai-v2-older-01",
            0,
            "openai",
            {
                "model": "gpt-4o-mini",
                "temperature": 0.7,
                "top_p": 0.95,
                "frequency_penalty": 0.1,
                "service_tier": "default",
            },
        ),
    ],
)
def test_genai_generations_map_to_the_same(name: str, at: int, system: str, request_says: dict[str, Any]) -> None:
    ag = ag_named(name, "chat gpt-4o-mini", at=at)

    assert ag["type"]["span"] == "chat"
    assert ag["meta"]["system"] == system
    assert ag["meta"]["request"] == request_says
    assert ag["meta"]["response"]["model"] == "gpt-4o-mini-2024-07-18"
    assert ag["meta"]["response"]["finish_reasons"] == ["stop"]
    tokens = ag["metrics"]["tokens"]["incremental"]
    assert tokens["total"] == tokens["prompt"] + tokens["completion"]


def test_genai_maps_messages_and_tool_results() -> None:
    ag = ag_named("genai-openai-v2-01", "chat gpt-4o", at=1)

    assert ag["data"]["inputs"]["messages"] == [
        {"role": "user", "content": "Which white flower blooms in March?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_000008", "name": "find_plant", "arguments": {"colour": "white", "month": 3}}],
        },
        {"role": "tool", "content": '["snowdrop", "wood anemone"]', "tool_call_id": "call_000008"},
    ]


def test_pydantic_ai_maps_agent_model_and_tool() -> None:
    agent = ag_named("pydantic-ai-agent-01", "invoke_agent dice_player")
    chat = ag_named("pydantic-ai-agent-01", "chat gpt-4o-mini")
    tool = ag_named("pydantic-ai-agent-01", "execute_tool roll_die")

    assert agent["data"]["inputs"]["messages"] == [
        {"role": "system", "content": "You play a dice game. Be brief."},
        {"role": "user", "content": "Roll a die for me, please."},
    ]
    assert agent["data"]["outputs"] == "You rolled a 4. Not bad!"
    assert [message["role"] for message in agent["data"]["internals"]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "incremental" not in agent["metrics"]["tokens"]
    assert agent["metrics"]["tokens"]["cumulative"] == {"prompt": 119, "completion": 13, "total": 132}
    assert chat["data"]["inputs"]["messages"] == agent["data"]["inputs"]["messages"]
    assert chat["metrics"]["costs"]["incremental"]["total"] == 8.85e-06
    assert chat["session"] == {"id": "01a1fdbe-592c-7126-864f-f853ec92dff3"}
    assert tool["data"] == {"inputs": {"sides": 6}, "outputs": "4"}
    assert tool["meta"]["tool"] == {"name": "roll_die", "id": "call_000066"}


def test_pydantic_ai_1_maps_messages_in_events() -> None:
    chat = ag_named("pydantic-ai-v1-01", "chat gpt-4o-mini", at=1)
    agent = ag_named("pydantic-ai-v1-01", "agent run")
    tool = ag_named("pydantic-ai-v1-01", "running tool")
    call = {"id": "call_000079", "name": "stock", "arguments": {"article": "umbrella"}}
    said = [
        {"role": "system", "content": "You work in a shop."},
        {"role": "user", "content": "Do you have umbrellas?"},
        {"role": "assistant", "tool_calls": [call]},
        {
            "role": "tool",
            "content": {"article": "umbrella", "left": 14},
            "tool_call_id": "call_000079",
            "name": "stock",
        },
    ]

    answer = {"role": "assistant", "content": "We have 14 umbrellas in stock."}

    assert chat["data"]["inputs"] == {"messages": said}
    assert chat["data"]["outputs"] == {"messages": [answer | {"finish_reason": "stop"}]}
    assert [offered["name"] for offered in chat["data"]["parameters"]["tools"]] == ["stock"]
    assert agent["type"]["span"] == "agent"
    assert agent["data"] == {
        "inputs": {"messages": said[:2]},
        "internals": {"messages": [*said, answer]},
        "outputs": "We have 14 umbrellas in stock.",
    }
    assert agent["meta"]["request"] == {"model": "gpt-4o-mini"}
    assert own(tool) == {
        "type": "tool",
        "data": {"inputs": {"article": "umbrella"}, "outputs": {"article": "umbrella", "left": 14}},
        "meta": {"tool": {"name": "stock", "id": "call_000079"}},
    }


def test_vercel_5_maps_a_model_call() -> None:
    ag = ag_named("vercel-ai-v5-01", "ai.generateText.doGenerate")

    assert own(ag) == {
        "type": "chat",
        "data": {
            "inputs": {
                "messages": [
                    {"role": "system", "content": "You know trains."},
                    {"role": "user", "content": "When is the night train to Vienna?"},
                ]
            },
            "outputs": {
                "messages": [
                    {
                        "role": "assistant",
                        "content": "The night train to Vienna leaves at 20:03.",
                        "finish_reason": "stop",
                    }
                ]
            },
        },
        "metrics": {"tokens": {"incremental": {"prompt": 29, "completion": 10, "total": 39}}},
        "session": {"id": "trip-21"},
        "user": {"id": "rider-6"},
        "tags": {"rail": True, "night": True},
        "meta": {
            "system": "openai",
            "request": {"model": "gpt-4o-mini", "temperature": 0.3, "max_tokens": 60, "max_retries": 0},
            "response": {"model": "gpt-4o-mini-2024-07-18", "id": "chatcmpl-000089", "finish_reasons": ["stop"]},
            "attempt": 2,
        },
        "unsupported": {"agent": {"id": "ask-train", "name": "ask-train"}},
    }


def test_vercel_5_maps_prompts_objects_tools_and_embeddings() -> None:
    whole = ag_named("vercel-ai-v5-01", "ai.generateText")
    plan = {"city": "Vienna", "days": 3, "sights": ["Prater", "Belvedere"]}
    calling = ag_named("vercel-ai-v5-01", "ai.generateText.doGenerate", at=1)
    second_call = ag_named("vercel-ai-v5-01", "ai.generateText.doGenerate", at=2)

    assert whole["type"]["span"] == "agent"
    assert whole["data"]["inputs"] == {
        "messages": [
            {"role": "system", "content": "You know trains."},
            {"role": "user", "content": "When is the night train to Vienna?"},
        ]
    }
    assert ag_named("vercel-ai-v5-01", "ai.generateObject")["data"]["outputs"] == plan
    assert calling["data"]["outputs"]["messages"] == [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_000092",
                    "name": "trainTimes",
                    "arguments": {"from": "Utrecht", "to": "Vienna", "day": 2},
                }
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert second_call["data"]["inputs"]["messages"][-1] == {
        "role": "tool",
        "content": {"to": "Vienna", "times": ["08:30", "20:03"]},
        "tool_call_id": "call_000092",
        "name": "trainTimes",
    }
    assert ag_named("vercel-ai-v5-01", "ai.toolCall")["meta"]["tool"] == {"name": "trainTimes", "id": "call_000092"}
    assert ag_named("vercel-ai-v5-01", "ai.embedMany.doEmbed")["data"] == {"inputs": {"value": ["Prater", "Belvedere"]}}


def test_vercel_5_keeps_the_text_if_its_tool_calls_are_truncated() -> None:
    (span, *_) = spans_of("vercel-ai-v5-01")
    sent = {"ai.response.text": "Let me look.", "ai.response.toolCalls": '[{"toolCallId": "call_1", "toolNa'}

    (normalized,) = normalize([span._replace(attributes=sent)])

    assert normalized.attributes["ag"]["data"]["outputs"] == {
        "messages": [{"role": "assistant", "content": "Let me look."}]
    }
    assert normalized.attributes["ai"]["response"]["toolCalls"] == sent["ai.response.toolCalls"]
    assert list(normalized.mapping_errors) == ["not_json"]


@pytest.mark.parametrize(
    "sent",
    [
        {"ai.prompt.tools": ['{"type":"function","name":"cut', '{"type":"function","name":"trainTimes"}']},
        {
            "llm.tools.0.tool.json_schema": '{"type":"function","function":{"name":"cut',
            "llm.tools.1.tool.json_schema": '{"type":"function","name":"trainTimes"}',
        },
    ],
    ids=["vercel 5", "openinference"],
)
def test_tools_are_kept_if_one_of_them_is_truncated(sent: dict[str, Any]) -> None:
    (span, *_) = spans_of("vercel-ai-v5-01")

    (normalized,) = normalize([span._replace(attributes=sent)])

    assert normalized.attributes["ag"]["data"]["parameters"] == {"tools": [{"type": "function", "name": "trainTimes"}]}
    assert list(normalized.mapping_errors) == ["not_tools"]


def test_vercel_7_maps_context_and_messages() -> None:
    agent = ag_named("vercel-ai-v7-01", "invoke_agent gpt-4o")
    chat = ag_named("vercel-ai-v7-01", "chat gpt-4o-mini")

    assert (agent["session"], agent["user"]) == ({"id": "trip-22"}, {"id": "rider-6"})
    assert [message["role"] for message in agent["data"]["outputs"]["messages"]] == ["assistant", "tool"]
    assert normal_named("vercel-ai-v7-01", "invoke_agent gpt-4o").agent_id == "find-ferries"
    assert chat["data"]["inputs"]["messages"][0] == {"role": "system", "content": "You know ferries."}


def test_agenta_attributes_are_left_alone() -> None:
    tool = ag_named("agenta-sdk-01", "weigh")

    assert own(tool) == {
        "type": "tool",
        "data": {"inputs": {"flour": "spelt"}, "outputs": {"flour": "spelt", "kg": 25}},
        "meta": {"tool": {"name": "weigh"}},
    }
    assert ag_named("agenta-litellm-01", "litellm_client")["metrics"]["tokens"]["incremental"] == {
        "prompt": 27,
        "completion": 16,
        "total": 43,
        "cache_read": 12,
    }


def test_spans_of_the_plain_sdk_map_to_nothing() -> None:
    for name in ("plain-sdk-go-01", "plain-sdk-services-01", "telemetrygen-plain-01"):
        assert all(
            set(normalized.attributes["ag"]) <= {"type", "data", "metrics", "exception"}
            for normalized in normals_of(name)
        )


MISLABELLED: Final = {"agno-openinference-01": [["not_json"]]}
"""Mapping errors of samples: agno labels the answer of an agent as JSON that is a sentence."""


@pytest.mark.parametrize("name", NAMES)
def test_samples_map_equally_in_both_encodings_without_mapping_errors(name: str) -> None:
    found = [list(normalized.mapping_errors) for normalized in normals_of(name) if normalized.mapping_errors]

    assert found == MISLABELLED.get(name, [])
    assert normalize(spans_of_json(name)) == normals_of(name)
    assert len(spans_of(name)) == len(normals_of(name))
