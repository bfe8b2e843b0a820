"""LangSmith's export, and inputs and outputs as one attribute each: what two cases and a record must become."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ingest.normalize import normalize
from tests.support.reported_cases import ags_of, normalized_case, tokens_of
from tests.support.sample_records import ag_named, normals_of, spans_of

ASKED = {"role": "user", "content": "Weather?"}
CALL = {"role": "assistant", "tool_calls": [{"id": "call_49", "name": "get_weather", "arguments": {"city": "Lisbon"}}]}
RESULT = {"role": "tool", "content": "Sunny in Lisbon", "tool_call_id": "call_49", "name": "get_weather"}
SAID = {"role": "assistant", "content": "Sunny in Lisbon."}


def derived(**attributes: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the ``ag`` of these attributes and the mapping errors; two underscores in a name are a dot."""
    sent = {key.replace("__", "."): value for key, value in attributes.items()}
    (normalized,) = normalize([spans_of("langsmith-otel-01")[0]._replace(attributes=sent)])
    return normalized.attributes["ag"], list(normalized.mapping_errors)


def test_prompt_and_completion_as_one_attribute_are_read() -> None:
    chat, plain = ags_of("prompt-as-one-text")

    assert chat["data"] == {
        "inputs": {"messages": [ASKED]},
        "outputs": {"messages": [{"role": "assistant", "content": "Sunny."}]},
    }
    assert chat["session"] == {"id": "sess-1"}
    assert plain["data"] == {"inputs": {"value": "Weather?"}, "outputs": "Sunny."}
    assert [normalized.mapping_errors for normalized in normalized_case("prompt-as-one-text")] == [[], []]


def test_chain_model_call_and_tool_are_mapped() -> None:
    root, call, tool = ags_of("langsmith-agent")

    assert [ag["type"]["span"] for ag in (root, call, tool)] == ["chain", "chat", "tool"]
    assert root["data"] == {"inputs": {"q": "Weather?"}, "outputs": {"output": "21 °C"}}
    assert (root["session"], root["user"], root["tags"]) == ({"id": "s-1"}, {"id": "u-1"}, {"a": True, "b": True})
    assert call["data"]["inputs"]["messages"] == [ASKED]
    assert call["data"]["outputs"]["messages"] == [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "get_weather", "arguments": {"city": "Zürich"}}],
            "finish_reason": "tool_call",
        }
    ]
    assert tokens_of(call) == {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "reasoning": 5}
    assert tool["data"] == {"inputs": {"city": "Zürich"}, "outputs": {"output": "21 °C"}}


def test_messages_and_generations_of_langchain_are_read() -> None:
    root = ag_named("langsmith-otel-01", "LangGraph")
    first = ag_named("langsmith-otel-01", "ChatOpenAI")
    second = ag_named("langsmith-otel-01", "ChatOpenAI", at=1)
    tool = ag_named("langsmith-otel-01", "get_weather")

    assert root["data"] == {"inputs": {"messages": [ASKED]}, "outputs": {"messages": [ASKED, CALL, RESULT, SAID]}}
    assert first["data"]["inputs"] == {"messages": [ASKED]}
    assert first["data"]["outputs"] == {"messages": [CALL | {"finish_reason": "tool_call"}]}
    assert [offered["name"] for offered in first["data"]["parameters"]["tools"]] == ["get_weather"]
    assert tokens_of(first) == {"prompt": 1049, "completion": 50, "total": 1099, "cached": 400, "reasoning": 20}
    assert second["data"]["inputs"] == {"messages": [ASKED, CALL, RESULT]}
    assert second["data"]["outputs"] == {"messages": [SAID | {"finish_reason": "stop"}]}
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": {"messages": [RESULT]}}
    assert tool["meta"]["tool"] == {"name": "get_weather", "id": "call_49"}
    assert {ag["session"]["id"] for ag in (root, first, second, tool)} == {"sess-ls1"}
    assert {normalized.span_type for normalized in normals_of("langsmith-otel-01")} == {"chain", "chat", "tool"}


@pytest.mark.parametrize(
    ("kind", "operation", "span_type"),
    [("prompt", "chat", "task"), ("retriever", "embeddings", "query"), ("embedding", "embeddings", "embedding")],
)
def test_kind_says_more_than_the_operation(kind: str, operation: str, span_type: str) -> None:
    ag, _ = derived(langsmith__span__kind=kind, gen_ai__operation__name=operation)

    assert ag["type"]["span"] == span_type


@pytest.mark.parametrize(
    ("names", "session"),
    [(("conversation_id",), 0), (("conversation_id", "thread_id"), 1), (("thread_id", "session_id"), 1)],
)
def test_one_name_of_the_thread_is_the_session(names: tuple[str, ...], session: int) -> None:
    ag, _ = derived(**{f"langsmith__metadata__{name}": name for name in names})

    assert ag["session"] == {"id": names[session]}


@pytest.mark.parametrize(
    ("sent", "tags"),
    [
        ("a, b", {"a": True, "b": True}),
        ("seq:step:1", {"seq:step:1": True}),
        (["a", "b"], {"a": True, "b": True}),
        ('["a", "b, c"]', {"a": True, "b, c": True}),
        ("", None),
    ],
)
def test_tags_are_a_list_or_a_text(sent: Any, tags: dict[str, bool] | None) -> None:
    ag, _ = derived(langsmith__span__tags=sent)

    assert ag.get("tags") == tags


def test_details_of_usage_are_read_as_python_shows_them() -> None:
    ag, mapping_errors = derived(
        gen_ai__usage__input_tokens=100,
        gen_ai__usage__input_token_details="{'audio': None, 'cache_read': 30, 'cache_creation': 2}",
        gen_ai__usage__output_token_details='{"reasoning": 5}',
    )

    assert mapping_errors == []
    assert tokens_of(ag) == {"prompt": 100, "total": 100, "cached": 30, "cache_write": 2, "reasoning": 5}
    assert derived(gen_ai__usage__input_token_details="{'a': object()}")[1] == ["not_json"]


def test_newer_and_structured_spellings_are_read() -> None:
    messages = [{"role": "user", "content": "New?"}]
    prompt = orjson.dumps({"messages": [ASKED]}).decode()

    assert derived(gen_ai__prompt=[ASKED])[0]["data"] == {"inputs": {"messages": [ASKED]}}
    assert derived(gen_ai__prompt='["Weather?"]')[0]["data"] == {"inputs": {"value": ["Weather?"]}}
    both, _ = derived(gen_ai__prompt=prompt, gen_ai__input__messages=orjson.dumps(messages).decode())
    assert both["data"] == {"inputs": {"messages": messages}}
