"""``clearspan completion``: its options."""

from __future__ import annotations

from typing import Any, Final

from clearspan.commands.options import add_command

DESCRIPTION: Final = """\
Print a script that completes commands and options with the Tab key.
"""
EXAMPLES: Final = """\
in bash, for this shell; add it to ~/.bashrc for all
  source <(clearspan completion bash)

in zsh, for all shells
  clearspan completion zsh > ~/.zfunc/_clearspan      in a directory that fpath lists, before compinit runs
"""


def add(commands: Any) -> None:
    """Add the command."""
    texts = {"description": DESCRIPTION, "epilog": EXAMPLES}
    summary = "print a script for the completion of your shell"
    completion = add_command(commands, "completion", "clearspan.completion:completion", summary, **texts)
    completion.add_argument("shell", choices=("bash", "zsh"), help="the shell")
