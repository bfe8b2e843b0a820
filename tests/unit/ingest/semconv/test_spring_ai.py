"""Spring AI's spans, made from its documentation of attributes: all values are texts."""

from __future__ import annotations

from typing import Any

from common.span import Span
from ingest.normalize import normalize
from tests.support.reported_cases import ags_of, cost_of, tokens_of


def test_spans_have_types_model_tokens_and_cost() -> None:
    client, advisor, call, tool, embedding, vectors = ags_of("spring-ai")

    kinds = [ag["type"]["span"] for ag in (client, advisor, call, tool, embedding, vectors)]
    assert kinds == ["chain", "chain", "chat", "tool", "embedding", "query"]
    assert tokens_of(call) == {"prompt": 1000, "completion": 50, "total": 1050}
    assert cost_of(call) == 0.00018
    assert call["meta"]["request"] == {"model": "gpt-4o-mini", "temperature": 0.7}
    assert call["meta"]["response"]["finish_reasons"] == ["stop"]
    assert embedding["meta"]["request"]["dimensions"] == 256
    assert client["metrics"]["tokens"]["cumulative"] == {"prompt": 1006, "completion": 50, "total": 1056}


def test_tool_and_search_have_what_went_in_and_out() -> None:
    _, _, _, tool, _, vectors = ags_of("spring-ai")

    assert tool["meta"]["tool"] == {
        "name": "get_weather",
        "description": "Weather of a city",
        "type": "function",
        "id": "call_1",
    }
    assert tool["data"] == {"inputs": {"city": "Lisbon"}, "outputs": "Sunny in Lisbon"}
    assert vectors["data"] == {"inputs": {"value": "Lisbon"}, "outputs": ["a", "b"]}


def test_conversation_is_the_session_unless_it_is_that_of_all() -> None:
    client, *_ = ags_of("spring-ai")
    sent: dict[str, Any] = {"spring.ai.kind": "chat_client", "spring.ai.chat.client.conversation.id": "default"}
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, sent)])

    assert client["session"] == {"id": "trip-21"}
    assert "session" not in normalized.attributes["ag"]


def test_search_of_another_library_is_left_as_it_was_sent() -> None:
    (normalized,) = normalize([Span(b"", b"", None, "call", 0, 0, 0, 0, None, {"db.vector.query.content": "Lisbon"})])

    assert normalized.attributes["ag"]["data"] == {}
