"""A share of the long tests: every file is in exactly one, so that all shares together run everything."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


def files_of_share(files: Collection[Path], share: str) -> frozenset[Path]:
    """Return the files of the share ``NUMBER/COUNT``, such as ``2/6``; numbers begin at 0."""
    number, count = (int(part) for part in share.split("/"))
    if not 0 <= number < count:
        raise ValueError(f"--share: '{share}' is not NUMBER/COUNT with a number from 0 to COUNT - 1")
    return frozenset(sorted(files)[number::count])
