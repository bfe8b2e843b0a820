"""``docs/reliability.md`` lists every scenario and every guard, and each guard is where its mutation removes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.faults.mutations import MUTATIONS, Mutation
from tests.faults.scenarios.all import NAMES

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = " ".join((ROOT / "docs/reliability.md").read_text().split())


def test_page_lists_every_scenario() -> None:
    assert [name for name in NAMES if name.replace("_", " ") not in PAGE] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.guard)
def test_guard_is_on_the_page_and_in_the_code(mutation: Mutation) -> None:
    assert mutation.guard in PAGE
    assert [edit.file for edit in mutation.edits if edit.before not in (ROOT / edit.file).read_text()] == []
    assert set(mutation.scenarios) <= set(NAMES)
