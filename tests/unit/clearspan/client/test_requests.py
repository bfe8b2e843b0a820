"""Words of a command line become the text that the API reads, and its answer a filter or an error in words."""

from __future__ import annotations

from typing import Any, cast

import pytest

from clearspan.client.connection import ApiClient, WrongUsage
from clearspan.client.requests import ReadConditions, read_conditions, read_field, read_filter, text_of


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["cost > 1 and model exists"], "cost > 1 and model exists"),
        (["cost", "gt", "0.01"], "cost gt 0.01"),
        (["content", "contains", "refund policy", "and", "cost>1"], 'content contains "refund policy" and cost>1'),
        (["name", "is", 'the "best" one'], 'name is "the \\"best\\" one"'),
        (["name", "=", "fetch(url)"], 'name = "fetch(url)"'),
        (["http.status", "is", '"500"'], 'http.status is "500"'),
        (["service", "in", '["a b","c"]'], 'service in ["a b","c"]'),
        (
            ["cost > 1", "and", "(model exists", "or", "not user exists)"],
            "cost > 1 and (model exists or not user exists)",
        ),
        ([], ""),
    ],
)
def test_words_of_a_shell_are_one_text(words: list[str], text: str) -> None:
    assert text_of(words) == text


class FixedAnswer:
    """An API whose answer is known."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def post(self, path: str, body: Any) -> dict[str, Any]:
        self.asked.append((path, body))
        return self._answer


async def test_problem_is_shown_below_its_place() -> None:
    problem = {"message": "“foo” is not a field.", "begin": 7, "end": 10, "allowed": ["cost", "model"]}

    with pytest.raises(WrongUsage) as refused:
        await read_conditions(cast("ApiClient", FixedAnswer({"problem": problem})), "x=1 or foo is 3")

    lines = ["“foo” is not a field.", "  x=1 or foo is 3", "         ^^^", "  allowed: cost, model"]
    assert str(refused.value).splitlines() == lines


async def test_words_that_are_searched_for_warn() -> None:
    searched = {"field": "content", "operator": "contains", "value": "session s-1"}
    answer = {"parts": [{"text": "session s-1", "filtering": searched}], "searched": True, "hint": "session = s-1"}

    read = await read_conditions(cast("ApiClient", FixedAnswer(answer)), "session s-1")

    assert read.conditions == [searched]
    assert read.warning == "This is no condition: its words are searched for. Did you mean: session = s-1"


async def test_nothing_is_asked_about_no_text() -> None:
    api = FixedAnswer({})

    assert await read_conditions(cast("ApiClient", api), " ") == ReadConditions([])
    assert api.asked == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("foo", "'foo' is not a field; allowed: trace_id, "),
        ("sessionId", "and paths such as attributes.http.status. Did you mean 'session_id'?"),
        ("attributes", "'attributes' needs a path, for example attributes.http.status"),
    ],
)
def test_name_that_is_no_field_is_wrong_usage(name: str, message: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        read_field(name)

    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100_000])
def test_filter_that_is_no_json_object_is_wrong_usage(text: str) -> None:
    with pytest.raises(WrongUsage, match="--filter"):
        read_filter(text)
