"""Numbers as JSON has them here: integers inside 64 bits are exact, every other number is a double (contract §4)."""

from __future__ import annotations

from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT64_MAX: Final = 2**64 - 1

INTEGERS_FIRST: Final = float(INT64_MIN)
INTEGERS_END: Final = float(UINT64_MAX + 1)
"""A double without a fraction is an integer from the first on and below the end. Doubles compare faster with doubles."""


def json_number(value: float) -> int | float:
    """A double as JSON-ready number: an integer where it has no fraction and fits 64 bits."""
    return int(value) if value.is_integer() and INTEGERS_FIRST <= value < INTEGERS_END else value
