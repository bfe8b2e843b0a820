"""Parsing and validating JSON bodies, and the building blocks of their models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from multidict import MultiDict
from pydantic import BaseModel, Field, ValidationError, field_validator

from common.errors import InvalidInput
from query_api.compat.simple_traces.models import CreateSimpleTrace
from query_api.intake.models import SpansIngest
from query_api.pages.spans import SpansQuery
from query_api.request.errors import InvalidRequest, response_of, status_of
from query_api.request.json_body import (
    INPUT_BYTES_MAX,
    MEMBERS_MAX,
    NAME_CHARACTERS_MAX,
    PROBLEMS_MAX,
    Listed,
    Named,
    Problems,
    Strict,
    json_response,
    parse_json,
    parse_json_text,
    read_body,
    read_query,
)


class Sample(BaseModel):
    count: int = 1
    names: list[str] | None = None
    free: dict[str, Any] | None = None

    @field_validator("count")
    @classmethod
    def _is_small(cls, value: int) -> int:
        if value > 10:
            raise ValueError("too many")
        return value


class Asked(BaseModel):
    trace_id: list[str] = Field(default_factory=list)
    span_ids: str | None = None


class Either(BaseModel):
    either: Listed[Listed[int] | Listed[str]]


def _problems(body: bytes, *, content_type: str | None = "application/json", required: bool = False) -> list[Any]:
    with pytest.raises(InvalidRequest) as raised:
        read_body(Sample, body, content_type=content_type, required=required)
    return list(raised.value.problems)


@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_empty_body_is_the_models_defaults(body: bytes) -> None:
    assert read_body(Sample, body, content_type=None, required=False) == Sample()


@pytest.mark.parametrize("body", [b"", b"null"])
def test_missing_required_body_is_a_problem(body: bytes) -> None:
    assert _problems(body, required=True) == [
        {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}
    ]


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        (b'{"count":', 9),
        (b'{"a":1,}', 6),
        (b'{"count": NaN}', 10),
        (b"[Infinity]", 1),
        (b"-Infinity", 0),
        (b'"\\ud800"', 1),
        (b'"\xed\xa0\x80"', 0),
        (b"\xff", 0),
        (b"1e999", 0),
        (b"{}{}", 2),
        (b"\xef\xbb\xbf{}", 0),
    ],
)
def test_malformed_json_is_json_invalid_at_its_offset(body: bytes, offset: int) -> None:
    (problem,) = _problems(body)

    assert (problem["type"], problem["loc"][0]) == ("json_invalid", "body")
    assert abs(problem["loc"][1] - offset) <= 1
    assert problem["ctx"]["error"]


@pytest.mark.parametrize(
    "bomb", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000]
)
def test_nesting_bomb_is_json_invalid(bomb: bytes) -> None:
    assert _problems(bomb)[0]["type"] == "json_invalid"


def test_nesting_bomb_with_a_long_integer_is_json_invalid() -> None:
    """The slow parser, which long integers ask for, has a limit of its own."""
    body = b"[" * 1_000 + b"18446744073709551616" + b"]" * 1_000

    with pytest.raises(InvalidRequest):
        parse_json(body)


def test_deeply_nested_input_is_reported() -> None:
    """It is deeper than Python writes values."""
    (problem,) = _problems(b'{"free": %b}' % (b"[" * 1_020 + b"]" * 1_020))

    assert (problem["loc"], problem["input"]) == (["body", "free"], "a value that is nested too deeply to be shown")


@pytest.mark.parametrize("levels", range(240, 260))
def test_input_of_any_depth_can_be_reported(levels: int) -> None:
    """What tells of it nests it deeper, where the fast writer may give up."""
    body = b'{"free": %b}' % (b"[" * levels + b"]" * levels)

    with pytest.raises(InvalidRequest) as raised:
        read_body(Sample, body, content_type=None, required=False)

    assert response_of(raised.value).status == 422


def test_integers_above_64_bits_stay_exact() -> None:
    assert parse_json(b"[18446744073709551616, -9223372036854775809, 1]") == [2**64, -(2**63) - 1, 1]


def test_integers_above_64_bits_stay_exact_in_json_text() -> None:
    assert parse_json_text("[18446744073709551616, -9223372036854775809, 1]") == [2**64, -(2**63) - 1, 1]


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_json_text_is_none(text: str) -> None:
    assert parse_json_text(text) is None


@pytest.mark.parametrize("text", ["{", "NaN", "1e999", "\udcff", "[" * 1_000 + str(2**64) + "]" * 1_000])
def test_invalid_json_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="the text is not JSON"):
        parse_json_text(text)


@pytest.mark.parametrize("digits", [308, 309, 5_000])
@pytest.mark.parametrize("frame", [b'{"a": %b}', '{"ä": [%b]}'.encode(), b"-%b"])
def test_huge_integer_is_invalid_input_not_malformed_json(frame: bytes, digits: int) -> None:
    body = frame % (b"9" * digits)

    if digits <= 308:
        assert str(parse_json(body)).count("9") == digits
        return
    with pytest.raises(InvalidInput, match="more than 308 digits") as raised:
        parse_json(body)
    assert status_of(raised.value) == 400


@pytest.mark.parametrize("number", [b"9" * 400 + b".5", b"1e999", b"9" * 309 + b"e9"])
def test_number_beyond_doubles_is_rejected_like_infinity(number: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_json(b"[%b]" % number)


def test_huge_integer_in_json_text_is_invalid_input() -> None:
    assert parse_json_text("9" * 308) == 10**308 - 1
    with pytest.raises(InvalidInput, match="character 1 of the text has more than 308 digits"):
        parse_json_text("[" + "9" * 309 + "]")


def test_digits_inside_a_string_are_not_an_integer() -> None:
    assert parse_json(b'["%b"]' % (b"9" * 400)) == ["9" * 400]


def test_last_of_duplicate_members_counts() -> None:
    assert parse_json(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"3", b"true"])
def test_body_that_is_not_an_object_is_rejected(body: bytes) -> None:
    (problem,) = _problems(body)

    assert (problem["type"], problem["loc"]) == ("model_attributes_type", ["body"])


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""])
def test_other_content_types_are_rejected_at_body(content_type: str) -> None:
    (problem,) = _problems(b'{"count": 2}', content_type=content_type)

    assert (problem["type"], problem["loc"], problem["input"]) == ("model_attributes_type", ["body"], '{"count": 2}')


@pytest.mark.parametrize(
    "content_type", [None, "application/json", "Application/JSON; charset=utf-8", "application/x+json"]
)
def test_every_json_content_type_is_read(content_type: str | None) -> None:
    assert read_body(Sample, b'{"count": 2}', content_type=content_type, required=True).count == 2


def test_problem_has_location_and_message() -> None:
    (problem,) = _problems(b'{"names": ["a", 5]}')

    assert problem == {
        "type": "string_type",
        "loc": ["body", "names", 1],
        "msg": "Input should be a valid string",
        "input": 5,
    }


def test_exception_in_a_context_is_an_empty_object() -> None:
    (problem,) = _problems(b'{"count": 11}')

    assert problem["ctx"] == {"error": {}}
    assert problem["msg"] == "Value error, too many"


def test_long_input_is_shortened() -> None:
    at_limit = "x" * (INPUT_BYTES_MAX - 2)

    assert _problems(f'{{"count": "{at_limit}"}}'.encode())[0]["input"] == at_limit
    assert _problems(f'{{"count": "{at_limit}x"}}'.encode())[0]["input"].endswith("…")


def test_long_name_is_shortened_in_its_problem() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_body(SpansQuery, b'{"%s": 1}' % (b"n" * 3_000), content_type=None, required=False)

    (problem,) = refused.value.problems
    assert problem["loc"] == ["body", "n" * NAME_CHARACTERS_MAX + "…"]


def test_number_of_problems_is_limited() -> None:
    body = b'{"names": [' + b",".join([b"1"] * (PROBLEMS_MAX + 1)) + b"]}"

    assert len(_problems(body)) == PROBLEMS_MAX


def test_value_that_is_valid_for_one_union_member_is_no_problem() -> None:
    texts = [["a"]] * (PROBLEMS_MAX + 1)

    assert read_body(Either, json.dumps({"either": texts}).encode(), content_type=None, required=True).either == texts


def test_list_parameters_take_every_value_and_others_the_last() -> None:
    query = MultiDict([("trace_id", "a"), ("trace_id", "b"), ("span_ids", "1"), ("span_ids", "2"), ("project_id", "x")])

    assert read_query(Asked, query) == Asked(trace_id=["a", "b"], span_ids="2")


def test_response_omits_nulls_of_models_but_not_of_free_objects() -> None:
    assert json_response(Sample(free={"a": None})).body == b'{"count":1,"free":{"a":null}}'


@pytest.mark.parametrize(
    ("model", "body", "paths"),
    [
        (
            SpansIngest,
            {"traces": {"t": {"spans": {"a": {"span_id": "1"}}}}},
            [["traces", "t", "spans", "a", "object", "trace_id"]],
        ),
        (SpansIngest, {"traces": {"t": {"spans": {"a": [5]}}}}, [["traces", "t", "spans", "a", "list", 0]]),
        (CreateSimpleTrace, {"trace": {"data": {}, "references": {}, "links": 5}}, [["trace", "links", "object"]]),
        (CreateSimpleTrace, {"trace": {"data": {}, "references": {}, "links": ["x"]}}, [["trace", "links", "list", 0]]),
    ],
)
def test_problems_of_a_list_or_object_are_those_of_the_sent_form(
    model: type[BaseModel], body: dict[str, Any], paths: list[list[str | int]]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_body(model, json.dumps(body).encode(), content_type=None, required=True)

    assert [problem["loc"][1:] for problem in refused.value.problems] == paths


def test_too_deep_tree_is_a_problem_with_and_without_lists() -> None:
    for of_one, of_two in (("", ""), ("[", ',{"trace_id":"t","span_id":"1"}]')):
        node = '{"trace_id":"t","span_id":"1"}'
        for _ in range(300):
            node = f'{{"trace_id":"t","span_id":"1","spans":{{"x":{of_one}{node}{of_two}}}}}'

        with pytest.raises(InvalidRequest) as refused:
            read_body(SpansIngest, f'{{"spans":[{node}]}}'.encode(), content_type=None, required=True)

        (problem,) = refused.value.problems
        assert (problem["type"], problem["loc"][0]) == ("recursion_depth_exceeded", "body")


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
