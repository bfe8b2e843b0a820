"""Texts of filters: folding, words, and text operators (contract §3.2).

Without case, texts are compared folded: Unicode simple folding, code point by code point, as RE2's ``(?i)`` does it. A
word is a run of letters, numbers and marks (Unicode L, N, M), as RE2 and so the engine know them. The engine's
``match`` and ``google-re2`` are the same library with the same tables and defaults, with one exception: in the engine
a dot matches a newline. So every pattern begins with its flags.

The same in SQL: ``query_api/filter/sql/expressions.py``, and for words the column ``content`` of the table ``spans``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, assert_never

import re2

from common.json_values import is_number, number_text
from query_api.filter.language import Condition, Operator

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


PATTERN_MEMORY_BYTES: Final = 4 * 1024 * 1024
"""Memory of a compiled pattern. The engine allows 8 MiB, so it never refuses a pattern that was accepted here."""

_CACHED_MAX: Final = 256
_LIKE_RUN: Final = re.compile(r"%|_|\\.?|[^%_\\]+", re.DOTALL)
_ANY_RUN: Final = "(?s:.*)"

TextOperator: TypeAlias = Literal[
    Operator.CONTAINS, Operator.STARTSWITH, Operator.ENDSWITH, Operator.LIKE, Operator.MATCHES
]


def text_of(value: Any) -> str | None:
    """Return the text of a scalar, as JSON shows it without quotes; ``None`` if the value has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if is_number(value) else None


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A text operator with its operand and options."""

    operator: TextOperator
    text: str
    is_case_sensitive: bool = False
    is_exact: bool = False

    @classmethod
    def of(cls, operator: TextOperator, condition: Condition) -> TextSearch:
        """Return the search of a condition; ``operator`` is the condition's, narrowed by the caller."""
        return cls(operator, str(condition.operand), condition.is_case_sensitive, condition.is_exact)

    def holds(self, text: str) -> bool:
        """Return whether the condition is true of a text."""
        if self.operator is Operator.LIKE or self.operator is Operator.MATCHES:
            return _compiled(self.pattern()).search(text) is not None
        wanted = self.text
        if not self.is_case_sensitive:
            wanted, text = fold(wanted), fold(text)
        if self.is_exact:
            return text == wanted
        match self.operator:
            case Operator.CONTAINS:
                return wanted in text
            case Operator.STARTSWITH:
                return text.startswith(wanted)
            case Operator.ENDSWITH:
                return text.endswith(wanted)
            case _:
                assert_never(self.operator)

    def pattern(self) -> str:
        """Return the RE2 pattern that, searched for anywhere in a text, means the same."""
        return f"{'(?-s)' if self.is_case_sensitive else '(?i-s)'}{self._unflagged_pattern()}"

    def _unflagged_pattern(self) -> str:
        literal: str = re2.escape(self.text)
        match self.operator:
            case Operator.LIKE:
                return _like_pattern(self.text)
            case Operator.MATCHES:
                return _whole_pattern(self.text) if self.is_exact else self.text
            case Operator.CONTAINS | Operator.STARTSWITH | Operator.ENDSWITH if self.is_exact:
                return rf"\A{literal}\z"
            case Operator.CONTAINS:
                return literal
            case Operator.STARTSWITH:
                return rf"\A{literal}"
            case Operator.ENDSWITH:
                return rf"{literal}\z"
            case _:
                assert_never(self.operator)

    def pattern_size(self) -> int:
        """Compile the pattern and return its number of RE2 instructions. Raises ``ValueError`` with RE2's reason."""
        if self.operator is Operator.MATCHES:
            _compiled(self.text)  # alone, so that `pattern` cannot complete an expression that is not one
        size: int = _compiled(self.pattern()).programsize
        return size


def _like_pattern(text: str) -> str:
    r"""``%`` is any run of code points, ``_`` is one, newlines included; after a backslash a character is itself."""
    parts = [r"\A"]
    for run in _LIKE_RUN.findall(text):
        if run == "%":
            part = _ANY_RUN
        elif run == "_":
            part = "(?s:.)"
        elif run[0] == "\\":
            part = re2.escape(run[1:] or run)
        else:
            part = re2.escape(run)
        if part != _ANY_RUN or parts[-1] != part:
            parts.append(part)
    return "".join([*parts, r"\z"])


def _whole_pattern(expression: str) -> str:
    whole = rf"\A(?:{expression})\z"
    try:
        _compiled(whole)
    except ValueError:
        return rf"\A(?:{expression}\E)\z"  # the expression ends inside a \Q
    return whole


@lru_cache(_CACHED_MAX)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        [reason] = exc.args
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from exc
