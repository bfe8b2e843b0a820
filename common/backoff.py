"""Delays between attempts at something that fails transiently."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

DELAY_S_MIN: Final = 0.1


class Backoff:
    """Delays that double from 0.1 s up to ``delay_s_max``, each shortened at random by up to half.

    The randomness keeps processes that lost the same system from retrying in step.
    """

    def __init__(self, *, delay_s_max: float, share: Callable[[], float] = random.random) -> None:
        self._delay_s_max = delay_s_max
        self._share = share
        self._tries_count = 0

    def next_delay_s(self) -> float:
        """Return the seconds until the next attempt; each call counts as a failed one."""
        ceiling_s: float = min(self._delay_s_max, DELAY_S_MIN * 2.0 ** min(self._tries_count, 30))
        self._tries_count += 1
        return ceiling_s * (0.5 + 0.5 * self._share())
