"""Laminar's spans: what a record of its SDK must become."""

from __future__ import annotations

from ingest.normalize import normalize
from tests.support.reported_cases import tokens_of
from tests.support.sample_records import ag_named, normals_of, spans_of

ASKED = {"role": "user", "content": "Weather?"}
CALL = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Lisbon"}}


def test_functions_and_tools_are_mapped() -> None:
    planner = ag_named("laminar-sdk-01", "planner")
    tool = ag_named("laminar-sdk-01", "get_weather")

    assert planner["type"]["span"] == "task"
    assert planner["data"] == {"inputs": {"q": "Weather?"}, "outputs": "Sunny in Lisbon."}
    assert planner["tags"] == {"a": True, "b": True}
    assert planner["meta"] == {"tier": "gold", "n": 3, "o": {"x": 1}}
    assert planner["metrics"]["tokens"]["cumulative"] == {"prompt": 2092, "completion": 100, "total": 2192}
    assert tool["type"]["span"] == "tool"
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": "Sunny in Lisbon"}
    assert all(
        normalized.attributes["ag"]["session"] == {"id": "sess-l1"}
        and normalized.attributes["ag"]["user"] == {"id": "user-l1"}
        for normalized in normals_of("laminar-sdk-01")
    )


def test_model_calls_are_mapped() -> None:
    first = ag_named("laminar-sdk-01", "openai.chat")
    responses = ag_named("laminar-sdk-01", "openai.response")

    assert first["type"]["span"] == "chat"
    assert first["data"]["inputs"] == {"messages": [ASKED]}
    assert first["data"]["outputs"] == {
        "messages": [{"role": "assistant", "tool_calls": [CALL], "finish_reason": "tool_call"}]
    }
    assert tokens_of(first) == {"prompt": 1046, "completion": 50, "total": 1096, "cached": 400, "reasoning": 20}
    assert first["metrics"]["costs"]["incremental"]["total"] > 0
    assert responses["data"]["outputs"] == {
        "messages": [{"role": "assistant", "content": "One moment.", "tool_calls": [CALL | {"id": "call_9"}]}]
    }


def test_failure_is_mapped() -> None:
    failed = ag_named("laminar-sdk-01", "openai.chat", at=2)

    assert failed["exception"] == {
        "type": "openai.BadRequestError",
        "message": "Error code: 400 - The request failed.",
    }


def test_costs_of_both_sides_are_given() -> None:
    sent = {"lmnr.span.type": "LLM", "gen_ai.usage.input_cost": 0.1, "gen_ai.usage.output_cost": 0.2}
    (normalized,) = normalize([spans_of("laminar-sdk-01")[0]._replace(attributes=sent)])

    assert normalized.attributes["ag"]["metrics"]["costs"]["incremental"] == {
        "prompt": 0.1,
        "completion": 0.2,
        "total": 0.3,
    }
