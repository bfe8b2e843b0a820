"""Time that moves when a test says so."""

from __future__ import annotations


class ManualClock:
    """Both clocks advance together, by ``advance`` alone."""

    def __init__(self, *, now_ns: int = 1_760_000_000_000_000_000) -> None:
        self._now_ns = now_ns
        self._monotonic_s = 1_000.0

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        self._now_ns += int(seconds * 1_000_000_000)
        self._monotonic_s += seconds
