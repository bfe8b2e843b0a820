"""Text operators: how a literal is found, and the RE2 pattern that ``like`` and ``matches`` become (contract §3.2).

Without case, a text is folded code point by code point: Unicode simple folding, as in ``words.fold`` and in RE2's
``(?i)``. The engine's ``match`` and ``google-re2`` are the same library with the same tables and defaults, with one
exception: in the engine a dot matches a newline. So every pattern begins with its flags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, assert_never

import re2

from common.json_numbers import is_number, number_text
from query_api.filter.ast import Condition
from query_api.filter.fields import Operator
from query_api.filter.words import fold

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
