"""Packages that are left out look as if they were not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PROGRAM: Final = """
import pyarrow as pa
from common.left_out import FOR_DATA_FRAMES, FOR_TERMINALS, leave_out
leave_out(FOR_DATA_FRAMES | FOR_TERMINALS)
for name in ("greenlet", "pandas", "rich"):
    try:
        __import__(name)
    except ModuleNotFoundError as exc:
        assert exc.name == name
    else:
        raise AssertionError(name)
assert pa.array([1, None]).to_pylist() == [1, None]  # Arrow goes on without pandas
"""


def test_packages_that_are_left_out_cannot_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
