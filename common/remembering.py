"""Values that a process remembers for a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from common.times import Clock

REMEMBERED_MAX: Final = 10_000
"""Projects, keys and owners of keys that a process remembers, of each kind."""

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


class Remembering(Generic[Name, Value]):
    """Values by key, each until it expires. Above ``count_max`` the oldest is dropped."""

    def __init__(self, clock: Clock, *, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._values: dict[Name, tuple[Value, float]] = {}

    def recall(self, key: Name, /) -> tuple[Value] | None:
        """Return the value in a tuple, because it may be ``None``; ``None`` if nothing is known."""
        value_until = self._values.get(key)
        if value_until is None or value_until[1] <= self._clock.monotonic_s():
            return None
        return (value_until[0],)

    def remember(self, key: Name, value: Value, /, *, for_s: float) -> None:
        """Keep a value for ``for_s`` seconds."""
        self._values.pop(key, None)
        while len(self._values) >= self._count_max:
            del self._values[next(iter(self._values))]
        self._values[key] = (value, self._clock.monotonic_s() + for_s)

    def forget_where(self, is_over: Callable[[Value], bool], /) -> None:
        """Forget the values of which this is true."""
        self._values = {key: pair for key, pair in self._values.items() if not is_over(pair[0])}

    def forget_all(self) -> None:
        """Forget all values."""
        self._values.clear()
