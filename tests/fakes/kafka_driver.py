"""Fakes of the driver's clients that remember how they were created."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Self

import pytest


class RememberedDriver:
    """A client of the driver that remembers its options, and whether it was stopped."""

    made: ClassVar[list[Any]]
    """All clients of a test, in the order of creation."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.is_stopped = False
        self.made.append(self)

    async def stop(self) -> None:
        self.is_stopped = True

    @classmethod
    def in_place_of(cls, name: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Self]:
        """Replace the class ``name`` in ``module``; return the list of the clients that are created from now on."""
        made: list[Self] = []
        monkeypatch.setattr(cls, "made", made, raising=False)
        monkeypatch.setattr(module, name, cls)
        return made
