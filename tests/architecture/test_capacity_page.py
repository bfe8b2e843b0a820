"""What ``docs/capacity.md`` shows is what ``clearspan plan`` prints, with the figures that the program has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from clearspan.capacity import figures
from clearspan.cli import main

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "capacity.md").read_text()
RUNS: Final = re.findall(r"```bash\nclearspan (plan .*?)\n```\n\n```text\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("typed", "shown"), RUNS)
def test_commands_of_the_page_print_what_it_shows(typed: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(shlex.split(typed))

    printed = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
    assert printed == shown.splitlines()


def test_page_has_runs() -> None:
    assert len(RUNS) == 3


def test_figures_of_the_page_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) (µs|B) \| ([\d.]+) (?:µs|B) \|$", PAGE, re.MULTILINE)

    assert rows == [
        (each.meaning, f"{each.plain:.1f}".removesuffix(".0"), each.unit, f"{each.llm:.1f}".removesuffix(".0"))
        for each in figures.FIGURES
    ]
    assert figures.DATE in PAGE
    assert figures.MACHINE in PAGE


def test_figures_of_the_program_are_those_that_were_measured() -> None:
    """Who measures again changes ``clearspan/capacity/figures.py``, too."""
    measured = (DOCS / "performance.md").read_text().replace("\n", " ")

    assert [source for source in figures.SOURCES if source not in measured] == []
