"""What text operators mean: how a literal is found, and the RE2 pattern that ``like`` and ``matches`` become (contract §3.2).

Without case a text is folded code point by code point: Unicode simple folding, as in ``folding.py`` and in RE2's ``(?i)``.
The engine's ``match`` and ``google-re2`` are the same library with the same tables and defaults, but for one: in the engine a
dot matches a newline. So every pattern begins with its flags.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import re2

from common.clickhouse.leaves import number_text
from query_api.filter.ast import Condition, Operator
from query_api.filter.folding import fold
from query_api.filter.values import is_number

PATTERN_MEMORY_BYTES: Final = 4 * 1024 * 1024
"""What a compiled pattern may take. The engine allows 8 MiB, so that it never refuses what was accepted here."""

PATTERNS_SIZE_MAX: Final = 128 * 1024
"""Instructions of RE2, of every ``like`` and ``matches`` in one filter together. A pattern of 64 KiB that is mostly literal has half
of it, ``\\pL{100}`` nearly all."""

PATTERNS_LENGTH_MAX: Final = 128 * 1024
"""Characters of the same patterns, looked at before any is compiled: a character takes up to 1 µs."""

UNICODE_CLASSES_MAX: Final = 256
"""Unicode classes (``\\pL``) in the same patterns, looked at before any is compiled: each takes RE2 up to 0.1 ms, whatever comes of it."""

_CACHED_MAX: Final = 256


_LIKE_RUN: Final = re.compile(r"%|_|\\.?|[^%_\\]+", re.DOTALL)
_UNICODE_CLASS: Final = re.compile(r"\\[pP]")


def text_of(value: Any) -> str | None:
    """The text of a scalar, as JSON shows it without quotes; ``None`` for what has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if is_number(value) else None


def text_holds(condition: Condition, text: str) -> bool:
    """Whether a condition of a text operator is true of a text."""
    finds = _LITERALS.get(condition.operator)
    if finds is None:
        return _compiled(pattern_of(condition)).search(text) is not None
    literal = _text(condition)
    if not condition.is_case_sensitive:
        literal, text = fold(literal), fold(text)
    return text == literal if condition.is_exact else finds(text, literal)


class PatternTotals:
    """What the patterns of one filter come to together, condition by condition."""

    def __init__(self) -> None:
        self._length = 0
        self._classes_count = 0
        self._size = 0

    def add(self, condition: Condition) -> None:
        """Count a condition of a text operator. Raises ``ValueError`` with the reason where the pattern does not compile or a total
        is passed."""
        if condition.operator in _LITERALS:
            return
        text = _text(condition)
        self._length += len(text)
        if self._length > PATTERNS_LENGTH_MAX:
            raise ValueError(f"the patterns of the filter are longer than {PATTERNS_LENGTH_MAX} characters together")
        self._classes_count += len(_UNICODE_CLASS.findall(text))
        if self._classes_count > UNICODE_CLASSES_MAX:
            raise ValueError(
                f"the patterns of the filter have more than {UNICODE_CLASSES_MAX} classes like \\pL together"
            )
        try:
            self._size += pattern_size(condition)
        except ValueError as exc:
            raise ValueError(f"RE2 does not compile the pattern: {exc}") from exc
        if self._size > PATTERNS_SIZE_MAX:
            raise ValueError(
                f"the patterns of the filter are larger than {PATTERNS_SIZE_MAX} instructions of RE2 together"
            )


def pattern_size(condition: Condition) -> int:
    """How many instructions RE2 makes of the pattern of ``like`` or ``matches``; zero for a literal.

    ``ValueError`` with RE2's reason where it does not compile.
    """
    if condition.operator in _LITERALS:
        return 0
    if condition.operator is Operator.MATCHES:
        _compiled(_text(condition))  # alone: what follows it must not complete it
    size: int = _compiled(pattern_of(condition)).programsize
    return size


def pattern_of(condition: Condition) -> str:
    """The pattern, to be searched for anywhere in a text, that means the condition."""
    flags = "(?-s)" if condition.is_case_sensitive else "(?i-s)"
    return flags + _BODIES[condition.operator](_text(condition), condition.is_exact)


def _literal(before: str, after: str) -> Callable[[str, bool], str]:
    def body(text: str, is_exact: bool) -> str:  # noqa: FBT001 - a row of a table
        literal: str = re2.escape(text)
        return rf"\A{literal}\z" if is_exact else before + literal + after

    return body


def _like(text: str, _is_exact: bool) -> str:  # noqa: FBT001 - a row of a table
    r"""``%`` is any run of code points, ``_`` is one, newlines included; a backslash takes its meaning from what follows."""
    parts = [r"\A"]
    for run in _LIKE_RUN.findall(text):
        if run == "%":
            part = "(?s:.*)"
        elif run == "_":
            part = "(?s:.)"
        elif run[0] == "\\":
            part = re2.escape(run[1:] or run)
        else:
            part = re2.escape(run)
        if part != "(?s:.*)" or parts[-1] != part:
            parts.append(part)
    return "".join([*parts, r"\z"])


def _regular(text: str, is_exact: bool) -> str:  # noqa: FBT001 - a row of a table
    if not is_exact:
        return text
    whole = rf"\A(?:{text})\z"
    return whole if _compiles(whole) else rf"\A(?:{text}\E)\z"  # the text ends inside of \Q


_BODIES: Final[Mapping[Operator, Callable[[str, bool], str]]] = {
    Operator.CONTAINS: _literal("", ""),
    Operator.STARTSWITH: _literal(r"\A", ""),
    Operator.ENDSWITH: _literal("", r"\z"),
    Operator.LIKE: _like,
    Operator.MATCHES: _regular,
}
TEXT_OPERATORS: Final = frozenset(_BODIES)
_LITERALS: Final[Mapping[Operator, Callable[[str, str], bool]]] = {
    Operator.CONTAINS: operator.contains,
    Operator.STARTSWITH: str.startswith,
    Operator.ENDSWITH: str.endswith,
}


def _text(condition: Condition) -> str:
    if not isinstance(condition.operand, str):
        raise TypeError(f"'{condition.operator}' takes a text")  # parse makes no other
    return condition.operand


def _compiles(pattern: str) -> bool:
    try:
        _compiled(pattern)
    except ValueError:
        return False
    return True


@lru_cache(_CACHED_MAX)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        raise ValueError(_reason(exc)) from exc


def _reason(error: Exception) -> str:
    [reason] = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
