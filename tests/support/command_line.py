"""The command line in the process of the test: a command then takes milliseconds instead of the start of a Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from clearspan.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str


RunCommand = Callable[..., Ended]


def runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: Mapping[str, str]
) -> RunCommand:
    """Return a function that runs ``clearspan`` with arguments, in the given environment. Not inside an event loop."""
    for name in [name for name in os.environ if name.startswith("CLEARSPAN_")]:
        monkeypatch.delenv(name)
    for name in (name for name in environment if name.startswith("CLEARSPAN_")):
        monkeypatch.setenv(name, environment[name])

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return run
