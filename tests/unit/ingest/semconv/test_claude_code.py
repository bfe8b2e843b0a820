"""Claude Code's traces: kinds of spans, arguments and results of tools, failures."""

from __future__ import annotations

from typing import Any

import pytest

from common.nesting import nest
from common.span import Event
from ingest.semconv.engine import Mapped
from ingest.semconv.events import with_events
from tests.support.mapping import map_attributes
from tests.support.sample_records import ag_named, normal_named

NAME = "claude-code-01"


def mapped(span_type: str, **attributes: Any) -> dict[str, Any]:
    sent = {"span.type": span_type, **attributes}
    found = map_attributes(sent, nest(sent))
    assert found is not None
    return found.ag


@pytest.mark.parametrize(
    ("name", "span_type"),
    [
        ("claude_code.interaction", "agent"),
        ("claude_code.llm_request", "chat"),
        ("claude_code.tool", "tool"),
        ("claude_code.tool.execution", "chain"),
        ("claude_code.tool.blocked_on_user", "unknown"),
    ],
)
def test_kinds_of_spans(name: str, span_type: str) -> None:
    assert normal_named(NAME, name).span_type == span_type


def test_tool_has_arguments_and_result() -> None:
    ag = ag_named(NAME, "claude_code.tool")

    assert ag["data"] == {"inputs": {"command": "echo hi"}, "outputs": "hi"}
    assert ag["meta"]["tool"] == {"name": "Bash", "id": "toolu_83"}


def test_prompt_is_the_input_of_an_interaction() -> None:
    assert ag_named(NAME, "claude_code.interaction")["data"]["inputs"] == {"value": "Say hi with the shell"}


def test_model_call_has_a_cost() -> None:
    assert ag_named(NAME, "claude_code.llm_request")["metrics"]["costs"]["incremental"]["total"] > 0


@pytest.mark.parametrize(
    ("attributes", "inputs"),
    [
        ({"file_path": "a.py"}, {"file_path": "a.py"}),
        ({"skill_name": "review"}, {"skill": "review"}),
        ({"subagent_type": "Explore"}, {"subagent_type": "Explore"}),
        ({"full_command": "ls", "tool_input": '{"command": "ls", "timeout": 5}'}, {"command": "ls", "timeout": 5}),
    ],
)
def test_arguments_of_tools(attributes: dict[str, Any], inputs: dict[str, Any]) -> None:
    assert mapped("tool", **attributes)["data"]["inputs"] == inputs


@pytest.mark.parametrize(
    ("attributes", "exception"),
    [
        ({"success": True}, None),
        ({"success": False, "error": "no such file"}, {"message": "no such file"}),
        ({"success": "false"}, {}),
        ({"error": "overloaded"}, {"message": "overloaded"}),
        ({"success": True, "error": "retried"}, None),
    ],
)
def test_failure_has_its_message(attributes: dict[str, Any], exception: dict[str, Any] | None) -> None:
    assert mapped("tool.execution", **attributes).get("exception") == exception


@pytest.mark.parametrize(
    ("attributes", "outputs"),
    [({"output": "hi"}, "hi"), ({"content": '{"a": 1}'}, {"a": 1}), ({"bash_command": "echo"}, None)],
)
def test_event_has_the_result(attributes: dict[str, Any], outputs: Any) -> None:
    found = with_events(Mapped({}), [Event("tool.output", 0, attributes)])

    assert found.ag.get("data", {}).get("outputs") == outputs
