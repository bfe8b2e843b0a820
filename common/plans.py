"""What is worked out of the keys of attributes, kept for those that come again: an instrumentation writes the same keys with every span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

Keys: TypeAlias = tuple[str, ...]
Plan = TypeVar("Plan")

SEEN_MAX: Final = 4_096
CHARACTERS_MAX: Final = 16_384
"""Of all keys of a set together: with the number of plans this bounds what they take, to some 20 MB of the most hostile ones."""


class Plans(Generic[Plan]):
    """Plans by keys, in their order; at most so many: when there are more, all begins anew. Safe to use from several threads."""

    def __init__(self, make: Callable[[Keys], Plan], *, most: int) -> None:
        self._make = make
        self._most = most
        self._plans: dict[Keys, Plan] = {}
        self._seen_once: set[int] = set()
        self.get: Final = self._plans.get
        """As of a mapping."""

    def __len__(self) -> int:
        return len(self._plans)

    def remember(self, keys: Keys) -> None:
        """Take note that keys without a plan came; the second time they get one. Random ones never come twice."""
        mark = hash(keys)
        if mark not in self._seen_once:
            if len(self._seen_once) >= SEEN_MAX:
                self._seen_once.clear()
            self._seen_once.add(mark)
        elif sum(map(len, keys)) <= CHARACTERS_MAX:
            if len(self._plans) >= self._most:
                self._plans.clear()
            self._plans[keys] = self._make(keys)
