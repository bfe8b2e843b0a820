"""What the log records of Claude Code and Codex become under ``ag``."""

from __future__ import annotations

from typing import Any

import pytest

from common.span import NormalizedSpan, Span
from ingest.normalize import normalize
from tests.support.agent_logs import NAMES, normals_of


def named(agent: str, name: str, at: int = 0) -> NormalizedSpan:
    return [normalized for span, normalized in normals_of(agent) if span.name == name][at]


def ag(agent: str, name: str, at: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = named(agent, name, at).attributes["ag"]
    return found


@pytest.mark.parametrize(
    ("agent", "kinds"),
    [
        ("claude-code", {"agent": 2, "chat": 4, "tool": 2, "unknown": 3}),
        ("codex", {"agent": 4, "chat": 3, "tool": 2, "task": 4, "unknown": 7}),
    ],
)
def test_kinds_of_spans(agent: str, kinds: dict[str, int]) -> None:
    types = [normalized.span_type for _, normalized in normals_of(agent)]

    assert {kind: types.count(kind) for kind in set(types)} == kinds


def test_model_call_of_claude_code_counts_the_cache_once() -> None:
    metrics = ag("claude-code", "claude_code.api_request")["metrics"]

    assert metrics["tokens"]["incremental"] == {
        "prompt": 12 + 300 + 40,
        "completion": 60,
        "cached": 300,
        "cache_write": 40,
        "total": 12 + 300 + 40 + 60,
    }
    assert metrics["costs"]["incremental"]["total"] == 0.00196
    assert metrics["duration"]["cumulative"] == 473


def test_model_call_of_codex_counts_the_cache_once() -> None:
    found = ag("codex", "codex.sse_event")

    assert found["metrics"]["tokens"]["incremental"] == {
        "prompt": 352,
        "completion": 60,
        "cached": 300,
        "reasoning": 10,
        "total": 412,
    }
    assert found["meta"]["request"] == {"model": "gpt-5.1"}
    assert found["metrics"]["costs"]["incremental"]["total"] > 0


def test_only_a_model_call_of_codex_has_a_model() -> None:
    assert [
        span.name
        for span, normalized in normals_of("codex")
        if "request" in normalized.attributes["ag"].get("meta", {})
    ] == ["codex.sse_event"] * 3


def test_models_and_providers() -> None:
    assert ag("claude-code", "claude_code.api_request")["meta"]["system"] == "anthropic"
    assert ag("claude-code", "claude_code.api_error")["meta"]["request"] == {"model": "claude-opus-4-8[1m]"}
    assert ag("codex", "codex.conversation_starts")["meta"]["system"] == "openai"


@pytest.mark.parametrize("agent", NAMES)
def test_every_span_names_its_session(agent: str) -> None:
    for span, normalized in normals_of(agent):
        assert normalized.attributes["ag"]["session"]["id"]
        assert (normalized.session_id is None) == (span.parent_id is not None)


def test_users() -> None:
    assert ag("claude-code", "claude_code.user_prompt")["user"]["id"].startswith("b309e9ef")
    assert of("codex.user_prompt", "codex", user__account_id="acct-1")["user"] == {"id": "acct-1"}


def test_tools_have_name_id_arguments_and_result() -> None:
    of_claude = ag("claude-code", "claude_code.tool_result")
    of_codex = ag("codex", "codex.tool_result")

    assert of_claude["meta"]["tool"] == {"name": "Bash", "id": "toolu_80"}
    assert of_claude["data"]["inputs"] == {"command": "echo hi", "description": "Say hi"}
    assert of_codex["meta"]["tool"] == {"name": "exec_command", "id": "call_0"}
    assert of_codex["data"]["inputs"] == {"cmd": "echo hi"}
    assert of_codex["data"]["outputs"].endswith("Output:\nhi\n")


def test_prompts_and_responses_are_content() -> None:
    assert ag("claude-code", "claude_code.user_prompt")["data"]["inputs"] == {"value": "Say hi with the shell"}
    assert ag("claude-code", "claude_code.assistant_response")["data"]["outputs"] == "It said hi."
    assert ag("codex", "codex.user_prompt")["data"]["inputs"] == {"value": "Say hi with the shell"}


@pytest.mark.parametrize(
    ("agent", "name", "at", "exception"),
    [
        ("claude-code", "claude_code.api_error", 0, {"message": "prompt is bad"}),
        ("claude-code", "claude_code.tool_result", 1, {"type": "ShellError", "message": "Shell command failed"}),
        ("codex", "codex.api_request", 3, {"message": "http 400"}),
    ],
)
def test_failures_are_exceptions(agent: str, name: str, at: int, exception: dict[str, str]) -> None:
    found = ag(agent, name, at)

    assert found["exception"] == exception
    assert found["metrics"]["errors"]["incremental"] == 1


@pytest.mark.parametrize("agent", NAMES)
def test_values_of_known_meaning_are_read(agent: str) -> None:
    assert not [reason for _, normalized in normals_of(agent) for reason in normalized.mapping_errors]


def of(name: str, agent: str, **attributes: Any) -> dict[str, Any]:
    span = next(span for span, _ in normals_of(agent) if span.name == name)
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    [normalized] = normalize([span._replace(attributes={**span.attributes, **given})])
    found: dict[str, Any] = normalized.attributes["ag"]
    return found


def test_redacted_content_is_none() -> None:
    assert "inputs" not in of("claude_code.user_prompt", "claude-code", prompt="<REDACTED>")["data"]
    assert "outputs" not in of("claude_code.assistant_response", "claude-code", response="<REDACTED>")["data"]
    assert "inputs" not in of("codex.user_prompt", "codex", prompt="[REDACTED]")["data"]


def test_failed_tool_of_codex_is_an_exception_without_words() -> None:
    assert of("codex.tool_result", "codex", success="false")["exception"] == {}


def test_last_retry_is_counted_as_one_error() -> None:
    event = {"claude_code__event": "api_retries_exhausted", "total_attempts": 3, "error": "Overloaded"}

    assert "exception" not in of("claude_code.assistant_response", "claude-code", **event)


@pytest.mark.parametrize("agent", NAMES)
def test_attributes_of_these_names_mean_nothing_on_other_spans(agent: str) -> None:
    for span, _ in normals_of(agent):
        others = {
            key: value
            for key, value in span.attributes.items()
            if not key.endswith(("_code.event", "codex.event")) and key not in ("session.id", "user.id")
        }
        plain = Span(b"1" * 16, b"2" * 16, None, "n", 1, 1, 2, 0, None, others)
        [normalized] = normalize([plain])
        assert normalized.span_type == "task"
        found = normalized.attributes["ag"]
        assert "incremental" not in found["metrics"]["tokens"]
        assert "session" not in found
        assert not found.get("data", {}).get("inputs")
