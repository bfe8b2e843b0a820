"""Hints: for the longest part of a scope's name, in sentences that fit a list."""

from __future__ import annotations

from typing import get_args

import pytest

from query_api.coverage.coverage import CallValues
from query_api.coverage.hints import HINTS, Value, hint_for


@pytest.mark.parametrize(
    ("scope", "missing", "says"),
    [
        ("openinference.instrumentation.openai", "session", "using_session"),
        ("opentelemetry.instrumentation.openai.v1", "inputs", "TRACELOOP_TRACE_CONTENT"),
        ("opentelemetry.instrumentation.openai_v2", "inputs", "gen_ai_latest_experimental"),
        ("opentelemetry.instrumentation.genai.openai", "outputs", "CAPTURE_MESSAGE_CONTENT=span_only"),
        ("mlflow.tracing.provider", "session", "set_attribute"),
        ("autogen-core", "model_calls", "instrument the client"),
        ("logfire.openai_agents", "session", "scrubbing"),
        ("logfire.openai_agents", "tokens", "gen_ai.usage.input_tokens"),
        ("ai", "session", "sessionId"),
        ("aiohttp", "session", "session.id"),
        ("", "user", "user.id"),
    ],
)
def test_hint_is_that_of_the_library_else_the_general_one(scope: str, missing: Value, says: str) -> None:
    assert says in (hint_for(scope, missing) or "")


def test_application_without_model_calls_has_no_hint() -> None:
    assert hint_for("shop.checkout", "model_calls") is None


def test_every_value_has_a_general_hint() -> None:
    assert set(HINTS[""]) == {*get_args(Value)} - {"model_calls"} == set(CallValues.model_fields)


def test_hints_are_sentences() -> None:
    sentences = [sentence for hints in HINTS.values() for sentence in hints.values()]

    assert [each for each in sentences if not each.endswith(".") or len(each) > 240] == []


def test_table_is_in_the_order_of_names() -> None:
    assert list(HINTS) == sorted(HINTS)
