"""The guard of the embedded stack: which processes it ends, and what happens if it is killed itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import psutil
import pytest
from structlog.testing import capture_logs

from clearspan.embedded.children import Guard, end_left_over, write_children
from clearspan.embedded.guard import Child, identity_of
from clearspan.embedded.layout import Layout, write_json

CLOCK_STEP_S: Final = 3.0
GUARD_AFTER_THE_CLOCK_WAS_SET: Final = f"""
import psutil
boot_s = psutil._psplatform.boot_time()
psutil._psplatform.boot_time = lambda: boot_s + {CLOCK_STEP_S}
from clearspan.embedded.guard import main
main()
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until it is ended. A thread waits for it, as init does for what a killed stack has started."""
    with a_process("sleep") as running:
        threading.Thread(target=running.wait).start()
        yield running
        running.kill()


def a_process(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([program, "600"])


def set_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let psutil read what the kernel says after the clock was set: another time of the boot."""
    boot_s = psutil.boot_time()
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: boot_s + CLOCK_STEP_S)


def test_child_left_over_is_ended_after_the_clock_was_set(
    process: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path)
    child = Child.of("broker", process.pid)
    write_children(layout, [child])
    set_clock(monkeypatch)

    assert end_left_over(layout) == [child]

    process.wait(10.0)


def test_guard_ends_a_child_after_the_clock_was_set(process: subprocess.Popen[bytes]) -> None:
    children = [asdict(Child.of("broker", process.pid))]

    subprocess.run(
        [sys.executable, "-c", GUARD_AFTER_THE_CLOCK_WAS_SET], input=json.dumps(children).encode() + b"\n", check=True
    )

    process.wait(10.0)


def test_later_process_with_the_same_id_is_not_ended(process: subprocess.Popen[bytes]) -> None:
    earlier = Child("broker", process.pid, identity_of(os.getpid()))

    assert not earlier.end()

    assert process.poll() is None


def test_child_that_has_ended_is_not_ended_again(process: subprocess.Popen[bytes]) -> None:
    child = Child.of("broker", process.pid)
    process.kill()
    process.wait()

    assert not child.end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_name_of_a_program_does_not_matter(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    shutil.copy(shutil.which("sleep") or "", program)
    with a_process(str(program)) as named:
        try:
            identities = [identity_of(os.getpid()), identity_of(named.pid)]
        finally:
            named.kill()

    starts = [int(identity.rpartition("/")[2]) for identity in identities]

    assert 0 < starts[1] - starts[0] < 3600 * os.sysconf("SC_CLK_TCK")


def test_list_of_an_older_version_is_ignored(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    born = psutil.Process(process.pid).create_time()
    write_json(layout.children, [{"name": "broker", "pid": process.pid, "born": born}])

    assert end_left_over(layout) == []

    assert not layout.children.exists()


@pytest.fixture
def killed_guard(process: subprocess.Popen[bytes]) -> Guard:
    """A guard that watched ``process`` and was killed."""
    before = set(psutil.Process().children())
    guard = Guard()
    [started] = set(psutil.Process().children()) - before
    guard.watch([Child.of("broker", process.pid)])
    started.kill()
    while started.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    return guard


def test_killed_guard_is_replaced_when_the_children_change(
    killed_guard: Guard, process: subprocess.Popen[bytes]
) -> None:
    with capture_logs() as logs:
        killed_guard.watch([Child.of("postgres", process.pid)])
        killed_guard.close()

    assert process.wait(10.0) is not None
    assert [(line["log_level"], line.get("code")) for line in logs] == [("warning", -signal.SIGKILL)]


def test_killed_guard_is_replaced_by_one_with_the_same_children(
    killed_guard: Guard, process: subprocess.Popen[bytes]
) -> None:
    killed_guard.revive()
    killed_guard.close()

    process.wait(10.0)


def test_guard_that_cannot_be_started_is_started_later(
    killed_guard: Guard, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/missing")
        killed_guard.watch([Child.of("postgres", process.pid)])

    killed_guard.revive()
    killed_guard.close()

    process.wait(10.0)


def test_killed_guard_can_be_closed(
    killed_guard: Guard, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/missing")
    killed_guard.watch([Child.of("postgres", process.pid)])

    killed_guard.close()

    assert process.poll() is None
