"""What Python does, counted: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = tuple(f"{ROOT / package}/" for package in ("clearspan", "common", "ingest", "jobs", "query_api"))


def steps_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python ``work`` executes, in all functions that it calls; each turn of a loop counts."""
    steps = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


@contextmanager
def files_entered(begin: CodeType | None = None) -> Iterator[set[str]]:
    """Collect the files of the product whose functions this thread runs inside, by their paths in the project.

    Nothing is collected before ``begin`` is called, if it is given.
    """
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGES) and (entered or begin in {None, code}):
            entered.add(code.co_filename.removeprefix(f"{ROOT}/"))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)
