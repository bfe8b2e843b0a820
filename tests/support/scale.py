"""How much a test does: little in ``make test``, more in ``make test-long``, much in ``make test-full``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest

Number = TypeVar("Number", int, float)

IS_FULL: Final = os.environ.get("HYPOTHESIS_PROFILE") == "full"


def scaled(small: Number, large: Number) -> Number:
    """Return ``large`` in ``make test-full``, else ``small``. The test is marked ``scaled``."""
    return large if IS_FULL else small


def rest_is_long(values: Iterable[Any]) -> list[Any]:
    """Return values for ``parametrize``: ``make test`` runs the first one, ``make test-long`` the others."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.long) for value in others)]


def few_and_many(few: int, many: int) -> list[Any]:
    """Return counts for ``parametrize``: ``few`` in ``make test``, ``many`` in ``make test-long``, in ``make test-full``
    as many as the profile of hypothesis says, if that is more.
    """
    from hypothesis import settings

    return rest_is_long([few, max(many, settings().max_examples if IS_FULL else 0)])
