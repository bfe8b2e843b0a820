"""The current time as a dependency, so that a test can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time, and monotonic time."""

    def now_ns(self) -> int:
        """Return nanoseconds since 1970, UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start; never decreases."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now_ns(self) -> int:
        """Return nanoseconds since 1970, UTC."""
        return time.time_ns()

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start; never decreases."""
        return time.monotonic()
