from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from query_api.registry.bodies import Asked, FlagsIn, Question
from query_api.registry.models import IdWindowing
from query_api.registry.parameters import or_parameters, parameters_model
from query_api.request.body_models import Strict
from query_api.request.references import ReferenceIn

ONE, TWO = UUID(int=1), UUID(int=2)
PARAMETERS: Any = parameters_model("Parameters", ["thing"])


class Things(Question):
    thing: Asked | None = None
    thing_refs: list[ReferenceIn] | None = None


def asked(body: dict[str, Any], parameters: dict[str, Any]) -> Things:
    return or_parameters(Things(**body), PARAMETERS(**parameters), layer="thing", words=["thing"])


def test_without_parameters_the_body_asks() -> None:
    body = Things(include_archived=True)

    assert or_parameters(body, None, layer="thing", words=["thing"]) is body
    assert asked({"include_archived": True}, {}) == Things(include_archived=True, thing_refs=[])


def test_ids_and_slugs_are_alternatives_in_one_and_in_several() -> None:
    parameters = {"thing_id": [ONE], "thing_ids": [TWO], "thing_slug": ["a"], "thing_slugs": ["b", "c"]}

    assert asked({}, parameters).thing_refs == [
        *(ReferenceIn(id=each) for each in (ONE, TWO)),
        *(ReferenceIn(slug=each) for each in "abc"),
    ]


def test_what_rows_have_in_common_and_the_page_come_from_the_string_too() -> None:
    question = asked({}, {"name": "n", "tags": '{"a": "b"}', "limit": 3, "next": str(ONE), "include_archived": False})

    assert question.thing == Asked(name="n", tags={"a": "b"})
    assert question.windowing == IdWindowing(limit=3, next=ONE)
    assert question.include_archived is False


def test_the_body_wins_member_by_member() -> None:
    question = asked({"thing": {"name": "body"}}, {"name": "string", "description": "string", "limit": 3})

    assert question.thing == Asked(name="body")
    assert question.windowing == IdWindowing(limit=3)


class Lit(FlagsIn, Strict):
    is_lit: bool | None = None


def test_flags_are_those_of_the_kind() -> None:
    parameters: Any = parameters_model("Parameters", ["thing"], flags=Lit)

    assert parameters(flags='{"is_lit": true}').flags == Lit(is_lit=True)
    for flags in ('{"is_lit": "maybe"}', '{"is_lit": true, "is_loud": true}'):
        with pytest.raises(ValidationError):
            parameters(flags=flags)


def test_a_kind_without_flags_knows_none() -> None:
    PARAMETERS(flags="{}")
    with pytest.raises(ValidationError):
        PARAMETERS(flags='{"is_lit": true}')


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": [{"b": -Infinity}]}', '{"a": 1e999}'])
def test_numbers_that_are_none_in_json_are_refused_in_the_string_too(text: str) -> None:
    with pytest.raises(ValidationError, match="NaN and Infinity are no JSON") as refused:
        PARAMETERS(meta=text)

    assert [(each["type"], each["loc"]) for each in refused.value.errors()] == [("json_invalid", ("meta",))]


@pytest.mark.parametrize("text", ['{"is_lit": NaN}', '{"is_lit": true, "is_loud": [-Infinity]}', '{"is_loud": 1e999}'])
def test_they_are_refused_in_flags_as_well_known_or_not(text: str) -> None:
    parameters: Any = parameters_model("Parameters", ["thing"], flags=Lit)

    with pytest.raises(ValidationError, match="NaN and Infinity are no JSON") as refused:
        parameters(flags=text)

    assert [(each["type"], each["loc"]) for each in refused.value.errors()] == [("json_invalid", ("flags",))]
