"""The SQL of ``content``; ``tests/contract/test_content_agreement.py`` checks what it finds."""

from __future__ import annotations

import pytest

from query_api.filter.sql.expressions import Parameters, content_condition


def test_no_word_of_the_text_is_in_the_sql():
    parameters = Parameters()

    sql = content_condition('wolf\') OR "bad; sheep" -dog -"{p1:String} cow"', parameters)

    assert not any(word in sql for word in ("wolf", "OR", "bad", "sheep", "dog", "cow"))
    assert list(parameters.values.values()) == [
        ["wolf", "or", "bad", "sheep"],
        ["dog"],
        [" bad sheep "],
        ["string"],
        [" p1 string cow "],
    ]


def test_thousands_of_words_and_phrases_make_a_short_statement():
    text = " ".join(f'w{number} "a{number} b" -c{number} -"d{number} e"' for number in range(2_000))

    assert len(content_condition(text, Parameters())) < 1_000


def test_text_without_a_word_is_refused():
    with pytest.raises(ValueError, match="at least one word"):
        content_condition("!", Parameters())
