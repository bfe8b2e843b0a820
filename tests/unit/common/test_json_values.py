"""JSON values: which doubles are integers, what of a text is parsed, and what stays a text."""

from typing import Any

import pytest

from common.json_values import NotJson, json_number, read_json, scalar_text


@pytest.mark.parametrize(
    ("double", "shown"),
    [
        (5.0, "5"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (2.0**63, "9223372036854775808"),
        (2.0**64, "1.8446744073709552e+19"),
        (-(2.0**63), "-9223372036854775808"),
        (-(2.0**63) - 2048, "-9.223372036854778e+18"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_double_is_an_integer_only_within_64_bits(double: float, shown: str) -> None:
    assert repr(json_number(double)) == shown


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, "x", null, true]}', {"a": [1, "x", None, True]}),
        ("[1.0, -0.0, 0.5, 1e22]", [1, 0, 0.5, 1e22]),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ('{"a": NaN, "b": [-Infinity, Infinity]}', {"a": "NaN", "b": ["-Infinity", "Infinity"]}),
        ('"NaN"', "NaN"),
    ],
)
def test_json_is_read_as_a_codec_would(text: str, value: Any) -> None:
    read = read_json(text)

    assert read == value
    assert repr(read) == repr(value)  # 1 and not 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "plain text",
        '["\\ud800", ',
        '["\\ud8"]',
        "[NaN, 99999999999999999999999]",
        "NaN" + "9" * 5_000,
        "[NaN," * 100_000,
    ],
)
def test_value_that_a_span_cannot_hold_is_not_json(text: str) -> None:
    with pytest.raises(NotJson):
        read_json(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'["a\u0000b", 1]', ["a\ufffdb", 1]),
        (r'{"\u0000": 1}', {"\ufffd": 1}),
        (r'["\ud800", "\uDFFF.", "\ud83d\ude00"]', ["\ufffd", "\ufffd.", "😀"]),
        (r'["\ud83d\ud83d\ude00", "\ude00\ud83d"]', ["\ufffd😀", "\ufffd\ufffd"]),
        (r'[NaN, "\ud800"]', ["NaN", "\ufffd"]),
        (r'["\\u0000", "\\\u0000", "\\ud800", "\\\ud800"]', [r"\u0000", "\\\ufffd", r"\ud800", "\\\ufffd"]),
        (r'["{\"a\": \"\\u0000\"}"]', [r'{"a": "\u0000"}']),
    ],
)
def test_character_that_cannot_be_stored_costs_itself(text: str, value: Any) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize("number", ["1.0", "1e2", "1E2", "-0.0", "-9223372036854775809", "18446744073709551616", "123"])
def test_number_is_read_equally_on_the_fast_path(number: str) -> None:
    simple, any_text = read_json(f"[{number}]"), read_json(f"[{number}, 0.5]")

    assert isinstance(simple, list)
    assert isinstance(any_text, list)
    assert repr(simple[0]) == repr(any_text[0])


def test_brackets_in_texts_are_not_levels() -> None:
    assert read_json('["' + "[{" * 100 + '"]') == ["[{" * 100]


def test_nesting_limit_may_be_lower() -> None:
    assert read_json(nested(3), levels_max=3) == [[[]]]

    with pytest.raises(NotJson):
        read_json(nested(4), levels_max=3)


def test_nesting_is_read_up_to_the_limit_of_attributes() -> None:
    assert read_json(nested(24)) is not None

    with pytest.raises(NotJson):
        read_json(nested(25))
    with pytest.raises(NotJson):
        read_json(nested(100_000))


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), ("", ""), (5, "5"), (5.0, "5"), (0.5, "0.5"), (True, "true"), (None, None), ({}, None), ([], None)],
)
def test_scalar_text_is_as_json_shows_it(value: Any, text: str | None) -> None:
    assert scalar_text(value) == text
