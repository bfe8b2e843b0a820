"""Cases of single values that were read wrongly; the right values were given with each case."""

from __future__ import annotations

import pytest

from tests.support.reported_cases import ags_of, cost_of, normalized_case, tokens_of


def test_number_as_text_is_the_number() -> None:
    (ag,) = ags_of("numbers-as-text")

    assert tokens_of(ag) == {"prompt": 1000, "completion": 50, "total": 1050}
    assert cost_of(ag) == 0.00018
    assert ag["meta"]["request"] == {"model": "gpt-4o-mini", "temperature": 0.7, "max_tokens": 200}


def test_cache_tokens_in_usage_details_are_read() -> None:
    for ag in ags_of("cache-tokens-in-details"):
        assert tokens_of(ag) == {
            "prompt": 130213,
            "completion": 100,
            "total": 130313,
            "cached": 128955,
            "cache_write": 1253,
        }
        assert cost_of(ag) == pytest.approx(0.04490025)


def test_text_labelled_as_json_stays_text() -> None:
    (normalized,) = normalized_case("text-labelled-json")

    assert normalized.attributes["ag"]["data"] == {"inputs": {"value": "Weather?"}, "outputs": "Sunny in Lisbon."}
    assert normalized.mapping_errors == ["not_json"]


def test_finish_reasons_and_roles_have_one_name() -> None:
    first, second, third = ags_of("finish-reasons-in-capitals")

    assert [ag["meta"]["response"]["finish_reasons"] for ag in (first, second, third)] == [
        ["stop"],
        ["tool_call"],
        ["stop"],
    ]
    assert first["data"]["outputs"]["messages"] == [{"role": "assistant", "content": "Sunny.", "finish_reason": "stop"}]


def test_reranker_has_its_query_and_documents() -> None:
    (ag,) = ags_of("reranker-documents")

    assert ag["data"] == {
        "inputs": {"query": "warm", "documents": [{"id": "a", "content": "Lisbon"}, {"id": "b", "content": "Oslo"}]},
        "outputs": {"documents": [{"id": "a", "content": "Lisbon", "score": 0.9}]},
    }


def test_escaped_backslash_before_u0000_is_text() -> None:
    chat, tool = ags_of("escaped-null")

    assert chat["data"]["inputs"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What does '\\u0000' mean in C#?"},
    ]
    assert tool["data"]["inputs"] == {"pattern": "[\\u0000-\\u001f]"}
