"""Packages that libraries import if they are installed, and that no process of Clearspan needs."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any, Final

LEFT_OUT: Final = frozenset({"greenlet", "pandas", "rich"})
"""Arrow imports pandas to check whether a list is a pandas object: a second, and 31 MiB in each process. chDB installs
it. structlog imports rich to colour the log, which is not coloured here, and greenlet: 4 MiB."""


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, _path: Any, _target: Any = None, /) -> None:
        if fullname in LEFT_OUT:
            raise ModuleNotFoundError(fullname, name=fullname)


def leave_out() -> None:
    """Make these packages look as if they were not installed. Before anything imports one; safe to call twice."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
