"""Which paths the key patterns of masking rules concern (ADR 0021).

A pattern concerns a path if it matches the path or a path above it, and it may concern paths below. All patterns of a
place are searched together first: most paths concern none of them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import re2

PATHS_MAX: Final = 20_000
FINDERS_MAX: Final = 128
_PATTERN_MEMORY: Final = 8 << 20
_HIDDEN_IN_JSON: Final = re.compile(r'["\\/\x00-\x1f]')
"""Characters that JSON may write as an escape without ``\\u``."""

_ESCAPED_ASCII: Final = r"\\(?:u(?:00[2-7]|017[fF]|212[aA])|x[2-7]|U000000[2-7])"
"""Escapes of characters that match ASCII in any case: ASCII, a long s and the sign of Kelvin."""

_NOTHING: Final = r"[^\x00-\x{10FFFF}]"
_ANYTHING: Final = re2.compile("(?s).")


def compile_key(pattern: str) -> Any:
    """Compile the pattern of a path: ``*`` stands for any characters; everything else for itself, in any case."""
    return re2.compile(_paths(_glob(pattern)))


class KeyPatterns:
    """The key patterns of the rules of one place, by their positions. Paths are dotted."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._fit = _Alternatives([rf"(?:{_glob(pattern)})(?:\..*)?" for pattern in patterns])
        self._below = _Alternatives([_beginnings(pattern) for pattern in patterns])
        self._everywhere = _Alternatives([_beginnings(pattern, everywhere=True) for pattern in patterns])
        self._anywhere = [position for position, pattern in enumerate(patterns) if pattern.startswith("*")]
        self._names = [_names(pattern) for pattern in patterns]
        self._finders = [[re2.compile(f"(?i){re2.escape(name)}") for name in names] for names in self._names]
        self._any_name = _compiled_or_none(
            "|".join(f"(?i:{re2.escape(name)})" for name in chain(*self._names)) or _NOTHING
        )
        self._finder_of: dict[frozenset[str], Any] = {}
        self._finder_of_path: dict[str, Any] = {}
        self._last: tuple[str | None, list[int]] = None, []
        self._usual_names = self._names_in("", self._anywhere)

    def fitting(self, path: str) -> list[int]:
        """Return the patterns that match this path or a path above it."""
        if path != self._last[0]:
            self._last = path, self._fit.matching(path)
        return self._last[1]

    def names_below(self, path: str) -> frozenset[str] | None:
        """Return names so that whatever a further pattern matches below this path has one of them in a key, in any
        case and maybe as a part of the key.

        Empty if no further pattern can match below; ``None`` if there are no such names.
        """
        return self._further_names(path, self._below.matching(f"{path}."))

    def finder_below(self, path: str) -> Any:
        """Return an expression that finds something in each text that may hold a key of a further pattern below this
        path; ``None`` if no further pattern can match below.
        """
        if path not in self._finder_of_path:
            if len(self._finder_of_path) >= PATHS_MAX:
                self._finder_of_path.clear()
            self._finder_of_path[path] = self._finder(self.names_below(path) if path else self._names_of_all())
        return self._finder_of_path[path]

    def _names_of_all(self) -> frozenset[str] | None:
        """Return such names for all patterns, for texts that have no path: no part of a pattern is above them."""
        return frozenset(names[0] for names in self._names) if all(self._names) else None

    def _finder(self, names: frozenset[str] | None) -> Any:
        if not names:
            return _ANYTHING if names is None else None
        if names not in self._finder_of:
            if len(self._finder_of) >= FINDERS_MAX:
                self._finder_of.clear()
            self._finder_of[names] = find_names(sorted(names)) or _ANYTHING
        return self._finder_of[names]

    def names_everywhere(self, path: str) -> frozenset[str] | None:
        """Return such names for the patterns that may match below every path below this one; ``""`` is all paths."""
        return self._further_names(path, self._everywhere.matching(f"{path}." if path else ""))

    def _further_names(self, path: str, positions: Sequence[int]) -> frozenset[str] | None:
        if not positions and self._any_name is not None and self._any_name.search(path) is None:
            return self._usual_names
        return self._names_in(path, [*self._anywhere, *positions])

    def _names_in(self, path: str, positions: Sequence[int]) -> frozenset[str] | None:
        at_path = self.fitting(path)
        chosen = set()
        for position in positions:
            if position in at_path:
                continue
            pairs = zip(self._names[position], self._finders[position], strict=True)
            name = next((name for name, finder in pairs if finder.search(path) is None), None)
            if name is None:
                return None
            chosen.add(name)
        return frozenset(chosen)


class _Alternatives:
    """Expressions over whole paths, compiled into one."""

    def __init__(self, expressions: Sequence[str]) -> None:
        self._each = [re2.compile(_paths(expression)) for expression in expressions]
        self._any = _compiled_or_none(_paths("|".join(f"(?:{expression})" for expression in expressions)))

    def matching(self, path: str) -> list[int]:
        """Return the positions of those that match."""
        if not self._each or (self._any is not None and self._any.fullmatch(path) is None):
            return []
        return [position for position, expression in enumerate(self._each) if expression.fullmatch(path) is not None]


def find_names(names: Sequence[str]) -> Any:
    """Return an expression that finds any of these names in a key and in JSON text, and each escape that may hide one;
    ``None`` if there are too many.
    """
    escape = _ESCAPED_ASCII if all(map(str.isascii, names)) else r"\\(?:u|x[0-9a-fA-F]|U000)"
    return _compiled_or_none("|".join([f"(?i:{re2.escape(name)})" for name in names] + [escape]))


def _compiled_or_none(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _paths(expression: str) -> str:
    return f"(?is)(?:{expression})"


def _glob(pattern: str) -> str:
    return ".*".join(re2.escape(part) for part in pattern.split("*"))


def _beginnings(pattern: str, *, everywhere: bool = False) -> str:
    """Return an expression for every path, with a dot at its end, below which the pattern may match; ``everywhere``:
    below every path below it. Nothing for a pattern that may match anywhere.
    """
    literal, wildcard, _ = pattern.partition("*")
    if not literal:  # anywhere
        return _NOTHING
    ends = [] if everywhere else [at + 1 for at, character in enumerate(literal) if character == "."]
    found = [re2.escape(literal[:end]) for end in ends]
    if wildcard:
        found.append(f"{re2.escape(literal)}.*")
    return "|".join(found) or _NOTHING


def _names(pattern: str) -> list[str]:
    """Return the parts of a pattern that must occur inside of one key, the last one first.

    Digits alone may be a position in an array, which is no key.
    """
    parts = [part for part in re.split(r"[*.]", pattern) if part and not part.isdigit()]
    return [part for part in reversed(parts) if not _HIDDEN_IN_JSON.search(part)]
