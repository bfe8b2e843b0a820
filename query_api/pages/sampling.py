"""What ``windowing.rate`` asks for: a part of all traces, the same ones each time (reference §6.4)."""

from __future__ import annotations

from typing import Final

SAMPLED: Final = "reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}"
"""A condition on ``trace_id``. Not needed at 100 percent."""


def percent_of(rate: float | None) -> int:
    """How many of a hundred traces are kept, rounded down; all of them where nothing is said."""
    return 100 if rate is None else int(rate * 100)
