"""Classes in the place of the driver's, which remember what was asked of them."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Self

import pytest


class RememberedDriver:
    """One of the driver's clients: with which options it was made, and whether it was stopped."""

    made: ClassVar[list[Any]]
    """All of a test, in the order in which they were made."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.is_stopped = False
        self.made.append(self)

    async def stop(self) -> None:
        self.is_stopped = True

    @classmethod
    def in_place_of(cls, name: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Self]:
        """Those that are made from now on where the module makes one of that name."""
        made: list[Self] = []
        monkeypatch.setattr(cls, "made", made, raising=False)
        monkeypatch.setattr(module, name, cls)
        return made
