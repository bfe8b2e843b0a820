"""The memory of a process and its children."""

from __future__ import annotations

from contextlib import suppress

import psutil


def memory_bytes(process_id: int) -> int:
    """Return the memory of a process and its children now; pages that they share count once."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process_id)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().pss
    return total
