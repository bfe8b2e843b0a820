"""Full-text search in plain Python: what the text of ``content contains`` asks for, and whether a span has it (contract §3.2).

A word is a run of letters, numbers and marks (Unicode L, N, M), as RE2 knows them, which is what the engine asks too. It
is compared folded (``folding.py``). The SQL of the same meaning: ``query_api/filter/sql/content_conditions.py``.

What is looked at: every text in a span's attributes, as deep as it stands, the names of its events and every text in
their attributes. Keys, numbers, booleans and times are no texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import re2

from query_api.filter.folding import fold

Phrase: TypeAlias = tuple[str, ...]
"""Two words or more."""

_IN_WORD: Final = re2.compile(r"[\p{L}\p{N}\p{M}]")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")

_ASKED: Final = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))')
"""A quoted phrase or what stands between spaces, each with the minus that makes it an exclusion: one in the middle is a dash.
A quote that nothing closes is a character like any other that is not of a word."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a text asks for: folded words, each once, in the order of the text. A phrase of one word is a word."""

    words: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    excluded_words: tuple[str, ...] = ()
    excluded_phrases: tuple[Phrase, ...] = ()


def parse_content(text: str) -> Content:
    """What the text asks for; ``ValueError`` when it has no word.

    Words stand for themselves, those in double quotes for a phrase. A minus at the beginning excludes the word or the
    phrase behind it; several words without a space between them (``-well-known``) are then a phrase.
    """
    wanted: dict[Phrase, None] = {}
    excluded: dict[Phrase, None] = {}
    for asked in _ASKED.finditer(text):
        found = words_of(asked["bare"] if asked["quoted"] is None else asked["quoted"])
        if asked["minus"]:
            excluded[found] = None
        elif asked["quoted"] is None:
            wanted.update(dict.fromkeys((word,) for word in found))
        else:
            wanted[found] = None
    content = Content(_words(wanted), _phrases(wanted), _words(excluded), _phrases(excluded))
    if content == Content():
        raise ValueError("'content' needs a text with at least one word: a run of letters and digits.")
    return content


def content_matches(content: Content, span: Mapping[str, Any]) -> bool:
    """Whether a span, an object of ``spans`` in an answer, has all that is wanted and nothing that is excluded.

    Words may stand in different texts of the span, a phrase stands in one, with anything that is no word in between.
    """
    texts = [words_of(text) for text in texts_of(span)]
    words = {word for text in texts for word in text}
    return (
        words.issuperset(content.words)
        and words.isdisjoint(content.excluded_words)
        and all(_is_in_one(phrase, texts) for phrase in content.phrases)
        and not any(_is_in_one(phrase, texts) for phrase in content.excluded_phrases)
    )


def spaced(words: Phrase) -> str:
    """Words as one text, a space at every end of one: a phrase stands in another exactly when its text does."""
    return f" {' '.join(words)} "


def words_of(text: str) -> Phrase:
    """The words of a text in their order, folded."""
    folded = fold(text)
    if folded.isascii():
        return tuple(_ASCII_WORD.findall(folded))
    return tuple(folded.translate(_SEPARATORS).split())


class _Separators:
    """What ``str.translate`` asks: a space for a code point that is of no word. RE2 takes microseconds a match, so it is asked once each."""

    @lru_cache(32_768)  # noqa: B019 - there is one, as long as the process
    def __getitem__(self, code: int) -> int:
        return code if _IN_WORD.fullmatch(chr(code)) else ord(" ")


_SEPARATORS: Final = _Separators()


def texts_of(span: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a span that ``content`` looks at."""
    yield from _texts_in(span.get("attributes"))
    for event in span.get("events") or ():
        yield event["name"]
        yield from _texts_in(event.get("attributes"))


def _texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value; its depth is bounded by intake."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts_in(member)
    elif isinstance(value, list):
        for element in value:
            yield from _texts_in(element)


def _words(asked: Mapping[Phrase, None]) -> tuple[str, ...]:
    return tuple(phrase[0] for phrase in asked if len(phrase) == 1)


def _phrases(asked: Mapping[Phrase, None]) -> tuple[Phrase, ...]:
    return tuple(phrase for phrase in asked if len(phrase) > 1)


def _is_in_one(phrase: Phrase, texts: Sequence[Phrase]) -> bool:
    wanted = spaced(phrase)
    return any(wanted in spaced(text) for text in texts)
