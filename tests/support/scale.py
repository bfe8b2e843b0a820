"""How much a test marked ``scaled`` does: little in ``make test``, much in ``make test-long``."""

from __future__ import annotations

import os
from typing import Final, TypeVar

Number = TypeVar("Number", int, float)

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def scaled(small: Number, large: Number) -> Number:
    """Return ``large`` in ``make test-long``, else ``small``."""
    return large if IS_LONG else small
