"""How much a test marked ``scaled`` does: little in ``make test``, much in ``make test-full``."""

from __future__ import annotations

import os
from typing import Final, TypeVar

Number = TypeVar("Number", int, float)

IS_FULL: Final = os.environ.get("HYPOTHESIS_PROFILE") == "full"


def scaled(small: Number, large: Number) -> Number:
    """Return ``large`` in ``make test-full``, else ``small``."""
    return large if IS_FULL else small
