"""``clearspan completion``: a script that lets a shell complete commands and options."""

from __future__ import annotations

import shtab

from clearspan.cli import make_parser
from common.settings import Settings


def completion(_settings: Settings, *, shell: str) -> int:
    """Print the script for a shell."""
    parser = make_parser()
    for command in parser.with_all_below():
        command.description = command.summary  # which a shell shows next to the command
    print(shtab.complete(parser, shell=shell))
    return 0
