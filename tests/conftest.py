"""What all tests share: options, fixtures and guards. Marks say which outside system a test needs."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.support.fast_directory import directory_in_memory
from tests.support.process_guard import ProcessGuard
from tests.support.scale import IS_FULL
from tests.support.shares import files_of_share

pytest_plugins = [
    "tests.fixtures_clickhouse",
    "tests.fixtures_kafka",
    "tests.fixtures_postgres",
    "tests.fixtures_stack",
]

settings.register_profile("default", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

UNIT = Path(__file__).parent / "unit"
GUARD: Final = pytest.StashKey[ProcessGuard]()
MADE: Final = pytest.StashKey[Path]()
PARENT_POLL_S: Final = 0.5
_sleep: Final = time.sleep
"""Taken before a test replaces it: the thread that watches the parent runs during all tests."""
TOGETHER: Final = {
    "explorer": ("tests/explorer/",),
    "stack": tuple(
        f"tests/acceptance/test_{name}.py"
        for name in (
            *("client_commands", "feed", "mcp", "public_faces", "read_your_write"),
            *("rejected_records", "samples", "self_audit", "terminal"),
        )
    ),
    "kafka": (
        *(f"tests/acceptance/test_{name}.py" for name in ("stack_on_kafka", "worker_encodings", "worker_process")),
        *(f"tests/contract/test_{name}.py" for name in ("end_offsets", "kafka_stops", "record_source", "tail")),
        *(
            f"tests/integration/test_{name}.py"
            for name in (
                *("delivery_kafka", "embedded_broker", "group_membership", "header_names", "oversized_batch"),
                *("reset_offsets", "topic_again", "verify"),
            )
        ),
    ),
}
"""Files that share a server which is expensive to start: one process of pytest-xdist runs them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden", action="store_true", help="Rewrite golden files instead of comparing with them."
    )
    parser.addoption(
        "--end-with-parent",
        action="store_true",
        help="End the run when the process that started it ends.",
    )
    parser.addoption("--long", action="store_true", help="Run the tests marked `long`, and no others.")
    parser.addoption("--share", metavar="NUMBER/COUNT", help="Of these, run the files of one share, from 0/COUNT.")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Guard what this process starts: a whole run, or one process of pytest-xdist. Keep its files in memory."""
    config.stash[GUARD] = ProcessGuard()
    if config.option.basetemp is None and (directory := directory_in_memory()) is not None:
        config.option.basetemp = str(directory)
        config.stash[MADE] = directory
        config.stash[GUARD].remove_directory(directory)
    if config.getoption("--end-with-parent"):
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the processes that tests have left running; remove what the run kept in memory."""
    config.stash[GUARD].close()
    if (directory := config.stash.get(MADE, None)) is not None:
        shutil.rmtree(directory, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked ``long``; with ``--long`` all others. The profile ``full`` leaves out none."""
    if IS_FULL:
        return
    is_long = config.getoption("--long")
    chosen = [item for item in items if (item.get_closest_marker("long") is not None) is is_long]
    if share := config.getoption("--share"):
        files = files_of_share({item.path for item in chosen}, share)
        chosen = [item for item in chosen if item.path in files]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Leave what collection has made out of all further collections of garbage: it lives until the end."""
    gc.collect()
    gc.freeze()


class WholeGroups(LoadFileScheduling):  # type: ignore[misc] # pytest-xdist has no types
    """Gives each file to one process of pytest-xdist, and all files of a group of ``TOGETHER`` to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        groups = (name for name, files in TOGETHER.items() if nodeid.startswith(files))
        return next(groups, str(super()._split_scope(nodeid)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeGroups | None:
    """Schedule by file, as ``make test`` does, so that one process starts an expensive server, not every one."""
    return WholeGroups(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def process_guard(request: pytest.FixtureRequest) -> ProcessGuard:
    """End the processes of this test process when it is killed."""
    return request.config.stash[GUARD]


@pytest.fixture(scope="session", autouse=True)
def _temporary_directories_go_with_a_killed_run(
    process_guard: ProcessGuard, tmp_path_factory: pytest.TempPathFactory
) -> None:
    process_guard.remove_directory(tmp_path_factory.getbasetemp())


def _end_with_parent(parent_pid: int) -> None:
    """Send SIGTERM to this process when its parent is gone: after SIGKILL the parent cannot."""
    while os.getppid() == parent_pid:
        _sleep(PARENT_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def _unit_tests_stay_inside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a unit test that connects to anything; hide the settings of the environment from every test."""
    for name in [name for name in os.environ if name.startswith("CLEARSPAN_")]:
        monkeypatch.delenv(name)
    if request.path.is_relative_to(UNIT) and "aiohttp_client" not in request.fixturenames:

        def refuse(_socket: socket.socket, address: object) -> None:
            pytest.fail(f"a unit test connects to {address}")

        monkeypatch.setattr(socket.socket, "connect", refuse)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that this machine could not run, with the reason."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    if reasons:
        terminalreporter.section("not run on this machine")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count:4d}  {reason}")
