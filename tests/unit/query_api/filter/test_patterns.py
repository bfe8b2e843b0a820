"""Text operators: with and without case, in a part of a text and in the whole text."""

from __future__ import annotations

from typing import Any

import pytest
import re2

from common.errors import InvalidFilter
from query_api.filter.language import PATTERNS_LENGTH_MAX, PATTERNS_SIZE_MAX, UNICODE_CLASSES_MAX, Operator
from query_api.filter.matches import matches
from query_api.filter.operands import VALUE_BYTES_MAX
from query_api.filter.parse import FilteringModel, parse
from query_api.filter.text_search import TextSearch, text_of


def holds(operator: str, operand: Any, text: str, **options: bool) -> bool:
    condition = {"field": "span_name", "operator": operator, "value": operand, "options": options}
    node = parse(FilteringModel.model_validate({"conditions": [condition]}))
    return matches(node, {"span_name": text})


@pytest.mark.parametrize(
    ("operator", "operand", "text", "verdict"),
    [
        ("contains", "ello w", "Hello World", True),
        ("contains", "", "", True),
        ("contains", "a%b", "a%b", True),
        ("contains", "a%b", "axb", False),
        ("contains", "a_b.", "a_b.", True),
        ("contains", "a.b", "axb", False),
        ("contains", "a\nb", "xa\nbx", True),
        ("contains", "a\0", "a", False),
        ("startswith", "HEL", "hello", True),
        ("startswith", "ello", "hello", False),
        ("startswith", "b", "a\nb", False),
        ("endswith", "LLO", "hello", True),
        ("endswith", "hell", "hello", False),
        ("endswith", "a", "a\n", False),
        ("like", "hello", "HELLO", True),
        ("like", "ell", "hello", False),
        ("like", "h%o", "hello", True),
        ("like", "h_llo", "hello", True),
        ("like", "h_o", "hello", False),
        ("like", "_", "é", True),
        ("like", "_", "😀", True),
        ("like", "_", "\n", True),
        ("like", "a%b", "a\n\nb", True),
        ("like", r"100\%", "100%", True),
        ("like", r"100\%", "1000", False),
        ("like", r"a\_b", "a_b", True),
        ("like", r"a\_b", "axb", False),
        ("like", r"a\\b", r"a\b", True),
        ("like", r"\a", "a", True),
        ("like", "a\\", "a\\", True),
        ("like", "%", "", True),
        ("like", "", "", True),
        ("like", "", "a", False),
        ("like", "a.c", "abc", False),
        ("matches", "l+o$", "HELLO", True),
        ("matches", "^ello", "hello", False),
        ("matches", "a.b", "a\nb", False),
        ("matches", "(?s)a.b", "a\nb", True),
        ("matches", "a$", "a\nb", False),
        ("matches", "(?m)a$", "a\nb", True),
        ("matches", "a|b", "xbx", True),
        ("matches", r"\d{3}", "abc123", True),
        ("matches", r"\pL", "é", True),
    ],
)
def test_text_operators_search_in_the_text_regardless_of_case(
    operator: str, operand: str, text: str, verdict: bool
) -> None:
    assert holds(operator, operand, text) is verdict


@pytest.mark.parametrize("operator", ["contains", "startswith", "endswith", "like", "matches"])
def test_case_sensitive_option_compares_case(operator: str) -> None:
    assert holds(operator, "Hello", "hELLO")
    assert not holds(operator, "Hello", "hELLO", case_sensitive=True)
    assert holds(operator, "Hello", "Hello", case_sensitive=True)


@pytest.mark.parametrize("operator", ["contains", "startswith", "endswith", "matches"])
def test_exact_match_compares_the_whole_text(operator: str) -> None:
    assert holds(operator, "hello", "Hello", exact_match=True)
    assert not holds(operator, "hello", "Hello!", exact_match=True)
    assert not holds(operator, "hello", "a hello", exact_match=True)
    assert not holds(operator, "hello", "hello\n", exact_match=True)
    assert not holds(operator, "hello", "Hello", exact_match=True, case_sensitive=True)


def test_exact_match_applies_to_every_alternative_of_an_expression() -> None:
    assert not holds("matches", "a|b", "ab", exact_match=True)
    assert holds("matches", "a|ab", "ab", exact_match=True)
    assert holds("matches", r"\Qa.", "a.", exact_match=True)
    assert not holds("matches", r"\Qa.", "ab", exact_match=True)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("É", "é", True),
        ("Σ", "ς", True),
        ("k", "\u212a", True),
        ("s", "ſ", True),
        ("ß", "ẞ", True),
        ("ß", "ss", False),
        ("İ", "i", False),
        ("ı", "I", False),
        ("e\u0301", "é", False),
        ("ǅ", "ǆ", True),
        ("\U00010400", "\U00010428", True),
        ("ﬁ", "fi", False),
    ],
)
def test_without_case_code_points_fold_one_by_one(left: str, right: str, is_same: bool) -> None:
    for operator in ("contains", "like", "matches"):
        assert holds(operator, left, right) is is_same
        assert holds(operator, right, left) is is_same


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing ): (a"),
        ("a**", "bad repetition operator: **"),
        ("*", "no argument for repetition operator: *"),
        ("a)|(b", "unexpected ): a)|(b"),
        ("\\", "trailing \\"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"\E", r"invalid escape sequence: \E"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(a{1000}){1000}", "invalid repetition size"),
        (r"\pL{200}" * 9, "pattern too large"),
    ],
)
@pytest.mark.parametrize("is_exact", [False, True])
def test_pattern_that_does_not_compile_is_refused_with_the_reason(pattern: str, reason: str, is_exact: bool) -> None:
    with pytest.raises(InvalidFilter, match=r"conditions\[0\]\.value: RE2 does not compile the pattern: ") as caught:
        holds("matches", pattern, "", exact_match=is_exact)
    assert reason in caught.value.detail


def test_literal_at_the_value_limit_is_found() -> None:
    assert holds("contains", "x" * VALUE_BYTES_MAX, "X" * VALUE_BYTES_MAX)
    assert holds("like", "x" * VALUE_BYTES_MAX, "X" * VALUE_BYTES_MAX)


def test_total_size_of_patterns_at_the_limit_and_one_past() -> None:
    fixed = TextSearch(Operator.LIKE, "%x", is_case_sensitive=True).pattern_size() - 1
    wanted = {"field": "span_name", "operator": "like", "options": {"case_sensitive": True}}
    half = {**wanted, "value": "%" + "x" * (PATTERNS_SIZE_MAX // 4 - fixed)}
    most = [half] * 4
    parse(FilteringModel.model_validate({"conditions": most}))

    with pytest.raises(
        InvalidFilter, match=r"conditions\[4\]\.value: the patterns of the filter have more than 131072"
    ):
        parse(FilteringModel.model_validate({"conditions": [*most, {**wanted, "value": ""}]}))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\pL" * 20_000, f"more than {UNICODE_CLASSES_MAX} classes like \\pL in total"),
        ("[" + r"\PN" * (UNICODE_CLASSES_MAX + 1) + "]", f"more than {UNICODE_CLASSES_MAX} classes like \\pL in total"),
        ("(?i)" + "ſ" * PATTERNS_LENGTH_MAX, "the value has"),
    ],
)
def test_costly_pattern_is_refused_before_it_is_compiled(
    pattern: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(re2, "compile", lambda *_, **__: pytest.fail("compiled"))
    with pytest.raises(InvalidFilter) as caught:
        holds("matches", pattern, "")

    assert reason in caught.value.detail


def test_total_length_of_patterns_is_limited() -> None:
    half = {"field": "span_name", "operator": "matches", "value": "(?:)" * (PATTERNS_LENGTH_MAX // 8)}
    parse(FilteringModel.model_validate({"conditions": [half, half]}))

    with pytest.raises(InvalidFilter, match=r"conditions\[2\]\.value: the patterns of the filter have more than"):
        parse(FilteringModel.model_validate({"conditions": [half, half, {**half, "value": "y"}]}))


def test_adjacent_wildcards_become_one() -> None:
    assert TextSearch(Operator.LIKE, "a%%%_%%", is_case_sensitive=True).pattern() == (r"(?-s)\Aa(?s:.*)(?s:.)(?s:.*)\z")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (5.0, "5"), (0.1, "0.1"), (2.0**64, "1.8446744073709552e+19"), (True, "true"), (None, None), ([], None), ({}, None)],
)  # fmt: skip
def test_texts_of_scalars_are_those_of_json(value: Any, text: str | None) -> None:
    assert text_of(value) == text
