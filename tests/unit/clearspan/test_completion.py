"""The completion that a shell loads knows the commands and their options."""

from __future__ import annotations

import subprocess

import pytest

from clearspan.processes import completion
from common.settings import Settings


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert completion.run(Settings(), shell=shell) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["clearspan", "que"], ["query"]),
        (["clearspan", "query", "--sor"], ["--sort"]),
        (["clearspan", "applications", "d"], ["diff"]),
        (["clearspan", "groups", "--order", "asc"], ["ascending"]),
        (["clearspan", "completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes(words: list[str], completed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    quoted = " ".join(words)
    press_tab = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _shtab_clearspan; echo ${{COMPREPLY[@]}}"
    shell = subprocess.run(
        ["bash", "-c", script("bash", capsys) + press_tab], capture_output=True, text=True, check=True, timeout=20
    )

    assert shell.stdout.split() == completed


def test_zsh_script_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("zsh", capsys)

    assert text.startswith("#compdef clearspan")
    assert "applications:'read the history of applications'" in text
