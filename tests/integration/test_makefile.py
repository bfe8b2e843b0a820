"""What the Makefile installs, with a Python that only records its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = '#!/bin/sh\necho "$@" >> "$(dirname "$0")/notes"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which ``make test`` has installed everything before."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements/embedded.txt", "requirements/dev.txt", "pyproject.toml", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(NOTES)
        os.utime(tmp_path / name, (1_000, 1_000))
    (tmp_path / ".venv/bin/python").chmod(0o755)
    for stamp in ("dev", "embedded"):
        (tmp_path / ".venv" / stamp).touch()
        os.utime(tmp_path / ".venv" / stamp, (2_000, 2_000))
    return tmp_path


def _installed(checkout: Path) -> list[str]:
    made = subprocess.run(["make", ".venv/embedded"], cwd=checkout, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    notes = checkout / ".venv/bin/notes"
    return [line for line in notes.read_text().splitlines() if "--require-hashes" in line] if notes.exists() else []


def test_changed_pins_are_installed_even_after_the_test_tools(checkout: Path) -> None:
    (checkout / "requirements/embedded.txt").touch()

    assert len(_installed(checkout)) == 1


def test_packages_of_the_test_tools_are_not_installed_again(checkout: Path) -> None:
    (checkout / "pyproject.toml").touch()

    assert _installed(checkout) == []
