"""Hints if no installation is found, and how texts of other programs are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan.console import report_failures
from clearspan.embedded.layout import Layout, Running, hold
from clearspan.environment import read_settings
from clearspan.program import called
from common.errors import InvalidInput, ServiceError, Unavailable
from common.printable import printable

AWAY = Unavailable("Postgres is unavailable: nobody listens")
NO_STACK = "No embedded stack runs in"


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    return tmp_path


def error_output(capsys: pytest.CaptureFixture[str], failure: ServiceError) -> str:
    """Return what a command prints that fails with ``failure``."""

    async def fail() -> None:
        raise failure

    assert report_failures(fail(), read_settings(), "postgres") == 1
    return capsys.readouterr().err


def test_without_stack_and_setting_the_message_names_both(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_output(capsys, AWAY) == (
        f"clearspan: Postgres is unavailable: nobody listens\n{NO_STACK} {data_dir}: `{called('up --detach')}` starts one, and "
        "CLEARSPAN_POSTGRES__… names a server.\n"
    )


def test_configured_server_gets_no_hint_about_the_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_POSTGRES__DSN", "postgresql://user@db.example/clearspan")

    assert NO_STACK not in error_output(capsys, AWAY)


def test_running_stack_gets_no_hint_about_the_stack(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(data_dir)
    with hold(layout):
        Running(pid=1, api="a", worker="w", kafka="k", postgres="postgresql://user@db.example/clearspan").write(layout)

        assert NO_STACK not in error_output(capsys, AWAY)


def test_other_failure_gets_no_hint_about_the_stack(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_output(capsys, InvalidInput("No such project.")) == "clearspan: No such project.\n"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("\u2066a\u2069\u200f\u061c", "\\u2066a\\u2069\\u200f\\u061c"),
        ("a\u2028b\x85", "a\\u2028b\\x85"),
    ],
)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert printable(text) == escaped


@pytest.mark.parametrize("text", ["naïve", "שלום", "👩‍💻"])
def test_letters_of_every_script_are_printed_unchanged(text: str) -> None:
    assert printable(text) == text


def test_kept_characters_are_not_escaped() -> None:
    assert printable("a\n\tb", keep="\n") == "a\n\\x09b"


def test_failure_with_the_words_of_a_server_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = error_output(capsys, ServiceError("The broker says \x1b[2J\u202e\ud800."))

    assert shown == "clearspan: The broker says \\x1b[2J\\u202e\ufffd.\n"
