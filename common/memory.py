"""How a process that takes spans in, or gives them out, handles memory: set once, at the start, because the defaults cost time that
buys nothing where objects come and go in batches.

**Cycles.** Decoding makes hundreds of thousands of small objects a second, none of them in a cycle, and a batch of them lives for
a moment. By default every 700 of them start a search, and each tenth search walks over everything that lives: 20% of the
time of a plain span, 40% of an LLM span (`make bench`). A page of 50 traces spends 0.7 ms of its 8 in them.

**Pages.** Arrow's own allocator gives the pages of a batch back to the system and takes them anew for the next: 43 µs of system time
an LLM span in the worker, 27 with the allocator of the C library, and 100 MiB less.
"""

from __future__ import annotations

import gc
from typing import Final

import pyarrow as pa

YOUNG_OBJECTS_MAX: Final = 50_000
"""About 15 MB of small objects: what a cycle may hold on to until it is found."""

MIDDLE_ROUNDS_MAX: Final = 20
OLD_ROUNDS_MAX: Final = 50


def tune_for_batches() -> None:
    """Set collector and allocator for a process that decodes, inserts or answers; what was loaded so far is never searched again.

    Safe to repeat.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, MIDDLE_ROUNDS_MAX, OLD_ROUNDS_MAX)
    pa.set_memory_pool(pa.system_memory_pool())
