"""Text that is like JSON, read by its tokens: what hostile text costs, and where a quote is none."""

from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
import pytest

from common.json_like import PATH_LENGTH_MAX
from common.masking import Mask, MaskAction, MaskPlace, MaskRule, ProjectRules
from tests.support.steps import steps_of

SECRET = "S3cret"


def masked(text: str, *, key: str = "*password") -> Any:
    mask = Mask(ProjectRules((MaskRule(MaskAction.REDACT, key),), hash_key=b"key"))
    return mask.attributes(MaskPlace.ATTRIBUTES, {"input": text})["input"]


@pytest.mark.parametrize("brackets", ["[", "{", "(", '{"a":[', "[{(", '[{"password":['])
def test_open_brackets_take_memory_in_proportion_to_the_text(brackets: str) -> None:
    text = brackets * (20_000 // len(brackets)) + " what is a password?"
    tracemalloc.start()
    try:
        masked(text)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 500 * len(text)


@pytest.mark.parametrize("number", ["1", "1e999"], ids=["JSON", "like JSON"])
def test_values_below_a_long_key_do_not_repeat_it(number: str) -> None:
    members = ",".join(f'"a{index}":{number}' for index in range(5_000))
    text = f'{{"{"k" * 100_000}":{{{members}}},"password":"{SECRET}"}}'
    tracemalloc.start()
    try:
        kept = masked(text)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert SECRET not in kept
    assert peak_bytes < 100 * len(text)


def test_ten_times_the_members_below_a_key_take_ten_times_the_steps() -> None:
    def steps(count: int) -> int:
        members = ",".join(f'"a{index}":1e999' for index in range(count))
        text = f'{{"{"k" * PATH_LENGTH_MAX}":{{{members}}},"password":"{SECRET}"}}'
        return steps_of(lambda: masked(text))

    assert steps(1_000) < 12 * steps(100)


@pytest.mark.parametrize(
    "text",
    [
        "{user=O'Brien, password=S3cret}",
        "User{name=O'Brien, password=S3cret}",
        "{ note: can't login, password: S3cret }",
        "{ note: the users' things, password: S3cret }",
        "{'name': b'it', 'password': b'S3, cret S3cret'}",
        '{"note": it\'s, "password": "S3cret"}',
    ],
)
def test_apostrophe_hides_no_later_key(text: str) -> None:
    assert SECRET not in masked(text)


def test_apostrophe_leaves_the_path_of_later_keys() -> None:
    assert SECRET not in masked('{"note": it\'s, "password": "S3cret"}', key="input.password")


@pytest.mark.parametrize(
    "text", ["{user=O'Brien, n=1}", "{'a': 'it''s', 'b': u'x'}", orjson.dumps({"a": "b'c"}).decode()]
)
def test_text_with_apostrophes_stays_as_it_came(text: str) -> None:
    assert masked(text) == text
