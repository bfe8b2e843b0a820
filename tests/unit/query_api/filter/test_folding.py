"""Simple case folding agrees with RE2 and with the table in the DDL."""

from __future__ import annotations

import re

import pytest
import re2

from common.clickhouse.migrate import DDL
from query_api.filter.text_search import FOLDING, fold

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
    ddl = (DDL / "0001_spans.sql").read_text()
    match = re.search(r"lower\(text\),\s+'(.*)',\s+'(.*)'\n", ddl)

    assert match is not None
    assert dict(zip(map(ord, match[1]), map(ord, match[2]), strict=True)) == FOLDING
