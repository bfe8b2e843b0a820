"""A small memory for answers of the database: bounded in number and in time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from common.clock import Clock

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembering(Generic[Key, Value]):
    """Answers by key, each until its time is over; past ``count_max`` the oldest gives way."""

    def __init__(self, clock: Clock, *, count_max: int) -> None:
        self._clock = clock
        self._count_max = count_max
        self._answers: dict[Key, tuple[Value, float]] = {}

    def recall(self, key: Key, /) -> tuple[Value] | None:
        """The answer in a tuple of one, because ``None`` can be an answer; ``None`` when nothing is known."""
        value_until = self._answers.get(key)
        if value_until is None or value_until[1] <= self._clock.monotonic_s():
            return None
        return (value_until[0],)

    def remember(self, key: Key, value: Value, /, *, for_s: float) -> None:
        """Keep an answer for so many seconds."""
        self._answers.pop(key, None)
        while len(self._answers) >= self._count_max:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (value, self._clock.monotonic_s() + for_s)

    def forget_all(self) -> None:
        """Know nothing any more."""
        self._answers.clear()
