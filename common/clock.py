"""Time as a value that is passed in, so that a test can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read, one that only moves forward."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970, UTC."""
        return time.time_ns()

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()
