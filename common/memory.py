"""Memory settings of the worker and the API, set once at the start: the defaults are slow for objects that live in
batches.

**Garbage collection.** Decoding creates hundreds of thousands of small objects a second, without cycles, and each batch
lives briefly. By default every 700 of them start a collection, and every tenth collection visits all live objects: 20%
of the time of a plain span, 40% of an LLM span (`make bench`). A page of 50 traces spends 0.7 of its 8 ms in them.

**Allocation.** Arrow's own allocator returns the pages of a batch to the system and requests them again for the next
one: 43 µs of system time per LLM span in the worker, against 27 µs with the C library's allocator, which also takes 100
MiB less. But it keeps what is freed between blocks in use: with spans of 4 MiB a worker grew by 100 MiB a minute. So
a worker that has become large returns what is free after each batch.
"""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

YOUNG_OBJECTS_MAX: Final = 50_000
"""About 15 MB of small objects, which a cycle may keep alive until it is found."""

ARENAS_MAX: Final = 2
"""Heaps of the C library. By default it makes up to eight for each core, one for each thread that allocates, and each
keeps what is freed in it: 45 of 280 MiB of the embedded stack after a few spans and queries."""

_M_ARENA_MAX: Final = -8
"""Of ``malloc.h``."""

MIDDLE_ROUNDS_MAX: Final = 20
OLD_ROUNDS_MAX: Final = 50


def tune_for_batches() -> None:
    """Set garbage collector and allocator; objects that exist now are never visited again. Safe to call twice."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, MIDDLE_ROUNDS_MAX, OLD_ROUNDS_MAX)
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS_MAX)


def return_free_memory(*, above_bytes: int) -> None:
    """Return what the C library holds and nothing uses to the system, if this process has more than ``above_bytes``.

    It takes some milliseconds.

    Does nothing where ``/proc`` or ``malloc_trim`` of glibc is missing.
    """
    with suppress(OSError, AttributeError):
        if resident_bytes() > above_bytes:
            ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Return the memory of this process. Raises ``OSError`` on systems other than Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
