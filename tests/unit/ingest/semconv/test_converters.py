"""Single values: what is read, what is a mapping error and why; one name for one thing."""

from __future__ import annotations

from typing import Any

import pytest

from common.nesting import nest
from ingest.semconv.converters import REMEMBERED_CHARACTERS_MAX, remembered
from ingest.semconv.rows import MappingError, Reason
from ingest.semconv.vocabulary import finish_reason_named, provider_named
from tests.support.mapping import map_attributes


def read(key: str, value: Any, **others: Any) -> tuple[Any, list[str]]:
    """Return what one attribute becomes under ``ag``, and its mapping errors."""
    flat = {key: value} | {name.replace("__", "."): other for name, other in others.items()}
    mapped = map_attributes(flat, nest(flat))
    assert mapped is not None
    return mapped.ag, list(mapped.mapping_errors)


@pytest.mark.parametrize(
    ("value", "count"),
    [(0, 0), (7, 7), (2**64 - 1, 2**64 - 1), ("7", 7), ("7.0", 7), ("1e2", 100), ("18446744073709551615", 2**64 - 1)],
)
def test_counts_are_integers_of_at_least_zero(value: Any, count: int) -> None:
    ag, mapping_errors = read("gen_ai.usage.cache_read.input_tokens", value)

    assert (ag, mapping_errors) == ({"metrics": {"tokens": {"incremental": {"cached": count}}}}, [])
    assert type(ag["metrics"]["tokens"]["incremental"]["cached"]) is int


@pytest.mark.parametrize(("completion", "total"), [(2**63 - 1, 2**64 - 1), (2**63, None)])
def test_total_is_added_if_an_integer_can_hold_it(completion: int, total: int | None) -> None:
    said = {"prompt": 2**63, "completion": completion, **({} if total is None else {"total": total})}

    ag, _ = read("gen_ai.usage.input_tokens", 2**63, gen_ai__usage__output_tokens=completion)

    assert ag == {"metrics": {"tokens": {"incremental": said}}}


@pytest.mark.parametrize(
    "value", [-1, 0.5, "-1", "0.5", "7 ", "07", "1,000", "", "abc", "9" * 5_000, True, [7], {"count": 7}, "NaN", 1e30]
)
@pytest.mark.parametrize(
    "key",
    ["gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens", "ai.usage.promptTokens"],
)
def test_value_that_is_not_a_count_becomes_no_metric(key: str, value: Any) -> None:
    assert read(key, value) == ({}, ["not_a_count"])


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0, 0),
        (8.85e-06, 8.85e-06),
        ("1", 1),
        ("8.85e-06", 8.85e-06),
        (-0.1, None),
        ("-0.1", None),
        ("1e999", None),
        ("free", None),
        (True, None),
    ],
)
@pytest.mark.parametrize("key", ["operation.cost", "gen_ai.usage.cost", "llm.cost.total"])
def test_costs_are_read_as_numbers(key: str, value: Any, amount: float | None) -> None:
    said = {"metrics": {"costs": {"incremental": {"total": amount}}}}

    assert read(key, value) == (({}, ["not_an_amount"]) if amount is None else (said, []))


@pytest.mark.parametrize(
    ("key", "value", "ag", "mapping_errors"),
    [
        ("session.id", "s", {"session": {"id": "s"}}, []),
        ("session.id", 5, {"session": {"id": "5"}}, []),
        ("session.id", "", {}, []),
        ("session.id", None, {}, []),
        ("session.id", ["s"], {}, ["not_text"]),
        ("gen_ai.request.temperature", 0.5, {"meta": {"request": {"temperature": 0.5}}}, []),
        ("gen_ai.request.temperature", "0.5", {"meta": {"request": {"temperature": 0.5}}}, []),
        ("gen_ai.request.temperature", "hot", {}, ["not_a_number"]),
        ("gen_ai.request.temperature", True, {}, ["not_a_number"]),
        ("gen_ai.operation.name", "dream", {}, []),
        ("gen_ai.operation.name", ["chat"], {}, ["not_text"]),
        ("tag.tags", ["a", "b"], {"tags": {"a": True, "b": True}}, []),
        ("tag.tags", '["a", "b"]', {"tags": {"a": True, "b": True}}, []),
        ("tag.tags", "a", {"tags": {"a": True}}, []),
        ("tag.tags", [["a"]], {}, ["not_text"]),
        ("tag.tags", [], {}, []),
        ("llm.invocation_parameters", '{"top_p": 1, "stop": null}', {"meta": {"request": {"top_p": 1}}}, []),
        ("llm.invocation_parameters", {"maxTokens": 5}, {"meta": {"request": {"max_tokens": 5}}}, []),
        ("llm.invocation_parameters", "{", {}, ["not_json"]),
        ("llm.invocation_parameters", "[1]", {}, ["not_an_object"]),
        ("llm.invocation_parameters", 5, {}, ["not_an_object"]),
        ("gen_ai.output.messages", "not JSON", {}, ["not_json"]),
        ("gen_ai.output.messages", '{"role": "user"}', {}, ["not_messages"]),
        ("gen_ai.output.messages", "[]", {}, []),
        ("gen_ai.prompt.0.role", ["user"], {}, ["not_text"]),
        ("gen_ai.tool.definitions", "5", {}, ["not_tools"]),
        ("gen_ai.tool.definitions", "[5]", {}, ["not_tools"]),
        ("gen_ai.tool.definitions", "[]", {}, []),
        ("gen_ai.response.finish_reasons", "stop", {"meta": {"response": {"finish_reasons": ["stop"]}}}, []),
        (
            "gen_ai.response.finish_reasons",
            '["stop", "tool_calls"]',
            {"meta": {"response": {"finish_reasons": ["stop", "tool_call"]}}},
            [],
        ),
        ("gen_ai.response.finish_reasons", "[stop", {}, ["not_json"]),
        ("gen_ai.response.finish_reasons", {"a": 1}, {}, ["not_text"]),
        ("traceloop.entity.input", '{"args": []}', {"data": {"inputs": {"args": []}}}, []),
        ("traceloop.entity.input", '"x"', {"data": {"inputs": {"value": "x"}}}, []),
        ("traceloop.entity.input", "x", {"data": {"inputs": {"value": "x"}}}, ["not_json"]),
        ("traceloop.entity.input", "", {}, ["not_json"]),
        ("traceloop.entity.output", "[4", {"data": {"outputs": "[4"}}, ["not_json"]),
        ("traceloop.entity.output", "4", {"data": {"outputs": 4}}, []),
        ("gen_ai.tool.call.result", "4", {"data": {"outputs": "4"}, "type": None}, []),
        ("gen_ai.tool.call.result", '"4"', {"data": {"outputs": "4"}}, []),
        ("gen_ai.tool.call.result", '"4', {"data": {"outputs": '"4'}}, []),
        ("gen_ai.tool.call.result", '"4" or "5"', {"data": {"outputs": '"4" or "5"'}}, []),
        ("ai.toolCall.result", '"4"', {"data": {"outputs": "4"}}, []),
        ("ai.values", ['"a"', "b"], {"data": {"inputs": {"value": ["a", "b"]}}}, []),
        ("ai.value", '"a"', {"data": {"inputs": {"value": "a"}}}, []),
        ("ai.prompt", '{"prompt": 5}', {}, ["not_messages"]),
        ("ai.prompt", "what?", {}, ["not_json"]),
        ("embedding.embeddings.0.embedding.text", 5, {}, []),
        ("embedding.embeddings", 5, {}, ["not_text"]),
        ("retrieval.documents.0.document.content", "c", {"data": {"outputs": {"documents": [{"content": "c"}]}}}, []),
    ],
)
def test_values_are_converted_as_listed(key: str, value: Any, ag: dict[str, Any], mapping_errors: list[str]) -> None:
    assert read(key, value) == ({name: member for name, member in ag.items() if member}, mapping_errors)


@pytest.mark.parametrize("key", ["ai.response.object", "ai.response.text"])
def test_completion_with_tool_results_is_several_messages(key: str) -> None:
    sent = [{"type": "tool_result", "tool_use_id": call_id, "content": "4"} for call_id in ("c1", "c2")]

    mapped = map_attributes({key: sent, "ai.prompt.messages": "[]"}, {})

    assert mapped is not None
    assert mapped.ag["data"]["outputs"]["messages"] == [
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
        {"role": "tool", "content": "4", "tool_call_id": "c2"},
    ]


def test_each_mapping_error_of_a_span_is_counted() -> None:
    ag, mapping_errors = read("gen_ai.usage.input_tokens", -1, gen_ai__usage__output_tokens="x", session__id=[])

    assert (ag, sorted(mapping_errors)) == ({}, ["not_a_count", "not_a_count", "not_text"])


@pytest.mark.parametrize(("sent", "said"), [({"completion": 0.5}, {"total": 0.75}), ({}, {"total": 0.25})])
def test_costs_without_a_total_have_their_sum(sent: dict[str, float], said: dict[str, float]) -> None:
    others = {f"llm__cost__{name}": cost for name, cost in sent.items()}

    ag, _ = read("llm.cost.prompt", 0.25, **others)

    assert ag == {"metrics": {"costs": {"incremental": {"prompt": 0.25, **sent, **said}}}}


@pytest.mark.parametrize("prompt", [2.0**64, 1.7e308])
def test_costs_whose_sum_overflows_have_no_total(prompt: float) -> None:
    ag, _ = read("llm.cost.prompt", prompt, llm__cost__completion=prompt)

    assert ag == {"metrics": {"costs": {"incremental": {"prompt": prompt, "completion": prompt}}}}


def test_entity_name_counts_only_for_its_kind() -> None:
    tool, _ = read("traceloop.entity.name", "t", traceloop__span__kind="tool")
    agent, _ = read("traceloop.entity.name", "a", traceloop__span__kind="agent")
    task, _ = read("traceloop.entity.name", "t", traceloop__span__kind="task")

    assert tool == {"type": {"span": "tool"}, "meta": {"tool": {"name": "t"}}}
    assert agent == {"type": {"span": "agent"}, "unsupported": {"agent": {"id": "a", "name": "a"}}}
    assert task == {"type": {"span": "task"}}


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("OpenAI", "openai"),
        ("openai.chat", "openai"),
        ("openai.responses", "openai"),
        ("Anthropic", "anthropic"),
        ("azure.chat", "azure.ai.openai"),
        ("az.ai.openai", "azure.ai.openai"),
        ("aws.bedrock", "aws.bedrock"),
        ("amazon-bedrock", "aws.bedrock"),
        ("gcp.vertex_ai", "gcp.vertex_ai"),
        ("google.generative-ai", "gcp.gemini"),
        ("MistralAI", "mistral_ai"),
        ("Somebody.New", "somebody.new"),
    ],
)
def test_provider_has_one_name(sent: str, name: str) -> None:
    assert provider_named(sent) == name


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("TOOL_CALL", "tool_call"),
        ("COMPLETE", "stop"),
        ("FinishReason.TOOL_CALLS", "tool_call"),
        ("tool_calls", "tool_call"),
        ("tool-calls", "tool_call"),
        ("tool_use", "tool_call"),
        ("MAX_TOKENS", "length"),
        ("content-filter", "content_filter"),
        ("bored", "bored"),
        ("Bored", "Bored"),
    ],
)
def test_finish_reason_has_one_name(sent: str, name: str) -> None:
    assert finish_reason_named(sent) == name


def test_repeated_text_is_parsed_once() -> None:
    parsed = []

    def length(value: Any) -> int:
        parsed.append(value)
        return len(value)

    read_once = remembered(length)
    at_limit, past_limit = "x" * REMEMBERED_CHARACTERS_MAX, "x" * (REMEMBERED_CHARACTERS_MAX + 1)

    for value in ("a", at_limit, past_limit, ["a"]) * 2:
        assert read_once(value) == len(value)

    assert parsed == ["a", at_limit, past_limit, ["a"], past_limit, ["a"]]


def test_mapping_error_is_raised_each_time() -> None:
    @remembered
    def never(_: Any) -> None:
        raise MappingError(Reason.NOT_JSON)

    for _ in range(2):
        with pytest.raises(MappingError, match=Reason.NOT_JSON):
            never("text")
