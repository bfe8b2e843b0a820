"""What the masking rules of a project do to one value (contract §9 “Masking”)."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from common import mask_texts, masking
from common.mask_texts import compile_value
from common.masking import (
    DEPTH_MAX,
    DROPPED,
    NO_MASKS,
    REDACTED,
    Mask,
    MaskAction,
    MaskPlace,
    MaskRule,
    ProjectRules,
    pack,
    unpack,
)

PROJECT = UUID("00000000-0000-7000-8000-00000000000a")
SECRET = "sk-abc123"
REDACT, HASH, DROP = MaskAction.REDACT, MaskAction.HASH, MaskAction.DROP


def _mask(*rules: MaskRule, hash_key: bytes = b"k") -> Mask:
    return Mask(ProjectRules(rules, hash_key))


def _masked(attributes: dict[str, Any], *rules: MaskRule) -> dict[str, Any]:
    return _mask(*rules).attributes(MaskPlace.ATTRIBUTES, attributes)


FIND = MaskRule(REDACT, value=r"sk-[a-z0-9]+")


def test_found_text_is_replaced_and_the_rest_stays() -> None:
    assert _masked({"a": f"my key {SECRET}, and {SECRET}."}, FIND) == {"a": f"my key {REDACTED}, and {REDACTED}."}


def test_nothing_found_returns_the_same_object() -> None:
    attributes = {"a": "text", "b": [1, {"c": '{"d": 1.50}'}]}

    assert _masked(attributes, FIND, MaskRule(DROP, key="x.y")) is attributes


@pytest.mark.parametrize("key", ["user.email", "USER.Email", "user.*", "*email", "user"])
@pytest.mark.parametrize("attributes", [{"user.email": "a@b"}, {"user": {"email": "a@b"}}], ids=["flat", "nested"])
def test_key_matches_a_path_flat_or_nested_in_any_case_and_everything_below(
    key: str, attributes: dict[str, Any]
) -> None:
    assert "a@b" not in str(_masked(attributes, MaskRule(REDACT, key=key)))


@pytest.mark.parametrize("key", ["use", "email", "user.emai", "user?email", "user.email.x"])
def test_key_does_not_match_parts_of_names(key: str) -> None:
    attributes = {"user.email": "a@b"}

    assert _masked(attributes, MaskRule(REDACT, key=key)) is attributes


def test_json_inside_of_text_is_masked_by_path_and_by_text_however_it_is_escaped() -> None:
    arguments = json.dumps({"token": "\\u0073k-abc123"}).replace("\\\\u", "\\u")
    messages = json.dumps([{"role": "user", "content": f"key {SECRET}"}, {"role": "assistant", "arguments": arguments}])

    masked = _masked({"messages": messages}, FIND)
    by_path = _masked({"messages": messages}, MaskRule(DROP, key="messages.*.content"))

    assert json.loads(masked["messages"])[0]["content"] == f"key {REDACTED}"
    assert json.loads(json.loads(masked["messages"])[1]["arguments"]) == {"token": REDACTED}
    assert json.loads(by_path["messages"])[0] == {"role": "user"}


def test_regular_expression_over_json_text_works_too() -> None:
    assert "hunter2" not in _masked({"a": '{"password": "hunter2"}'}, MaskRule(REDACT, value='"password":.*'))["a"]


def test_anchored_expression_finds_a_value_inside_of_json() -> None:
    assert json.loads(_masked({"a": '{"b": "1234"}'}, MaskRule(REDACT, value=r"^\d{4}$"))["a"]) == {"b": REDACTED}


def test_numbers_are_found_by_their_text_and_names_of_members_too() -> None:
    assert _masked({"card": 4111111111111111}, MaskRule(REDACT, value=r"^4\d{15}$")) == {"card": REDACTED}
    assert _masked({SECRET: 1}, FIND) == {REDACTED: 1}
    assert _masked({SECRET: 1}, MaskRule(DROP, value="sk-")) == {}


def test_drop_removes_members_and_elements() -> None:
    rules = (MaskRule(DROP, key="a.b"), MaskRule(DROP, value="sk-"))

    assert _masked({"a": {"b": 1, "c": [SECRET, 2]}, "d": SECRET}, *rules) == {"a": {"c": [2]}}


def test_hash_depends_on_value_and_secret_alone() -> None:
    rule = MaskRule(HASH, key="id")
    first, again = (_mask(rule).attributes(MaskPlace.ATTRIBUTES, {"id": "ada"}) for _ in range(2))
    elsewhere = _mask(rule, hash_key=b"other").attributes(MaskPlace.ATTRIBUTES, {"id": "ada"})

    assert first == again
    assert len({first["id"], elsewhere["id"], _masked({"id": "bob"}, rule)["id"]}) == 3
    assert first["id"].startswith("hash:")


def test_value_rule_with_a_key_finds_only_below_it() -> None:
    rule = MaskRule(REDACT, key="a", value="x")

    assert _masked({"a": {"b": "xy"}, "c": "xy"}, rule) == {"a": {"b": f"{REDACTED}y"}, "c": "xy"}


def test_rule_examines_only_its_places() -> None:
    mask = _mask(MaskRule(REDACT, value="x", places=(MaskPlace.EVENTS, MaskPlace.SPAN_NAME)))

    assert mask.attributes(MaskPlace.ATTRIBUTES, {"a": "x"}) == {"a": "x"}
    assert mask.attributes(MaskPlace.EVENTS, {"a": "x"}) == {"a": REDACTED}
    assert (mask.text(MaskPlace.SPAN_NAME, "x"), mask.text(MaskPlace.STATUS_MESSAGE, "x")) == (REDACTED, "x")


def test_first_rule_for_a_key_wins() -> None:
    assert _masked({"a": 1}, MaskRule(REDACT, key="a"), MaskRule(DROP, key="a")) == {"a": REDACTED}


@pytest.mark.parametrize("levels", [DEPTH_MAX + 5, 900])
def test_what_is_too_deep_to_examine_is_redacted(levels: int) -> None:
    deep = "[" * levels + f'"{SECRET}"' + "]" * levels

    masked = _masked({"a": deep, "b": json.loads(deep)}, MaskRule(REDACT, value="^sk-"))

    assert SECRET not in str(masked)
    assert REDACTED in masked["a"]


def test_every_masked_value_is_counted() -> None:
    mask = _mask(FIND, MaskRule(DROP, key="x"))
    mask.attributes(MaskPlace.ATTRIBUTES, {"a": f"{SECRET} {SECRET}", "x": 1, "y": 2})

    assert mask.count == 3


@pytest.mark.parametrize("pattern", ["(", "a*", "", "^", r"(?=a)", "a{2000}{2000}"])
def test_pattern_that_matches_nothing_or_does_not_compile_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compile_value(pattern)


def test_rules_pass_between_processes() -> None:
    rules = ProjectRules((MaskRule(HASH, "a.b", "x+", (MaskPlace.LINKS,)), FIND), b"\x00\xff")

    assert unpack(pack({PROJECT: rules})) == {PROJECT: rules}
    assert _mask(MaskRule(DROP, key="k")).member(MaskPlace.EVENTS, "k", 1) is DROPPED
    assert pack({}) == NO_MASKS
    assert unpack(NO_MASKS) == {}


def test_text_that_is_too_costly_to_search_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_texts, "SEARCH_COST_MAX", 10_000)
    rule = MaskRule(REDACT, value="[ab]{100}c")

    assert _masked({"a": "ab" * 100, "b": "ab"}, rule) == {"a": REDACTED, "b": "ab"}


def test_several_rules_are_too_costly_only_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_texts, "SEARCH_COST_MAX", 10_000)
    rules = [MaskRule(REDACT, value=f"{letter}{{20}}c") for letter in "abde"]

    assert _masked({"a": "x" * 200 + "b" * 20 + "c", "b": "x" * 200}, *rules) == {
        "a": "x" * 200 + REDACTED,
        "b": "x" * 200,
    }


def test_what_is_left_when_the_time_is_used_up_is_redacted_until_the_next_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masking, "thread_time", iter(range(0, 1_000, 2)).__next__)
    mask = _mask(FIND)

    first = mask.attributes(MaskPlace.ATTRIBUTES, {"a": "x", "b": "y"})
    mask.begin()
    second = mask.attributes(MaskPlace.ATTRIBUTES, {"a": "x"})

    assert first == {"a": "x", REDACTED: REDACTED}
    assert second == {"a": "x"}
