"""The operand of ``content contains``, its words, and the folding of letters."""

from __future__ import annotations

import re
from typing import Any

import pytest
import re2

from common.clickhouse.migrate import DDL
from query_api.filter.matches import content_matches
from query_api.filter.text_search import FOLDING, Content, fold, parse_content, words_of


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("hello", Content(words=("hello",))),
        ("  Hello, HELLO world! ", Content(words=("hello", "world"))),
        ("well-known e-mail: a@b.c", Content(words=("well", "known", "e", "mail", "a", "b", "c"))),
        ('"Big  bad, wolf"', Content(phrases=(("big", "bad", "wolf"),))),
        ('"wolf" "" ""', Content(words=("wolf",))),
        ("-wolf", Content(excluded_words=("wolf",))),
        ("a -Wolf -wolf", Content(words=("a",), excluded_words=("wolf",))),
        ('a -"Bad wolf"', Content(words=("a",), excluded_phrases=(("bad", "wolf"),))),
        ("-bad-wolf", Content(excluded_phrases=(("bad", "wolf"),))),
        ("bad- wolf - sheep --!", Content(words=("bad", "wolf", "sheep"))),
        ("cats or dogs", Content(words=("cats", "or", "dogs"))),
        ('5" screen', Content(words=("5", "screen"))),
        ('say"big wolf"now', Content(words=("say", "now"), phrases=(("big", "wolf"),))),
        ('"big wolf"-now', Content(words=("now",), phrases=(("big", "wolf"),))),
        ("“Straße” 日本語、x²", Content(words=("straße", "日本語", "x²"))),
        ("e\u0301te\u0301 ٣٤ Ⅳ", Content(words=("e\u0301te\u0301", "٣٤", "ⅳ"))),
        ("snake_case", Content(words=("snake", "case"))),
    ],
)
def test_content_is_parsed_into_words_phrases_and_exclusions(text: str, content: Content):
    assert parse_content(text) == content


@pytest.mark.parametrize("text", ["", " \n", '""', '-""', "-", "!? …", "😀", '"', "Ⓐ"])
def test_content_without_a_word_is_refused(text: str):
    with pytest.raises(ValueError, match="at least one word"):
        parse_content(text)


def test_words_are_folded_and_in_order():
    assert words_of("Ünïcode—K and “ſ”") == ("ünïcode", "k", "and", "s")


def span(*texts: str, **members: Any) -> dict[str, Any]:
    return {"attributes": {str(number): text for number, text in enumerate(texts)}, **members}


def has(text: str, of: dict[str, Any]) -> bool:
    return content_matches(parse_content(text), of)


def test_words_may_be_in_different_texts_and_in_any_order():
    assert has("wolf big", span("the big one", "a Wolf"))
    assert not has("wolf small", span("the big one", "a wolf"))


def test_only_whole_words_count():
    assert not has("hel", span("hello"))
    assert not has("hello", span("hello2", "hello\u0301"))
    assert has("hello", span("(hello)"))


def test_phrase_is_in_one_text():
    assert has('"big bad wolf"', span("The BIG, bad\n— wolf!"))
    assert not has('"big wolf"', span("the big bad wolf"))
    assert not has('"big wolf"', span("the big", "wolf"))
    assert not has('"big wolf"', span("a big wolfhound", "the unbig wolf"))
    assert has('"a a b"', span("a a a b"))


def test_excluded_words_and_phrases_are_nowhere():
    assert has("-wolf", span("sheep"))
    assert not has("-wolf", span("sheep", "wolf"))
    assert has('-"bad wolf"', span("bad sheep and wolf"))
    assert not has('-"bad wolf"', span("sheep", "a bad wolf"))
    assert has("-wolf", {})


def test_texts_are_found_at_every_depth():
    nested = {"attributes": {"a": {"b": [1, [{"c": "deep"}], None]}}}

    assert has("deep", nested)


def test_keys_numbers_and_booleans_are_not_texts():
    for word in ("key", "5", "true", "null"):
        assert not has(word, {"attributes": {"key": 5, "b": True, "c": None}})


def test_names_and_attributes_of_events_are_searched():
    event = {
        "name": "exception",
        "timestamp": "2026-05-28T20:26:40Z",
        "time_unix_nano": "17",
        "attributes": {"m": "boom"},
    }

    assert has("exception boom", {"events": [event]})
    for word in ("2026", "17", "name", "m"):
        assert not has(word, {"events": [event]})


def test_no_other_field_is_searched():
    other = {"span_name": "wolf", "status_message": "wolf", "resource": {"attributes": {"a": "wolf"}}, "links": []}

    assert not has("wolf", span("sheep", **other))


CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello WORLD", "hello world"),
        ("ÉCOLE", "école"),
        ("ΣΊΣΥΦΟΣ σίσυφος", "σίσυφοσ σίσυφοσ"),
        ("Straße STRASSE ẞ", "straße strasse ß"),
        ("ſ K Å Ω µ", "s k å ω μ"),
        ("İ ı I", "İ ı i"),
        ("ǅ ﬀ ﬅ", "ǆ ﬀ ﬅ"),
        ("Ꭰ ꭰ ᏸ", "Ꭰ Ꭰ Ᏸ"),
        ("日本語 😀 ½", "日本語 😀 ½"),
        ("", ""),
    ],
)
def test_folds_code_point_by_code_point(text: str, folded: str):
    assert fold(text) == folded


def test_folding_twice_changes_nothing():
    everything = "".join(map(chr, CODE_POINTS))

    assert fold(fold(everything)) == fold(everything)
    assert len(fold(everything)) == len(everything)


def test_folding_agrees_with_re2_without_case():
    upper = re2.compile(r"(?i)[\p{Lu}\p{Lt}]").findall("".join(map(chr, CODE_POINTS)))
    cased = "".join({*upper, *map(chr, FOLDING), *map(chr, FOLDING.values())})

    for character in cased:
        equal = re2.compile(rf"(?i)\x{{{ord(character):x}}}").findall(cased)
        assert {fold(other) for other in equal} == {fold(character)}


def test_ddl_has_the_same_folding_table():
    ddl = (DDL / "0001_baseline.sql").read_text()
    match = re.search(r"lower\(text\),\s+'(.*)',\s+'(.*)'\n", ddl)

    assert match is not None
    assert dict(zip(map(ord, match[1]), map(ord, match[2]), strict=True)) == FOLDING
