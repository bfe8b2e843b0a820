"""``clearspan up --detach`` and ``status``: failures, and stacks that already start or run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from clearspan.embedded import commands
from clearspan.embedded.layout import Layout, Running, hold
from clearspan.environment import read_settings
from clearspan.program import called

A_STACK = Running(pid=1, api="http://a", worker="http://w", kafka="k", postgres="p")


@pytest.mark.parametrize("detach", [False, True])
def test_data_directory_that_is_a_file_is_reported(
    detach: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / "file"))

    assert commands.up(read_settings(), detach=detach) == 1

    assert f"CLEARSPAN_DATA_DIR is {tmp_path / 'file'}, which cannot be written to" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a,b", 'a"b', "$(touch pwned)", "a`b", "what?", "a\\b", "a\nb"])
@pytest.mark.parametrize("detach", [False, True])
def test_illegal_path_of_the_data_directory_is_rejected(
    detach: bool,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path / name / "data"))

    assert commands.up(read_settings(), detach=detach) == 1

    assert 'any character except , " $ ` ? \\, control characters' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_failed_start_prints_the_end_of_its_own_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", "print('no luck today')"], stdout=options["stdout"])

    popen = subprocess.Popen
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", fail)
    Layout(tmp_path).log.write_text("no luck yesterday\n")

    assert commands.up(read_settings(), detach=True) == 1

    error_output = capsys.readouterr().err
    assert "no luck today" in error_output
    assert "yesterday" not in error_output


def test_status_of_a_starting_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    layout = Layout(tmp_path)

    assert commands.status(read_settings()) == 1
    with hold(layout):
        assert commands.status(read_settings()) == 1

    assert capsys.readouterr().out.splitlines() == [
        f"Clearspan is not running. `{called('up --detach')}` starts it.",
        "Clearspan is starting.",
    ]


def test_status_names_the_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(commands, "_waiting_for", lambda _running: "")
    layout = Layout(tmp_path)

    with hold(layout):
        replace(A_STACK, topics=["traces", "agents"]).write(layout)
        assert commands.status(read_settings()) == 0

    assert "(topics traces, agents)" in capsys.readouterr().out


@pytest.mark.parametrize(("auth", "keys"), [("on", 1), ("off", 0)])
def test_example_commands_have_a_key_if_authentication_is_on(
    auth: Literal["on", "off"],
    keys: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(commands, "_waiting_for", lambda _running: "")
    layout = Layout(tmp_path)

    with hold(layout):
        replace(A_STACK, auth=auth).write(layout)
        assert commands.status(read_settings()) == 0

    printed = capsys.readouterr().out
    assert printed.count("-H 'authorization: ApiKey KEY'") == keys
    assert printed.count("export CLEARSPAN_KEY=KEY") == keys


class TestBesideAnotherStack:
    @pytest.fixture
    def layout(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
        monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
        monkeypatch.setattr(commands, "_waiting_for", lambda _running: "")
        return Layout(tmp_path)

    def test_starting_stack_is_awaited_and_left_as_it_is(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(subprocess, "Popen", lambda *_args, **_kwargs: pytest.fail("started a second one"))
        monkeypatch.setattr(time, "sleep", lambda _seconds: A_STACK.write(layout))

        with hold(layout):
            assert commands.up(read_settings(), detach=True) == 0

        assert "nothing was changed" in capsys.readouterr().out

    def test_up_fails_if_the_running_stack_is_not_ready(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(commands, "_waiting_for", lambda _running: "The API does not answer yet.")
        monkeypatch.setattr(commands, "READY_TIMEOUT_S", 0.0)

        with hold(layout):
            A_STACK.write(layout)
            assert commands.up(read_settings(), detach=True) == 1

        assert "is not ready" in capsys.readouterr().err

    def test_status_says_what_the_stack_waits_for_and_suggests_nothing(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(commands, "_waiting_for", lambda _running: "The API waits: ClickHouse is unavailable.")

        with hold(layout):
            A_STACK.write(layout)
            assert commands.status(read_settings()) == 1

        assert capsys.readouterr().out == (
            f"Clearspan is running as process {A_STACK.pid}, but is not ready yet."
            " The API waits: ClickHouse is unavailable.\n"
        )

    def test_stack_that_started_first_is_left_as_it_is(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def start(*_arguments: object, **_options: object) -> subprocess.Popen[bytes]:
            held.enter_context(hold(layout))
            A_STACK.write(layout)
            return popen([sys.executable, "-c", "pass"])

        popen = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", start)

        with ExitStack() as held:
            assert commands.up(read_settings(), detach=True) == 0

        assert "nothing was changed" in capsys.readouterr().out


def test_env_prints_the_address_of_the_running_stack_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CLEARSPAN_URL", "http://another.example")
    layout = Layout(tmp_path)

    with hold(layout):
        replace(A_STACK, api="http://[::1]:8090").write(layout)
        assert commands.env(read_settings()) == 0

    printed = capsys.readouterr().out
    shell = subprocess.run(
        ["bash", "-c", f"{printed}\nenv"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    assert "CLEARSPAN_URL=http://[::1]:8090" in shell.stdout.splitlines()


def test_env_prints_nothing_for_a_shell_if_no_stack_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))

    assert commands.env(read_settings()) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"clearspan: No embedded stack runs in {tmp_path}: `{called('up --detach')}` starts one.\n"
