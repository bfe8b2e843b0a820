"""Work that can pause: a generator that yields where it may, and returns the result (``common/time_slices.py``)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Steps: TypeAlias = Generator[None, None, Result]
"""Work in steps, each of which takes at most a few milliseconds, whatever its input."""


def finished(steps: Steps[Result]) -> Result:
    """Run all steps at once; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
