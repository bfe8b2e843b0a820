"""Records of libraries that follow a convention, and what is particular about each."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.reported_cases import cost_of, tokens_of
from tests.support.sample_records import ag_named, normals_of, spans_of


def test_cost_of_zero_of_openlit_is_no_price() -> None:
    chat = ag_named("openlit-01", "chat gpt-4o-mini")

    assert tokens_of(chat) == {"prompt": 1098, "completion": 50, "total": 1148, "cached": 400, "cache_write": 0}
    assert cost_of(chat) == pytest.approx(0.0001647)
    assert ag_named("openlit-01", "chat gpt-4o-mini", at=2)["metrics"]["errors"]["incremental"] == 1


def test_messages_of_the_runtime_of_autogen_are_tasks() -> None:
    runtime = "autogen SingleThreadedAgentRuntime"
    kinds = Counter(
        (span.scope.name == runtime, normalized.span_type)
        for span, normalized in zip(spans_of("autogen-01"), normals_of("autogen-01"), strict=True)
    )

    assert kinds == {(True, "task"): 26, (False, "agent"): 2, (False, "tool"): 1}


def test_crew_has_its_agent_tool_and_calls() -> None:
    assert [normalized.span_type for normalized in normals_of("crewai-01")] == [
        "chat",
        "chat",
        "tool",
        "agent",
        "chain",
    ]
    assert ag_named("crewai-01", "get_weather.run")["data"] == {
        "inputs": {"city": "Lisbon"},
        "outputs": "Sunny in Lisbon",
    }


def test_conversation_of_strands_is_in_the_events_of_a_cycle_too() -> None:
    name = next(span.name for span in spans_of("strands-01") if span.name.startswith("Cycle "))

    (answer,) = ag_named("strands-01", name)["data"]["outputs"]["messages"]

    assert answer["tool_calls"] == [{"id": "call_15", "name": "get_weather", "arguments": {"city": "Lisbon"}}]


def test_failure_of_a_tool_over_mcp_counts_once() -> None:
    client = ag_named("fastmcp-01", "tools/call get_wind")
    server = ag_named("fastmcp-01", "tools/call get_wind", at=1)

    assert {ag["metrics"]["errors"]["cumulative"] for ag in (client, server)} == {1}
    assert [ag["meta"]["tool"]["name"] for ag in (client, server)] == ["get_wind", "get_wind"]


def test_each_try_of_instructor_is_a_call_and_counts() -> None:
    answer, failed = (ag_named("instructor-01", "instructor.create", at=at) for at in (0, 1))

    assert answer["type"]["span"] == "chain"
    assert answer["metrics"]["tokens"] == {"cumulative": {"prompt": 2003, "completion": 100, "total": 2103}}
    assert answer["data"]["outputs"] == {"city": "Lisbon", "degrees": 21}
    assert failed["metrics"]["errors"]["cumulative"] == 1


def test_agent_of_agent_framework_repeats_what_its_calls_used() -> None:
    agent = ag_named("agent-framework-01", "invoke_agent forecaster")

    assert agent["metrics"]["tokens"]["cumulative"] == {"prompt": 2003, "completion": 100, "total": 2103}
    assert agent["metrics"]["costs"]["cumulative"]["total"] == pytest.approx(0.00030045)


def test_id_of_a_response_is_no_session() -> None:
    spans = spans_of("agent-framework-01")
    sent = [span.attributes["gen_ai.conversation.id"] for span in spans if "gen_ai.conversation.id" in span.attributes]

    assert sorted(map(str, sent)) == ["resp_1", "resp_3"]
    assert not any("session" in normalized.attributes["ag"] for normalized in normals_of("agent-framework-01"))


def test_cache_of_claude_is_in_the_prompt_of_the_ai_sdk_6() -> None:
    claude = ag_named("vercel-ai-v6-01", "ai.generateText.doGenerate", at=2)

    assert tokens_of(claude) == {"prompt": 104, "completion": 50, "total": 154, "cached": 30, "cache_write": 10}
    assert cost_of(claude) == pytest.approx((64 * 3 + 30 * 0.3 + 10 * 3.75 + 50 * 15) / 1e6)


def test_google_genai_has_its_messages_tool_and_thoughts_once() -> None:
    call = ag_named("google-genai-content-01", "generate_content gemini-2.5-flash")
    tool = ag_named("google-genai-content-01", "execute_tool get_weather")

    assert [message["role"] for message in call["data"]["inputs"]["messages"]] == ["system", "user"]
    assert tokens_of(call) == {"prompt": 402, "completion": 80, "total": 482, "cached": 100, "reasoning": 30}
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": "Sunny in Lisbon"}


def test_agent_of_llama_index_has_its_tool_and_calls() -> None:
    run = ag_named("llama-index-01", "FunctionAgent.run")
    tool = ag_named("llama-index-01", "FunctionTool.acall")

    assert run["metrics"]["tokens"]["cumulative"] == {"prompt": 2003, "completion": 100, "total": 2103}
    assert (tool["meta"]["tool"]["name"], tool["data"]["inputs"]) == ("get_weather", {"kwargs": {"city": "Lisbon"}})


def test_agent_of_smolagents_repeats_what_its_steps_used() -> None:
    agent = ag_named("smolagents-01", "ToolCallingAgent.run")

    assert agent["data"]["outputs"] == "Sunny in Lisbon."
    assert (
        tokens_of(agent)
        == agent["metrics"]["tokens"]["cumulative"]
        == {
            "prompt": 2003,
            "completion": 100,
            "total": 2103,
        }
    )


def test_tool_over_mcp_has_arguments_and_result_under_openllmetry() -> None:
    tool, failed = ag_named("mcp-openllmetry-01", "get_weather.tool"), ag_named("mcp-openllmetry-01", "get_wind.tool")

    assert (tool["type"]["span"], tool["meta"]["tool"]) == ("tool", {"name": "get_weather"})
    assert tool["data"] == {
        "inputs": {"tool_name": "get_weather", "arguments": {"city": "Lisbon"}},
        "outputs": {"result": "Sunny in Lisbon"},
    }
    assert failed["exception"] == {"type": "tool_error", "message": "Error executing tool get_wind: no wind sensor"}


def test_thoughts_of_gemini_are_in_the_completion_of_openinference() -> None:
    call = ag_named("google-genai-openinference-01", "GenerateContent")

    assert tokens_of(call) == {"prompt": 402, "completion": 80, "total": 482, "cached": 100, "reasoning": 30}


def test_agent_of_strands_has_its_question_and_tool_with_the_latest_conventions() -> None:
    agent = ag_named("strands-latest-01", "invoke_agent forecaster")
    tool = ag_named("strands-latest-01", "execute_tool get_weather")

    assert agent["data"]["inputs"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather in Lisbon?"},
    ]
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": "Sunny in Lisbon"}
    assert agent["metrics"]["tokens"]["cumulative"] == {"prompt": 2003, "completion": 100, "total": 2103}
