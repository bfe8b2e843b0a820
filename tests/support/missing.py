"""What a machine lacks: said in words on a laptop, a failure in CI, where nothing may be missing but a container engine."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test that asks, for this reason; with ``CI=true`` fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing on a machine that must have it: {reason}")
    pytest.skip(reason)
