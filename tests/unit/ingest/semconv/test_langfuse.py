"""Langfuse's observations: what two cases and records of its SDK must become."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.normalize import normalize
from tests.support.reported_cases import ags_of, cost_of, tokens_of
from tests.support.sample_records import ag_named, normals_of, spans_of

ASKED = {"role": "user", "content": "Weather?"}
CALL = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Lisbon"}}


def ag_of(**attributes: Any) -> dict[str, Any]:
    """Return the ``ag`` of an observation with these attributes; two underscores in a name are a dot."""
    sent = {"langfuse." + key.replace("__", "."): value for key, value in attributes.items()}
    (normalized,) = normalize([spans_of("langfuse-sdk-01")[0]._replace(attributes=sent)])
    ag: dict[str, Any] = normalized.attributes["ag"]
    return ag


def test_buckets_of_usage_do_not_overlap() -> None:
    (ag,) = ags_of("langfuse-buckets")

    assert ag["type"]["span"] == "chat"
    assert ag["meta"]["response"]["model"] == "gpt-4o-mini-2024-07-18"
    assert tokens_of(ag) == {"prompt": 1446, "completion": 50, "cached": 400, "total": 1496}
    assert ag["metrics"]["costs"]["incremental"]["prompt"] == 0.1
    assert ag["metrics"]["costs"]["incremental"]["completion"] == 0.2
    assert ag["data"] == {
        "inputs": {"messages": [ASKED]},
        "outputs": {"messages": [{"role": "assistant", "content": "Sunny."}]},
    }
    assert (ag["tags"], ag["session"], ag["user"]) == ({"a": True}, {"id": "sess-1"}, {"id": "u-1"})


def test_agent_model_call_and_tool_are_mapped() -> None:
    agent, call, tool = ags_of("langfuse-agent")

    assert [ag["type"]["span"] for ag in (agent, call, tool)] == ["agent", "chat", "tool"]
    assert agent["tags"] == {"a": True, "b": True}
    assert agent["meta"] == {"tier": "gold"}
    assert agent["data"]["outputs"] == "21 °C"
    assert agent["metrics"]["tokens"]["cumulative"] == {"prompt": 100, "completion": 20, "total": 120}
    assert tokens_of(call) == {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "reasoning": 5}
    assert cost_of(call) == 2.475e-05
    assert call["meta"]["request"]["temperature"] == 0.2
    assert call["data"]["parameters"]["tools"] == [
        {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    ]
    assert tool["data"] == {"inputs": {"args": [], "kwargs": {"city": "Zürich"}}, "outputs": "21 °C"}


def test_calls_of_the_openai_client_are_mapped() -> None:
    first = ag_named("langfuse-sdk-02", "OpenAI-generation")
    second = ag_named("langfuse-sdk-02", "OpenAI-generation", at=1)
    responses = ag_named("langfuse-sdk-02", "OpenAI-generation", at=3)

    assert first["data"]["inputs"] == {"messages": [ASKED]}
    assert first["data"]["outputs"] == {"messages": [{"role": "assistant", "tool_calls": [CALL]}]}
    assert [tool["name"] for tool in first["data"]["parameters"]["tools"]] == ["get_weather"]
    assert first["meta"]["request"] == {
        "model": "gpt-4o-mini-2024-07-18",
        "temperature": 0.2,
        "top_p": 1,
        "frequency_penalty": 0,
        "presence_penalty": 0,
    }
    assert first["meta"]["tier"] == "gold"
    assert second["data"]["inputs"]["messages"][1:] == [
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "content": "Sunny in Lisbon", "tool_call_id": "call_1"},
    ]
    assert responses["data"]["inputs"] == {"messages": [{"role": "system", "content": "Be brief."}, ASKED]}
    assert responses["data"]["outputs"] == {
        "messages": [{"role": "assistant", "content": "One moment.", "tool_calls": [{**CALL, "id": "call_9"}]}]
    }
    assert tokens_of(responses) == {"prompt": 30, "completion": 8, "total": 38, "cached": 10, "reasoning": 2}


def test_other_observations_are_mapped() -> None:
    search = ag_named("langfuse-sdk-02", "search")
    embedding = ag_named("langfuse-sdk-02", "OpenAI-embedding")
    generation = ag_named("langfuse-sdk-02", "gen")

    assert {normalized.span_type for normalized in normals_of("langfuse-sdk-02")} == {
        "agent",
        "chat",
        "embedding",
        "query",
        "task",
        "tool",
    }
    assert search["data"] == {"inputs": {"query": "x"}, "outputs": [{"id": 1, "text": "Lisbon"}]}
    assert search["meta"] == {"tier": "gold", "k": 3, "s": "t", "o": {"a": 1}}
    assert embedding["data"]["inputs"] == {"value": ["Lisbon"]}
    assert tokens_of(embedding) == {"prompt": 6, "total": 6}
    assert generation["meta"]["response"]["completion_start_time"] == "2026-11-27T10:26:29.265414Z"


@pytest.mark.parametrize(
    ("said", "exception"),
    [
        ({"observation__level": "ERROR"}, {}),
        ({"observation__level": "ERROR", "observation__status_message": "Refused."}, {"message": "Refused."}),
        ({"observation__level": "WARNING", "observation__status_message": "Slow."}, None),
        ({"observation__status_message": "Fine."}, None),
    ],
)
def test_level_error_is_a_failure_also_without_a_status(said: dict[str, Any], exception: dict[str, str] | None) -> None:
    ag = ag_of(observation__type="guardrail", **said)

    assert ag.get("exception") == exception
    assert ag["metrics"]["errors"].get("incremental", 0) == (exception is not None)


def test_failure_of_the_client_has_the_message_of_the_status() -> None:
    failed = ag_named("langfuse-sdk-02", "OpenAI-generation", at=2)

    assert failed["exception"] == {"message": "Error code: 400 - The request failed."}
    assert failed["metrics"]["errors"]["incremental"] == 1


def test_trace_fills_what_the_observation_does_not_say() -> None:
    trace = {"trace__input": '{"q": "Weather?"}', "trace__output": "Sunny.", "trace__metadata__tier": "gold"}

    assert ag_of(**trace)["data"] == {}
    assert ag_of(observation__type="span", **trace)["data"] == {"inputs": {"q": "Weather?"}, "outputs": "Sunny."}
    own = ag_of(observation__type="span", observation__input="Hi", observation__metadata__tier='"iron"', **trace)
    assert own["data"]["inputs"] == {"value": "Hi"}
    assert own["meta"] == {"tier": "iron"}


def test_prompt_session_and_user_are_mapped() -> None:
    ag = ag_of(observation__prompt__name="greeting", observation__prompt__version=3, session__id="s", user__id="u")

    assert ag["data"] == {"parameters": {"prompt_template": {"name": "greeting", "version": 3}}}
    assert (ag["session"], ag["user"]) == ({"id": "s"}, {"id": "u"})
