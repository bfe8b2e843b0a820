"""Packages that libraries import if they are installed, and that Clearspan does not need."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.abc import MetaPathFinder
from typing import Any, Final

FOR_DATA_FRAMES: Final = frozenset({"pandas"})
"""Arrow imports pandas to check whether a list is a pandas object: a second, and 31 MiB. chDB installs it. No process
needs it."""

FOR_TERMINALS: Final = frozenset({"greenlet", "rich"})
"""structlog imports them: 4 MiB. Client commands print with rich; processes that only compute do not."""


class _Finder(MetaPathFinder):
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, _path: Any, _target: Any = None, /) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(fullname, name=fullname)


def leave_out(names: Collection[str]) -> None:
    """Make these packages look as if they were not installed. To be called before anything imports one."""
    sys.meta_path.insert(0, _Finder(names))
