"""Words and case: Unicode simple folding, and the small language of ``content contains`` (contract §3.2).

A word is a run of letters, numbers and marks (Unicode L, N, M), as RE2 and so the engine know them, compared folded.
The same in SQL: the column ``content`` of the table ``spans`` and ``query_api/filter/sql/text.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import re2

Phrase: TypeAlias = tuple[str, ...]
"""Words that follow each other."""

_IN_WORD: Final = re2.compile(r"[\p{L}\p{N}\p{M}]")
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")

_TERM: Final = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"]+))')
"""A quoted phrase or a run without spaces, with the minus before it that makes it an exclusion: a minus inside a run is
a dash. A quote that is not closed separates words like any other character that is not part of a word."""

_CASED_END: Final = 0x1E944
"""After the last letter that has a case in the tables of this Python."""


def _simple(character: str) -> str:
    """The simple case folding of a character (status C and S of Unicode's ``CaseFolding.txt``), made from what Python
    knows: a full folding to one code point is the simple one too; where it is several, the lower case is, if that is
    one."""
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character  # only U+0130: it folds to two code points, and stays


FOLDING: Final = {
    ord(character): ord(_simple(character))
    for character in map(chr, range(0x80, _CASED_END))
    if character.casefold() != character and _simple(character) != character
}
"""Code points beyond ASCII that fold to another one. The DDL of the column ``content`` holds the same table as two
texts, and RE2's ``(?i)`` folds by the same pairs; tests compare them."""

_WITH_ASCII: Final = FOLDING | {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold(text: str) -> str:
    """Fold each code point of a text; the number of code points stays."""
    return text.lower() if text.isascii() else text.translate(_WITH_ASCII)


@dataclass(frozen=True, slots=True)
class Content:
    """The parsed operand of ``content contains``: folded words, each once, in the order of the text.

    A phrase has at least two words: a phrase of one word is a word.
    """

    words: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    excluded_words: tuple[str, ...] = ()
    excluded_phrases: tuple[Phrase, ...] = ()


def parse_content(text: str) -> Content:
    """Parse the operand of ``content contains``. Raises ``ValueError`` if it has no word.

    Each word is wanted; words in double quotes are a phrase. A minus before a word or phrase excludes it; a minus
    before several words that no space separates (``-well-known``) excludes them as a phrase.
    """
    wanted: dict[Phrase, None] = {}
    excluded: dict[Phrase, None] = {}
    for term in _TERM.finditer(text):
        found = words_of(term["bare"] if term["quoted"] is None else term["quoted"])
        if term["minus"]:
            excluded[found] = None
        elif term["quoted"] is None:
            wanted.update(dict.fromkeys((word,) for word in found))
        else:
            wanted[found] = None
    content = Content(_words(wanted), _phrases(wanted), _words(excluded), _phrases(excluded))
    if content == Content():
        raise ValueError("'content' needs a text with at least one word: a run of letters and digits.")
    return content


def _words(terms: Mapping[Phrase, None]) -> tuple[str, ...]:
    return tuple(term[0] for term in terms if len(term) == 1)


def _phrases(terms: Mapping[Phrase, None]) -> tuple[Phrase, ...]:
    return tuple(term for term in terms if len(term) > 1)


def words_of(text: str) -> Phrase:
    """Return the words of a text in their order, folded."""
    folded = fold(text)
    if folded.isascii():
        return tuple(_ASCII_WORD.findall(folded))
    return tuple(folded.translate(_SEPARATORS).split())


def spaced(words: Phrase) -> str:
    """Join words with a space around each: a phrase occurs in another exactly if its text does."""
    return f" {' '.join(words)} "


class _Separators:
    """A table for ``str.translate`` that maps each code point outside of words to a space.

    A match by RE2 takes microseconds, so each code point is looked up once.
    """

    @lru_cache(32_768)  # noqa: B019 - there is one instance, which lives as long as the process
    def __getitem__(self, code: int) -> int:
        return code if _IN_WORD.fullmatch(chr(code)) else ord(" ")


_SEPARATORS: Final = _Separators()
