"""The program itself: how a person calls it here, for hints that can be typed as they are; and its version."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Final

NAME: Final = "clearspan"


def called(arguments: str) -> str:
    """Return a command of this program as it can be typed here, such as ``.venv/bin/clearspan up --detach``.

    The name is enough if the shell finds this program by it; else it is a path, relative if it is in the working
    directory.
    """
    return f"{_program()} {arguments}"


def _program() -> str:
    this = Path(sys.argv[0])
    if this.name != NAME:  # python -m clearspan
        this = Path(sys.executable).with_name(NAME)
    if not this.exists():
        return f"{_typed(Path(sys.executable))} -m {NAME}"
    found = shutil.which(NAME)
    return NAME if found is not None and this.samefile(found) else _typed(this)


def _typed(path: Path) -> str:
    path = path.absolute()
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


class ShowVersion(argparse.Action):
    """The option that prints the version of Clearspan and of Python, and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: Any, **_options: Any) -> None:
        """Print both."""
        from importlib.metadata import version  # noqa: PLC0415 - other options should not wait for it

        print(f"{NAME} {version(NAME)} (Python {sys.version.split()[0]})")
        parser.exit()
