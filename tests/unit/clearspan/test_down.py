"""``clearspan down``: during a start, after a kill, and while the stack drains."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearspan.embedded import commands, stack
from clearspan.embedded.children import write_children
from clearspan.embedded.guard import Child
from clearspan.embedded.layout import STOP_S, Layout, Running, Stopping, hold
from clearspan.environment import read_settings
from common.settings import Settings


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("CLEARSPAN_DATA_DIR", str(tmp_path))
    return Layout(tmp_path)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until it is ended."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running
        running.kill()


def a_stack(pid: int, *, stop_s: float = 10.0) -> Running:
    return Running(pid=pid, api="http://a", worker="http://w", kafka="k", postgres="p", stop_s=stop_s)


def test_process_id_of_a_killed_stack_is_not_signalled(layout: Layout, process: subprocess.Popen[bytes]) -> None:
    a_stack(process.pid).write(layout)

    with hold(layout):
        assert Running.read(layout) is None


def test_starting_stack_is_stopped_once_it_has_started(
    layout: Layout, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = threading.Event()

    def held(_layout: Layout) -> bool:
        checked.set()
        return True

    monkeypatch.setattr(commands, "is_held", held)

    with hold(layout):
        write_children(layout, [Child.of("postgres", process.pid)])
        stopping = threading.Thread(target=commands.down, args=[read_settings()])
        stopping.start()
        assert checked.wait(10.0)
        assert process.poll() is None
        a_stack(process.pid).write(layout)
        process.wait(10.0)
        stopping.join(10.0)

    assert not stopping.is_alive()
    assert layout.children.exists()


def test_down_fails_if_a_starting_stack_cannot_be_stopped(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "READY_TIMEOUT_S", 0.0)

    with hold(layout):
        assert commands.down(read_settings()) == 1

    assert "try again" in capsys.readouterr().err


def test_down_fails_if_the_stack_makes_no_progress(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "kill", lambda _pid, _signal: None)

    with hold(layout):
        a_stack(os.getpid(), stop_s=0.1).write(layout)
        assert commands.down(read_settings()) == 1

    assert "has made no progress for 0 s" in capsys.readouterr().err


def ended(_pid: int) -> bool:
    return False


def test_down_fails_if_the_stack_ends_unfinished(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "kill", lambda *_: Stopping().write(layout))
    monkeypatch.setattr(commands, "is_alive", ended)

    with hold(layout):
        a_stack(os.getpid()).write(layout)
        assert commands.down(read_settings()) == 1

    assert "before it was done" in capsys.readouterr().err


def test_stack_that_is_stopping_is_not_signalled_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda *_: signals.append(1))
    monkeypatch.setattr(commands, "is_alive", lambda _pid: not Stopping.read(layout).is_done)  # type: ignore[union-attr]
    monkeypatch.setattr(time, "sleep", lambda _s: Stopping(is_done=True).write(layout))

    with hold(layout):
        a_stack(os.getpid()).write(layout)
        Stopping().write(layout)
        assert commands.down(read_settings()) == 0

    assert signals == []
    assert capsys.readouterr().out.endswith("Stopped.\n")


def test_down_waits_while_the_stack_makes_progress(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    beats = iter(range(9, -1, -1))

    def sleep(_s: float) -> None:
        nonlocal now_s
        now_s += 6.0
        Stopping(is_done=not next(beats)).write(layout)

    monkeypatch.setattr(os, "kill", lambda *_: Stopping().write(layout))
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(commands, "is_alive", lambda _pid: not Stopping.read(layout).is_done)  # type: ignore[union-attr]

    with hold(layout):
        a_stack(os.getpid(), stop_s=10.0).write(layout)
        assert commands.down(read_settings()) == 0

    assert capsys.readouterr().out.endswith("Stopped.\n")


def test_stop_time_follows_the_settings() -> None:
    settings = Settings.model_validate({"query": {"budget_s": 100}, "ingest": {"shutdown_grace_s": 300}})

    assert stack.stop_s_max(Settings()) == STOP_S
    assert stack.stop_s_max(settings) > 100 + 300
