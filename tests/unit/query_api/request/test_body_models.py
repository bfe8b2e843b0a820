"""However much of a body is wrong, only the first of it is looked at; what is right is never lost."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from query_api.request.json_body import MEMBERS_MAX, PROBLEMS_MAX, Listed, Named, Problems, Strict


class Inner(BaseModel):
    number: int


class Body(BaseModel):
    several: Listed[Inner] = []
    named: Named[str, Inner | Listed[Inner]] = {}
    either: Listed[Listed[int] | Listed[str]] = []


class Few(Strict):
    member: int = 0


def problems_of(value: Any, *, context: Problems | None) -> list[Any]:
    with pytest.raises(ValidationError) as refused:
        Body.model_validate(value, context=context)
    return [problem["loc"] for problem in refused.value.errors()]


def wrong(count: int) -> list[dict[str, str]]:
    return [{"number": "x"}] * count


@pytest.mark.parametrize(
    "value",
    [
        {"several": wrong(1_000)},
        {"several": [1] * 1_000},
        {"named": {str(number): 1 for number in range(1_000)}},
        {"several": wrong(PROBLEMS_MAX - 1), "named": {str(number): {} for number in range(1_000)}},
    ],
    ids=["a list", "a list of others", "an object", "a list and an object"],
)
def test_validation_stops_after_enough_problems(value: Any) -> None:
    assert PROBLEMS_MAX <= len(problems_of(value, context=Problems())) <= 3 * PROBLEMS_MAX
    assert len(problems_of(value, context=None)) >= 1_000


def test_problems_name_the_index_of_their_element() -> None:
    right_and_wrong = [{"number": 1}, *wrong(1), {"number": 2}, *wrong(1)]

    assert problems_of({"several": right_and_wrong}, context=Problems()) == [
        ("several", 1, "number"),
        ("several", 3, "number"),
    ]


def test_valid_elements_are_all_read() -> None:
    numbers = list(range(1_000))
    value = {"several": [{"number": number} for number in numbers], "named": {"a": [{"number": 1}], "b": {"number": 2}}}

    read = Body.model_validate(value, context=Problems())

    assert [inner.number for inner in read.several] == numbers
    assert read.named == {"a": [Inner(number=1)], "b": Inner(number=2)}


def test_strict_object_with_too_many_members_is_one_problem() -> None:
    def of(count: int) -> dict[str, int]:
        return {f"m{number}": 1 for number in range(count)}

    with pytest.raises(ValidationError) as at_limit:
        Few.model_validate(of(MEMBERS_MAX))
    with pytest.raises(ValidationError) as past_limit:
        Few.model_validate(of(MEMBERS_MAX + 1))

    assert at_limit.value.error_count() == MEMBERS_MAX
    [problem] = past_limit.value.errors()
    assert problem["msg"] == f"Value error, an object with {MEMBERS_MAX + 1} members; at most {MEMBERS_MAX} are allowed"
