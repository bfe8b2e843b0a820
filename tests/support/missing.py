"""What a machine lacks: a reason to skip on a laptop, a failure in CI, where only a container engine may be missing."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the calling test for this reason; fail it if ``CI=true``."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing on a machine that must have it: {reason}")
    pytest.skip(reason)
