"""A directory in memory for the files of a test run: servers of tests sync files, and nothing has to survive a power cut."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import psutil

IN_MEMORY: Final = Path("/dev/shm")
FREE_BYTES_MIN: Final = 8 << 30
"""A run keeps at most a quarter of that there."""


def directory_in_memory() -> Path | None:
    """Return the path of a new directory in memory, or ``None`` if this machine has none, or too little memory."""
    if not IN_MEMORY.is_dir():
        return None
    free_bytes = min(shutil.disk_usage(IN_MEMORY).free, psutil.virtual_memory().available)
    return IN_MEMORY / f"clearspan-tests-{os.getpid()}" if free_bytes >= FREE_BYTES_MIN else None
