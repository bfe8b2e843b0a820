"""Every measurement explains its command line."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    path.stem
    for path in (ROOT / "bench").glob("*.py")
    if "__main__" in path.read_text() and path.stem not in {"client", "senders", "processes"}
)
"""Without the programs that measurements start themselves."""

COMMANDS.append("peers")  # a package


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    def run(command: str) -> str:
        monkeypatch.setattr(sys, "argv", [command, "--help"])
        monkeypatch.delitem(sys.modules, f"bench.{command}", raising=False)  # run, not only imported
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("bench" if command == "__main__" else f"bench.{command}", None, "__main__", alter_sys=True)
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_the_measurement_and_each_argument(command: str, help_of: Callable[[str], str]) -> None:
    text = help_of(command)
    arguments = re.findall(r"^  (?!-h)(\S.*(?:\n {4,}\S.*)*)$", text.partition("arguments:")[2], re.MULTILINE)

    assert text.startswith(f"usage: python -m bench{'' if command == '__main__' else '.' + command} ")
    assert len(text.split("\n\n")[1]) > 40, "what is measured"
    assert [line for line in arguments if not re.search(r"(?: {2,}|\n +)\S", line)] == []
