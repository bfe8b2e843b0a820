"""Commands that find no installation: they say so where none is configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from clearspan.console import printable, run_on_postgres
from clearspan.embedded.layout import Layout, Running, hold
from common.errors import InvalidInput, ServiceError, Unavailable
from common.postgres.pool import Database

AWAY = Unavailable("Postgres is away: nobody listens")
NO_STACK = "No embedded stack runs in"


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], failure: ServiceError) -> str:
    """What a command says that fails with ``failure``."""

    async def fail(_database: Database) -> None:
        raise failure

    assert run_on_postgres(fail) == 1
    return capsys.readouterr().err


def test_without_a_stack_and_without_a_server_it_says_how_to_have_one(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, AWAY) == (
        f"clearspan: Postgres is away: nobody listens\n{NO_STACK} {data_dir}: `make up` starts one, and "
        "CLEARSPAN_POSTGRES__… names a server.\n"
    )


def test_a_server_that_is_configured_is_away_and_that_is_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_POSTGRES__DSN", "postgresql://user@db.example/clearspan")

    assert NO_STACK not in said(capsys, AWAY)


def test_a_stack_that_runs_is_not_denied(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(data_dir)
    with hold(layout):
        Running(pid=1, api="a", worker="w", kafka="k", postgres="postgresql://user@db.example/clearspan").write(layout)

        assert NO_STACK not in said(capsys, AWAY)


def test_another_failure_has_nothing_to_do_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, InvalidInput("No such project.")) == "clearspan: No such project.\n"


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
