"""Every name of the registry of OpenTelemetry's GenAI conventions: what is decided about it is what happens."""

from __future__ import annotations

from typing import Any, Final

import pytest

from common.span import Event, NormalizedSpan, Scope, Span, SpanKind, StatusCode
from ingest.normalize import normalize
from ingest.semconv.vocabulary import finish_reason_named
from tests.support.genai_registry import (
    DECISIONS,
    EVENTS,
    OPERATIONS,
    REGISTRY,
    VARIABLE,
    Kept,
    Mapped,
    attributes_of_registry,
)

VALUES: Final = attributes_of_registry()
CALL: Final = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
"""What a span with an event has itself."""


def normalized_of(attributes: dict[str, Any], *, events: tuple[Event, ...] = (), status: int = 0) -> NormalizedSpan:
    span = Span(b"\1" * 16, b"\2" * 16, None, "a span", 0, 10**18, 10**18, 0, None, attributes, events)
    return normalize([span._replace(kind=SpanKind.SPAN_KIND_CLIENT, status_code=StatusCode(status), scope=Scope("s"))])[
        0
    ]


def ag_of(attributes: dict[str, Any], **others: Any) -> dict[str, Any]:
    ag: dict[str, Any] = normalized_of(attributes, **others).attributes["ag"]
    return ag


def value_at(members: Any, path: str) -> Any:
    for segment in path.split("."):
        members = members.get(segment) if isinstance(members, dict) else None
    return members


def test_every_name_is_decided_once() -> None:
    assert sorted(VALUES) == sorted(DECISIONS)
    assert sorted([*REGISTRY["events"], *REGISTRY["deprecated_events"]]) == sorted(EVENTS)
    assert sorted(REGISTRY["values"]["gen_ai.operation.name"]) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", sorted(name for name, found in DECISIONS.items() if isinstance(found, Mapped)))
def test_mapped_attribute_is_at_its_place(name: str) -> None:
    decision = DECISIONS[name]
    assert isinstance(decision, Mapped)
    key, place = (text.replace(VARIABLE, "user_name") for text in (name, decision.place))
    normalized = normalized_of({key: VALUES[name], **dict(decision.beside)})

    expected = VALUES[name] if decision.value is None else decision.value
    assert value_at(normalized.attributes["ag"], place) == expected
    assert not normalized.mapping_errors


@pytest.mark.parametrize("name", sorted(name for name, found in DECISIONS.items() if isinstance(found, Kept)))
def test_kept_attribute_is_where_it_was_sent_and_not_in_ag(name: str) -> None:
    normalized = normalized_of({**CALL, name: VALUES[name]})

    assert value_at(normalized.attributes, name) == VALUES[name]
    assert normalized.attributes["ag"] == ag_of(CALL)
    assert not normalized.mapping_errors


@pytest.mark.parametrize(("operation", "span_type"), sorted(OPERATIONS.items()))
def test_operation_is_a_type_of_span(operation: str, span_type: str) -> None:
    normalized = normalized_of({"gen_ai.operation.name": operation})

    assert (normalized.span_type, normalized.attributes["ag"]["type"]["span"]) == (span_type, span_type)


@pytest.mark.parametrize("provider", REGISTRY["values"]["gen_ai.provider.name"])
def test_provider_has_its_own_name(provider: str) -> None:
    assert ag_of({"gen_ai.provider.name": provider})["meta"]["system"] == provider


@pytest.mark.parametrize("status", REGISTRY["values"]["gen_ai.response.status"])
def test_status_of_a_response_is_its_word(status: str) -> None:
    assert ag_of({"gen_ai.response.status": status})["meta"]["response"]["status"] == status


@pytest.mark.parametrize("reason", REGISTRY["finish_reasons"])
def test_finish_reason_is_its_word(reason: str) -> None:
    assert finish_reason_named(reason) == reason


@pytest.mark.parametrize("kind", REGISTRY["parts"])
def test_part_of_a_message_is_not_lost(kind: str) -> None:
    part = {"type": kind, "id": "p1", "name": "search", "content": "a text", "response": "a result", "uri": "gs://b/1"}
    messages = [{"role": "assistant", "parts": [part, {"type": "text", "content": "Good day."}]}]
    shown = ag_of({**CALL, "gen_ai.output.messages": messages})["data"]["outputs"]["messages"]

    expected = {
        "text": {"parts": [{"type": "text", "content": "a text"}]},
        "reasoning": {"parts": [{"type": "reasoning", "content": "a text"}]},
        "tool_call": {"tool_calls": [{"id": "p1", "name": "search"}]},
        "tool_call_response": {},
    }.get(kind, {"parts": [part]})
    assert {name: shown[0][name][:1] for name in expected} == expected
    assert (shown[-1]["role"] == "tool") == (kind == "tool_call_response")


@pytest.mark.parametrize("method", REGISTRY["values"]["mcp.method.name"])
def test_method_of_mcp_is_a_task_unless_a_tool_is_named(method: str) -> None:
    assert normalized_of({"mcp.method.name": method}).span_type == "task"
    assert normalized_of({"mcp.method.name": method, "gen_ai.tool.name": "greet"}).span_type == "tool"
    assert normalized_of({"mcp.method.name": method, "openinference.span.kind": "TOOL"}).span_type == "tool"


def test_model_call_over_mcp_stays_one() -> None:
    usage = {"gen_ai.request.model": "gpt-4", "gen_ai.usage.output_tokens": 7}

    assert normalized_of({"mcp.method.name": "sampling/createMessage", **usage}).span_type == "chat"


def test_failure_of_a_method_of_mcp_counts() -> None:
    failed = ag_of({"mcp.method.name": "resources/read", "error.type": "-32602"}, status=2)

    assert failed["exception"] == {"type": "-32602"}
    assert failed["metrics"]["errors"]["incremental"] == 1


def test_records_of_a_memory_are_results_only_of_a_search() -> None:
    records = [{"content": {"preference": "vegetarian"}, "metadata": {"source": "profile"}}]
    for sent in (records, '[{"content": {"preference": "vegetarian"}, "metadata": {"source": "profile"}}]'):
        found = ag_of(
            {
                "gen_ai.operation.name": "search_memory",
                "gen_ai.memory.records": sent,
                "gen_ai.memory.query.text": "diet",
            }
        )
        stored = ag_of({"gen_ai.operation.name": "upsert_memory", "gen_ai.memory.records": sent})

        assert found["data"] == {"inputs": {"query": "diet"}, "outputs": {"records": records}}
        assert stored["data"] == {"inputs": {"records": records}}


def test_parts_of_tokens_are_counted_once() -> None:
    """The example of the convention: 100 tokens of text, 40 of them from the cache, and 200 of an image."""
    ag = ag_of(
        {
            **CALL,
            "gen_ai.usage.input_tokens": 300,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.text.input_tokens": 100,
            "gen_ai.usage.text.cache_read.input_tokens": 40,
            "gen_ai.usage.image.input_tokens": 200,
            "gen_ai.usage.audio.output_tokens": 20,
        }
    )

    incremental = ag["metrics"]["tokens"]["incremental"]
    parts = {"prompt_text": 100, "prompt_image": 200, "cached_text": 40, "completion_audio": 20}
    assert incremental == {"prompt": 300, "completion": 20, "total": 320, "cached": 40, **parts}
    assert ag["metrics"]["tokens"]["cumulative"] == {"prompt": 300, "completion": 20, "total": 320}


def test_parts_alone_are_no_sum() -> None:
    tokens = ag_of({**CALL, "gen_ai.usage.text.input_tokens": 100})["metrics"]["tokens"]

    assert tokens == {"incremental": {"prompt_text": 100}}


def test_reference_stands_next_to_the_content() -> None:
    sent = {name: value for name, value in REGISTRY["references"].items() if name.endswith("_ref")}
    references = {
        "inputs": {
            "messages_ref": sent["gen_ai.input.messages_ref"],
            "system_instructions_ref": sent["gen_ai.system_instructions_ref"],
        },
        "outputs": {"messages_ref": sent["gen_ai.output.messages_ref"]},
        "parameters": {"tools_ref": sent["gen_ai.tool.definitions_ref"]},
    }
    content = {name: VALUES[f"gen_ai.{name}.messages"] for name in ("input", "output")}
    said = ag_of({**CALL, **sent, **{f"gen_ai.{name}.messages": messages for name, messages in content.items()}})
    details = {f"gen_ai.{name}.messages": messages for name, messages in content.items()}
    of_event = ag_of({**CALL, **sent}, events=(Event("gen_ai.client.inference.operation.details", 0, details),))

    assert ag_of({**CALL, **sent})["data"] == references
    assert said["data"] == of_event["data"]
    assert {name: members.pop("messages") for name, members in said["data"].items() if "messages" in members} == {
        "inputs": [{"role": "user", "content": "Weather in Paris?"}],
        "outputs": [{"role": "assistant", "content": "It is rainy."}],
    }
    assert said["data"] == references


def test_reference_does_not_replace_an_answer() -> None:
    ag = ag_of({"traceloop.entity.output": '"It is rainy."', "gen_ai.output.messages_ref": "gs://bucket/1.json"})

    assert ag["data"] == {"outputs": "It is rainy."}


def test_template_stands_next_to_numbered_prompts() -> None:
    """OpenLLMetry's numbered prompts begin like the names of templates."""
    ag = ag_of({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hello.", "gen_ai.prompt.name": "greeting"})

    assert ag["data"]["inputs"] == {"messages": [{"role": "user", "content": "Hello."}]}
    assert ag["data"]["parameters"] == {"prompt_template": {"name": "greeting"}}


def test_evaluation_is_kept_as_it_was_sent() -> None:
    evaluation = {name: value for name, value in VALUES.items() if name.startswith("gen_ai.evaluation.")}
    event = Event("gen_ai.evaluation.result", 0, {**evaluation, "gen_ai.response.id": "chatcmpl-123"})
    normalized = normalized_of(CALL, events=(event,))

    assert normalized.attributes["ag"] == ag_of(CALL, events=(Event("any other", 0, {}),))
    assert event.attributes == {**evaluation, "gen_ai.response.id": "chatcmpl-123"}


def test_exception_of_a_client_is_one_failure_with_the_event_of_the_span() -> None:
    said = {"exception.type": "RateLimited", "exception.message": "too many requests"}
    names = ("gen_ai.client.operation.exception", "exception")
    for events in ([names[0]], list(names)):
        ag = ag_of(CALL, events=tuple(Event(name, 0, said) for name in events))

        assert ag["exception"] == {"type": "RateLimited", "message": "too many requests"}
        assert ag["metrics"]["errors"]["incremental"] == 1
