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
