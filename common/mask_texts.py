"""What the expressions of masking rules find in text (ADR 0021). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import re2

SEARCH_COST_MAX: Final = 500_000_000
"""Instructions of RE2 times bytes of one search, 2 to 5 s at worst; a text that would take more is redacted as a
whole."""

SEARCHES_BEFORE_JOINING: Final = 20
CLEAN_TEXTS_MAX: Final = 20_000
CLEAN_CHARACTERS_MAX: Final = 200
_PATTERN_MEMORY: Final = 8 << 20
_TIED_TO_ITS_TEXT: Final = re.compile(r"\\[AzQ]|\(\?[A-Za-z]*-")
"""What may make an expression find less in lines of several texts than in the texts one by one: the begin and the end
of a text, a quote that takes in the rest, a flag that is switched off. May find more than these."""


def compile_value(pattern: str) -> Any:
    """Compile a regular expression. Raises ``ValueError`` with what is wrong; one that matches no text is wrong too."""
    compiled = _compiled(pattern)
    if compiled.search("") is not None:
        raise ValueError("it matches the empty text")
    return compiled


class TextRule(NamedTuple):
    """An expression and what a rule does with what it finds (``MaskAction``)."""

    action: str
    value: Any


class TextRules:
    """The rules about text that apply together, and the texts in which they are known to find nothing.

    Names of members repeat in every span, and so do many values: they are searched once.
    """

    def __init__(self, rules: Sequence[TextRule]) -> None:
        self.rules = rules
        self._patterns = [rule.value.pattern for rule in rules]
        self._size = max((rule.value.programsize for rule in rules), default=0)
        self._clean: set[str] = set()
        self._searches = 0

    def knows(self, text: str) -> bool:
        """Return whether it is known that no rule finds anything."""
        return not self.rules or text in self._clean

    def is_too_costly(self, text: str) -> bool:
        """Return whether a search could take too long."""
        return self._size * len(text) > SEARCH_COST_MAX

    @cached_property
    def _any(self) -> Any:
        return _any_of(self._patterns)

    @cached_property
    def _in_lines(self) -> Any:
        return _any_in_lines(self._patterns)

    def find_nothing(self, text: str) -> bool:
        """Return whether no rule finds anything."""
        is_joint = self._is_worth_joining() and self._is_cheap(self._any, text)
        if self._any.search(text) if is_joint else any(rule.value.search(text) for rule in self.rules):
            return False
        if len(text) <= CLEAN_CHARACTERS_MAX:
            if len(self._clean) >= CLEAN_TEXTS_MAX:
                self._clean.clear()
            self._clean.add(text)
        return True

    def surely_find_nothing(self, texts: Sequence[str]) -> bool:
        """Return whether one search of all texts at once shows that no rule finds anything in any of them."""
        lines = "\n".join(texts)
        if not (self._is_worth_joining() and self._is_cheap(self._in_lines, lines)):
            return False
        return self._in_lines.search(lines) is None

    def _is_worth_joining(self) -> bool:
        """Return whether to join the rules: it costs as much as many searches, and random keys make many sets."""
        self._searches += 1
        return len(self.rules) == 1 or self._searches > SEARCHES_BEFORE_JOINING

    @staticmethod
    def _is_cheap(joined: Any, text: str) -> bool:
        return joined is not None and joined.programsize * len(text) <= SEARCH_COST_MAX


def _compiled(pattern: str, *, captures: bool = True) -> Any:
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY
    options.log_errors = False
    options.never_capture = not captures
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        text = exc.args[0] if exc.args else ""
        raise ValueError(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from exc


def _any_of(patterns: Sequence[str]) -> Any:
    """Return one expression that finds what any of these finds; ``None`` if there is none that is sure to."""
    if not patterns or any("\\Q" in pattern for pattern in patterns):  # a quote that is not closed takes in the rest
        return None
    try:
        return _compiled(_alternatives(patterns), captures=False)
    except ValueError:
        return None


def _any_in_lines(patterns: Sequence[str]) -> Any:
    """Return an expression that finds something in texts joined by line breaks if any of these does in one of them;
    ``None`` if there is none that is sure to. It may find more: what begins in one text and ends in the next.
    """
    if not patterns or any(_TIED_TO_ITS_TEXT.search(pattern) for pattern in patterns):
        return None
    try:
        return _compiled(f"(?m){_alternatives(patterns)}", captures=False)
    except ValueError:
        return None


def _alternatives(patterns: Sequence[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)
