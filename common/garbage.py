"""How often Python looks for reference cycles in a process that takes spans in.

Decoding makes hundreds of thousands of small objects a second, none of them in a cycle, and a batch of them lives for a
moment. By default every 700 of them start a search, and each tenth search walks over everything that lives: 20% of the
time of a plain span, 40% of an LLM span (`make bench`).
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 50_000
"""About 15 MB of small objects: what a cycle may hold on to until it is found."""

MIDDLE_ROUNDS_MAX: Final = 20
OLD_ROUNDS_MAX: Final = 50


def search_for_cycles_rarely() -> None:
    """Set the collector for a process that decodes; what was loaded so far is never searched again. Safe to repeat."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, MIDDLE_ROUNDS_MAX, OLD_ROUNDS_MAX)
