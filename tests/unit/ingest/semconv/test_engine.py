"""The engine: which rows apply, which one wins, what stays as it was sent, what plans cost, and that it never fails."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.nesting import nest
from ingest.ag import canonical_ag
from ingest.semconv.conventions import CONVENTIONS
from ingest.semconv.engine import Mapped, united
from ingest.semconv.messages import INPUTS_OF_MIME_TYPE, OUTPUTS_OF_MIME_TYPE
from ingest.semconv.rows import ALL, Converter, MappingError, Reason
from tests.support.mapping import map_attributes

ROWS = [row for convention in CONVENTIONS for row in convention.rows]
SOURCES = sorted({source for row in ROWS for source in row.sources})


def mapped(**attributes: Any) -> dict[str, Any]:
    """Return what these attributes map to; two underscores in a name are a dot."""
    return what_is_mapped({key.replace("__", "."): value for key, value in attributes.items()}).ag


def what_is_mapped(flat: dict[str, Any]) -> Mapped:
    return map_attributes(flat, nest(flat)) or Mapped({})


def tokens(flat: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = what_is_mapped(flat).ag.get("metrics", {}).get("tokens", {}).get("incremental", {})
    return found


def test_unknown_keys_map_to_nothing() -> None:
    assert map_attributes({}, {}) is None
    assert map_attributes({"http.route": "/", "generic_ai.usage": 1}, {}) is None
    assert map_attributes({"gen_ai.future.key": 5, "ai": 1}, {}) is None


def test_later_convention_wins() -> None:
    openinference = {"openinference.span.kind": "CHAIN", "llm.token_count.prompt": 1, "llm.token_count.completion": 7}
    genai = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 2}
    vercel = {"ai.operationId": "ai.toolCall", "ai.usage.promptTokens": 3}

    assert what_is_mapped(openinference).ag["type"] == {"span": "chain"}
    assert what_is_mapped(vercel | genai | openinference).ag["type"] == {"span": "tool"}
    assert tokens(openinference | genai) == {"prompt": 2, "completion": 7, "total": 9}
    assert tokens(vercel | genai | openinference) == {"prompt": 3, "completion": 7, "total": 10}


CONTAINERS: list[tuple[str, dict[str, Any]]] = [
    (
        "gen_ai.prompt",
        {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi", "gen_ai.prompt.1.role": "tool"},
    ),
    ("gen_ai.completion", {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Hello"}),
    ("llm.input_messages", {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi"}),
    ("llm", {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi"}),
    ("gen_ai.request", {"gen_ai.request.seed": 5, "gen_ai.request.model": "gpt-4.1"}),
    ("retrieval.documents", {"retrieval.documents.0.document.content": "Lisbon"}),
]


@pytest.mark.parametrize(("prefix", "flat"), CONTAINERS, ids=[prefix for prefix, _ in CONTAINERS])
def test_values_below_a_prefix_that_was_sent_too_are_mapped(prefix: str, flat: dict[str, Any]) -> None:
    alone = what_is_mapped(flat)

    assert alone.ag
    for value in ("text", True, 5):
        assert what_is_mapped({prefix: value, **flat}) == alone
        assert what_is_mapped({**flat, prefix: value}) == alone
    nested = nest({prefix: "text", **flat})
    assert map_attributes(nested, nest(nested)) == alone


def test_unreadable_value_does_not_win() -> None:
    both = what_is_mapped({"llm.token_count.prompt": 1, "gen_ai.usage.input_tokens": "many"})

    assert both == ({"metrics": {"tokens": {"incremental": {"prompt": 1, "total": 1}}}}, ["not_a_count"])


JSON_LIKE = st.sampled_from(["{", "[", '{"a": ', "[1, 2"]) | st.builds(
    json.dumps,
    st.lists(st.none() | st.integers() | st.dictionaries(st.text(max_size=3), st.none() | st.text(max_size=3)))
    | st.dictionaries(st.sampled_from(["messages", "choices", "role", "content", "type", "a"]), st.none() | st.text())
    | st.just({"messages": [{"role": "user", "content": "Hi"}]})
    | st.just({"choices": [{"message": {"role": "assistant"}}], "type": "text", "text": None}),
)


@pytest.mark.parametrize("converter", {row.reading for row in ROWS if row.reading.has_value_of_json})
@given(text=JSON_LIKE, mime_type=st.sampled_from([None, "application/json", "text/plain"]))
def test_converters_that_promise_a_value_of_json_have_one(converter: Converter, text: str, mime_type: str) -> None:
    is_of_mime_type = converter in (INPUTS_OF_MIME_TYPE, OUTPUTS_OF_MIME_TYPE)
    try:
        found = converter.read(text, mime_type) if is_of_mime_type else converter.read(text)
    except MappingError as mapping_error:
        found = mapping_error.found

    assert found is not None


MESSAGES = '[{"role": "user", "parts": [{"type": "text", "content": "New?"}]}]'
SAYS_NEW = {"messages": [{"role": "user", "content": "New?"}]}


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        ({"input.value": '{"old": 1}', "gen_ai.input.messages": MESSAGES}, SAYS_NEW),
        ({"input.value": "{", "input.mime_type": "application/json", "gen_ai.input.messages": MESSAGES}, SAYS_NEW),
        ({"input.value": '{"old": 1}', "gen_ai.input.messages": "[]"}, {"old": 1}),
        ({"input.value": '{"old": 1}', "gen_ai.input.messages": "no JSON"}, {"old": 1}),
        ({"input.value": "{", "input.mime_type": "application/json", "gen_ai.input.messages": "[]"}, {"value": "{"}),
    ],
)
def test_members_have_the_order_of_the_first_rows_with_a_value(sent: dict[str, Any], data: dict[str, Any]) -> None:
    """The last row wins, whether the others are read or not, and the first has the place."""
    outputs = {"output.value": "Yes."}

    found = what_is_mapped({"input.mime_type": "application/json"} | sent | outputs).ag["data"]

    assert list(found.items()) == [("inputs", data), ("outputs", "Yes.")]


def test_value_that_is_replaced_is_not_read() -> None:
    sent = {"input.value": "{", "input.mime_type": "application/json", "gen_ai.input.messages": MESSAGES}

    assert what_is_mapped(sent) == ({"data": {"inputs": SAYS_NEW}}, [])
    assert what_is_mapped(sent | {"gen_ai.input.messages": "[]"}).mapping_errors == ["not_json"]


def test_generations_of_one_convention_may_be_mixed() -> None:
    old = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Old?", "gen_ai.usage.prompt_tokens": 4}
    new = {
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "New?"}]}]',
        "gen_ai.usage.input_tokens": 5,
    }
    says_old = {"messages": [{"role": "user", "content": "Old?"}]}
    says_new = {"messages": [{"role": "user", "content": "New?"}]}

    assert what_is_mapped(old).ag["data"] == {"inputs": says_old}
    assert what_is_mapped(new).ag["data"] == {"inputs": says_new}
    assert what_is_mapped(new | old).ag["data"] == {"inputs": says_new}
    assert (tokens(old)["prompt"], tokens(new)["prompt"], tokens(new | old)["prompt"]) == (4, 5, 5)


def test_unknown_key_below_a_known_prefix_is_kept() -> None:
    flat = {"gen_ai.request.model": "m", "gen_ai.request.patience": 3, "gen_ai.request.choice.count": 2}

    assert what_is_mapped(flat).ag["meta"]["request"] == {"model": "m", "patience": 3, "choice": {"count": 2}}


def test_metadata_does_not_replace_members_with_a_meaning() -> None:
    flat = {
        "traceloop.association.properties.attempt": 3,
        "traceloop.association.properties.request": "mine",
        "gen_ai.request.model": "m",
    }

    assert what_is_mapped(flat).ag["meta"] == {"attempt": 3, "request": {"model": "m"}}


@pytest.mark.parametrize(
    ("sent", "total"),
    [
        ({"gen_ai.usage.input_tokens": 2}, 2),
        ({"gen_ai.usage.output_tokens": 3}, 3),
        ({"gen_ai.usage.input_tokens": 2, "gen_ai.usage.output_tokens": 3}, 5),
        ({"gen_ai.usage.input_tokens": 2, "gen_ai.usage.total_tokens": 9}, 9),
        ({"gen_ai.usage.input_tokens": 2, "gen_ai.usage.total_tokens": "nine"}, 2),
        ({"gen_ai.usage.reasoning_tokens": 2}, None),
    ],
)
def test_missing_total_is_the_sum(sent: dict[str, Any], total: int | None) -> None:
    assert tokens(sent).get("total") == total


def test_sums_by_name_are_cumulative() -> None:
    flat = {"gen_ai.aggregated_usage.input_tokens": 119, "gen_ai.aggregated_usage.output_tokens": 13}

    assert what_is_mapped(flat).ag["metrics"]["tokens"] == {
        "cumulative": {"prompt": 119, "completion": 13, "total": 132}
    }


def test_unprefixed_keys_count_only_next_to_prefixed_ones() -> None:
    plain = {"events": "[]", "metadata": "no JSON", "final_result": "x", "agent_name": "a", "tool_response": "r"}

    assert map_attributes(plain, nest(plain)) is None
    assert what_is_mapped(plain | {"gen_ai.agent.name": "a"}).ag["data"]["outputs"] == "r"


def test_nested_attributes_map_like_flat_ones() -> None:
    flat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Hello.",
        "gen_ai.request.seed": 1,
        "other": 1,
    }

    assert what_is_mapped(nest(flat)) == what_is_mapped(flat)
    assert map_attributes({"gen_ai": 5}, {"gen_ai": 5}) is None
    assert map_attributes({"llm": {"unheard": {"of": 1}}}, {}) is None


def test_republished_response_is_not_mapped_again() -> None:
    answered = {"type": {"trace": "invocation"}}

    assert map_attributes({"gen_ai.usage.input_tokens": 5, "ag": answered}, {}) is None


@pytest.mark.parametrize(
    "ag", [None, "text", 5, [], {}, {"type": "trace"}, {"type": {"span": "chat"}}, {"session": {"id": "s"}}]
)
def test_ag_that_is_not_of_a_response_leaves_the_rest_to_be_mapped(ag: Any) -> None:
    assert what_is_mapped({"gen_ai.usage.input_tokens": 5, "ag": ag}) == what_is_mapped(
        {"gen_ai.usage.input_tokens": 5}
    )


def test_sent_ag_wins_over_mapped_values() -> None:
    native = {
        "data": {"inputs": {"question": "?"}},
        "meta": {"request": {"seed": 2}, "retries": 0},
        "metrics": {"tokens": {"incremental": {"prompt": 9}}},
        "session": None,
    }
    other = {
        "data": {"inputs": {"messages": []}, "outputs": "yes"},
        "meta": {"request": {"seed": 1, "model": "m"}},
        "metrics": {"tokens": {"incremental": {"prompt": 1, "total": 1}, "cumulative": {"prompt": 5}}},
        "session": {"id": "s"},
    }
    before = copy.deepcopy((native, other))

    assert united(other, native) == {
        "data": {"inputs": {"question": "?"}, "outputs": "yes"},
        "meta": {"request": {"seed": 2, "model": "m"}, "retries": 0},
        "metrics": {"tokens": {"incremental": {"prompt": 9}, "cumulative": {"prompt": 5}}},
        "session": {"id": "s"},
    }
    assert (native, other) == before


def test_key_of_many_segments_takes_time_linear_in_its_length() -> None:
    flat = {"gen_ai.usage.input_tokens": 1, "gen_ai.prompt" + ".0" * 500_000: "deep"}

    assert tokens(flat) == {"prompt": 1, "total": 1}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "chat", "LLM", "stop", "tool", "agent", "application/json", "nobody", "[", "{", "4"])
    | st.sampled_from(
        [
            "[]",
            "{}",
            '[{"role": "user", "parts": [{"type": "text", "content": "?"}]}]',
            '[{"role": "tool", "content": [1, {"a": null}], "id": 5}]',
            '[{"event.name": "gen_ai.choice", "message": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]',
            '{"messages": [{"type": "ai", "data": {"content": "", "tool_calls": [{"name": 5}]}}]}',
            '{"prompt": "?", "system": "!", "tools": [], "function_tools": [{"name": "t"}, 5]}',
            '[{"parts": [5]}]',
            "[" * 30 + "]" * 30,
        ]
    )
)
WORDS = st.sampled_from(
    [
        "role",
        "content",
        "contents",
        "parts",
        "type",
        "text",
        "tool_calls",
        "message",
        "function",
        "id",
        "0",
        "1",
        "name",
    ]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=10
)
BELOW = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
KEYS = st.sampled_from([source for source in SOURCES if not source.endswith(ALL)]) | st.builds(
    lambda source, below: source.removesuffix(ALL) + "." + below, st.sampled_from(SOURCES), BELOW
)


@given(st.dictionaries(KEYS, VALUES, max_size=12))
@example({"gen_ai.prompt": "alone", "gen_ai.prompt.0.content": "x"})
@example({"llm.input_messages.1.message.role": "user", "llm.input_messages.x": 1})
@example({"traceloop.entity.output": {"messages": [{"role": "a"}]}, "gen_ai.response.finish_reasons": ["stop"]})
def test_any_attributes_are_mapped_and_never_changed(flat: dict[str, Any]) -> None:
    nested = nest(flat)
    before = copy.deepcopy((flat, nested))

    found = what_is_mapped(flat)

    assert (flat, nested) == before
    assert set(found.mapping_errors) <= set(Reason)
    assert canonical_ag(found.ag, trace_type="invocation") == _laid_out(found.ag)
    assert _levels(found.ag) <= 27


def _laid_out(ag: dict[str, Any]) -> dict[str, Any]:
    empty = canonical_ag(None, trace_type="invocation")
    return empty | ag | {name: empty[name] | ag.get(name, {}) for name in ("type", "metrics")}


def _levels(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)
