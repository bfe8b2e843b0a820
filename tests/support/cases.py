"""Cases of one test: a loop costs a hundredth of as many tests, and a failure still names its case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*values: object) -> Iterator[None]:
    """Add the values to what fails inside."""
    try:
        yield
    except BaseException as exc:
        exc.add_note(f"case: {', '.join(map(str, values))}")
        raise
