"""Usage of a call in one object: what each spelling says, and what the count of the prompt includes."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.semconv.rows import MappingError
from ingest.semconv.usage import COSTS_GIVEN, TOKENS_USED


@pytest.mark.parametrize(
    ("sent", "tokens"),
    [
        # OpenAI: details are parts of the counts
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 30, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "reasoning": 5},
        ),
        # OpenAI's Responses API
        (
            {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 10}, "output_tokens": 8, "total_tokens": 38},
            {"prompt": 30, "completion": 8, "total": 38, "cached": 10},
        ),
        # LangChain
        (
            {"input_tokens": 9, "output_tokens": 2, "input_token_details": {"cache_read": 4, "cache_creation": 3}},
            {"prompt": 9, "completion": 2, "cached": 4, "cache_write": 3},
        ),
        # Anthropic: counts without what stands next to them
        (
            {
                "input_tokens": 16,
                "output_tokens": 22,
                "cache_read_input_tokens": 120,
                "cache_creation_input_tokens": 30,
                "cache_creation_ephemeral_5m_input_tokens": 30,
            },
            {"prompt": 166, "completion": 22, "cached": 120, "cache_write": 30},
        ),
        # Langfuse: buckets that do not overlap
        (
            {"input": 1046, "output": 50, "cache_read_input_tokens": 400},
            {"prompt": 1446, "completion": 50, "cached": 400},
        ),
        (
            {"input": 70, "output": 15, "total": 120, "input_cached_tokens": 30, "output_reasoning_tokens": 5},
            {"prompt": 100, "completion": 20, "total": 120, "cached": 30, "reasoning": 5},
        ),
        ({"input": 60, "input_audio": 40, "output": 1}, {"prompt": 100, "completion": 1}),
        ({"input": 5, "input_priority": 5, "output": 1}, {"prompt": 5, "completion": 1}),
        # the total says that the parts are in the counts
        (
            {"input": 100, "output": 10, "total": 110, "cache_read_input_tokens": 40},
            {"prompt": 100, "completion": 10, "total": 110, "cached": 40},
        ),
        # LiteLLM says the cached ones twice
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 40},
                "cache_read_input_tokens": 40,
            },
            {"prompt": 100, "completion": 1, "cached": 40},
        ),
        ({"input": 6}, {"prompt": 6}),
        ({"input": "6", "output": None, "images": 2, "prompt_tokens_details": None}, {"prompt": 6}),
        ({}, {}),
    ],
)
def test_tokens_are_read_in_every_spelling(sent: dict[str, Any], tokens: dict[str, int]) -> None:
    assert TOKENS_USED.read(sent) == tokens


def test_costs_are_sums_of_their_side() -> None:
    sent = '{"input": 0.1, "cache_read_input_tokens": 0.2, "output": 0.2}'

    assert COSTS_GIVEN.read(sent) == {"prompt": 0.3, "completion": 0.2}
    assert COSTS_GIVEN.read({"input": 0.1, "output": 0.2, "total": 0.3}) == {
        "prompt": 0.1,
        "completion": 0.2,
        "total": 0.3,
    }


@pytest.mark.parametrize(
    ("sent", "reason", "found"),
    [
        ({"input": "many", "output": 3}, "not_a_count", {"completion": 3}),
        ({"input": 2**63, "input_audio": 2**63}, "not_a_count", {"prompt": 2**63}),
        ({"input": 1, "prompt_tokens_details": {"cached_tokens": -1}}, "not_a_count", {"prompt": 1}),
        ("no usage", "not_json", None),
        ([1], "not_an_object", None),
    ],
)
def test_what_can_be_read_is_kept(sent: Any, reason: str, found: Any) -> None:
    with pytest.raises(MappingError) as raised:
        TOKENS_USED.read(sent)

    assert (raised.value.reason, raised.value.found) == (reason, found)
