"""Checks that prove that rules leave values as they are, many values at once.

A check examines values without their paths, so it costs a small part of masking them. What it cannot clear is masked
step by step (``common/masking.py``), which may change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import orjson

from common.json_tokens import JSON_STARTS, json_in, may_hold_keys, texts_in
from common.mask_keys import find_names
from common.mask_texts import TextRules
from common.masking import DEPTH_MAX

LEVELS_MAX: Final = DEPTH_MAX // 2
"""Levels that a check follows: a text that has at most as many is known at any level up to this one."""

KNOWN_CHARACTERS_MAX: Final = 4_000_000
_CONTAINERS: Final = frozenset({dict, list})


class Check(Protocol):
    """Proves that rules leave values as they are."""

    def clears(self, values: Collection[Any], /) -> bool:
        """Return whether these values surely stay as they are."""
        ...


class NameCheck:
    """No key has one of these names, neither in objects nor in JSON, or text like it, inside of text."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names)

    @cached_property
    def _found(self) -> Any:
        return find_names(self._names)

    def clears(self, values: Collection[Any], /) -> bool:
        """Return whether these values surely stay as they are."""
        with_keys = [
            value for value in values if (may_hold_keys(value) if type(value) is str else type(value) in _CONTAINERS)
        ]
        if not with_keys:
            return True
        if self._found is None:
            return False
        try:
            written = orjson.dumps(with_keys)
        except TypeError:
            return False
        return self._found.search(written) is None or self._found.search("\n".join(_names_and_json(with_keys))) is None


def _names_and_json(values: Iterable[Any]) -> list[str]:
    """Return all keys, and all texts that may hold keys."""
    texts: list[str] = []
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if may_hold_keys(value):
                texts.append(value)
        elif isinstance(value, dict):
            texts.extend(value)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return texts


class TextCheck:
    """No rule about text finds anything, and nothing is too deep to be examined. Each text of a chunk is searched once.

    ``search`` returns whether the rules surely find nothing in these texts.
    """

    def __init__(self, rules: TextRules, search: Callable[[TextRules, Sequence[str]], bool]) -> None:
        self._rules = rules
        self._search = search
        self.forget()

    def forget(self) -> None:
        """Forget the texts that were searched."""
        self._known = {""}
        self._known_characters = 0

    def knows(self, text: str) -> bool:
        """Return whether it is known that this text stays as it is."""
        return text in self._known

    def clears(self, values: Collection[Any], /) -> bool:
        """Return whether these values surely stay as they are."""
        texts: list[str] = []
        level: Iterable[Any] = values
        for _ in range(LEVELS_MAX):
            level = self._collect(level, texts)
            if not level:
                return not texts or self._find_nothing(texts)
        return False

    def _collect(self, level: Iterable[Any], texts: list[str]) -> list[Any]:
        """Add the texts and numbers of one level that are not known; return the values of the next level."""
        known = self._known
        deeper: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is str:
                if value not in known:
                    texts.append(value)
                    if value[:1] in JSON_STARTS:
                        inner = json_in(value)
                        deeper.extend(texts_in(value) if inner is None else (inner,))
            elif kind is dict:
                if not known.issuperset(value):
                    deeper.extend(value)
                deeper.extend(value.values())
            elif kind is list:
                deeper.extend(value)
            elif (kind is int or kind is float) and (text := orjson.dumps(value).decode()) not in known:
                texts.append(text)
        return deeper

    def _find_nothing(self, texts: Sequence[str]) -> bool:
        if not self._search(self._rules, texts):
            return False
        self._known_characters += sum(map(len, texts))
        if self._known_characters > KNOWN_CHARACTERS_MAX:
            self.forget()
        self._known.update(texts)
        return True
