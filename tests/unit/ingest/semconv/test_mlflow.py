"""MLflow's spans: what a case that was reported and a record of its SDK must become."""

from __future__ import annotations

from typing import Any

import pytest

from common.span import Span
from ingest.normalize import normalize
from tests.support.reported_cases import ags_of, tokens_of
from tests.support.sample_records import ag_named

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Lisbon?"}]
CALL = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Lisbon"}}


def ag_of(attributes: dict[str, Any]) -> dict[str, Any]:
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, attributes)])
    ag: dict[str, Any] = normalized.attributes["ag"]
    return ag


def test_reported_trace_has_types_messages_model_and_tokens() -> None:
    agent, call = ags_of("mlflow-otlp")

    assert [ag["type"]["span"] for ag in (agent, call)] == ["agent", "chat"]
    assert agent["data"] == {"inputs": {"q": "Weather?"}, "outputs": "21 °C"}
    assert call["data"] == {
        "inputs": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Weather?"}]},
        "outputs": {"messages": [{"role": "assistant", "content": "21 °C", "finish_reason": "stop"}]},
    }
    assert call["meta"]["request"]["model"] == "gpt-4o-mini"
    assert tokens_of(call) == {"prompt": 100, "completion": 20, "total": 120}


def test_calls_and_tools_of_an_agent_are_mapped() -> None:
    agent, call = ag_named("mlflow-01", "forecaster"), ag_named("mlflow-01", "Completions")
    tool, embedding = ag_named("mlflow-01", "get_weather"), ag_named("mlflow-01", "Embeddings")

    assert agent["data"] == {"inputs": {"q": "Weather in Lisbon?"}, "outputs": "Sunny in Lisbon."}
    assert call["data"]["inputs"]["messages"] == ASKED
    assert call["data"]["outputs"]["messages"] == [
        {"role": "assistant", "tool_calls": [CALL], "finish_reason": "tool_call"}
    ]
    assert [tool["name"] for tool in call["data"]["parameters"]["tools"]] == ["get_weather"]
    assert call["meta"]["request"] == {"model": "gpt-4o-mini"}
    assert call["meta"]["response"]["model"] == "gpt-4o-mini-2024-07-18"
    assert tokens_of(call) == {"prompt": 1001, "completion": 50, "total": 1051, "cached": 400}
    assert (tool["type"]["span"], tool["meta"]["tool"]) == ("tool", {"name": "get_weather"})
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": "Sunny in Lisbon"}
    assert embedding["type"]["span"] == "embedding"
    assert embedding["data"] == {"inputs": {"model": "text-embedding-3-small", "input": "Lisbon"}}


def test_texts_in_json_lose_their_quotes() -> None:
    ag = ag_of({"mlflow.spanType": '"AGENT"', "session.id": '"trip-21"', "user.id": '"rider-6"'})

    assert (ag["session"], ag["user"]) == ({"id": "trip-21"}, {"id": "rider-6"})


def test_setting_that_is_null_is_none() -> None:
    sent = {"mlflow.spanType": '"CHAT_MODEL"', "temperature": "null", "max_tokens": "null", "top_p": "null"}
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, sent)])

    assert normalized.mapping_errors == []
    assert "meta" not in normalized.attributes["ag"]


@pytest.mark.parametrize("sent", ["AGENT", '"AGENT"'])
def test_kind_with_and_without_quotes_is_the_kind(sent: str) -> None:
    assert ag_of({"mlflow.spanType": sent})["type"]["span"] == "agent"


def test_costs_and_settings_are_read() -> None:
    ag = ag_of(
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.llm.cost": '{"input_cost": 0.25, "output_cost": 0.5, "total_cost": 0.75}',
            "mlflow.llm.provider": '"OpenAI"',
            "temperature": "0.5",
            "max_tokens": "100",
        }
    )

    assert ag["metrics"]["costs"]["incremental"] == {"prompt": 0.25, "completion": 0.5, "total": 0.75}
    assert ag["meta"]["system"] == "openai"
    assert ag["meta"]["request"] == {"temperature": 0.5, "max_tokens": 100}


def test_part_of_the_cache_that_a_part_repeats_is_counted_once() -> None:
    usage = (
        '{"input_tokens": 60, "output_tokens": 20, "total_tokens": 120, "cache_read_input_tokens": 30,'
        ' "cache_creation_input_tokens": 10, "cache_creation_input_tokens_above_1hr": 10}'
    )

    ag = ag_of({"mlflow.spanType": '"CHAT_MODEL"', "mlflow.chat.tokenUsage": usage})

    assert tokens_of(ag) == {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "cache_write": 10}


@pytest.mark.parametrize("key", ["model", "temperature", "max_tokens"])
def test_general_names_mean_nothing_without_mlflow(key: str) -> None:
    assert "meta" not in ag_of({key: "5"})
