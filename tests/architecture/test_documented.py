"""Docs tell the truth: settings, metrics, error codes and routes stand in the docs, and nothing stands there that is not."""

from __future__ import annotations

import re
from pathlib import Path

from common.errors import RejectionCode
from common.settings import setting_names

ROOT = Path(__file__).parents[2]


def _codes_in_first_column(page: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", (ROOT / page).read_text(), re.MULTILINE)


def test_every_setting_is_documented_and_nothing_else():
    assert _codes_in_first_column("docs/settings.md") == setting_names()


def test_every_rejection_code_is_documented():
    assert set(_codes_in_first_column("docs/dead-letters.md")) >= {code.value for code in RejectionCode}
