"""The command line as a process."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from clearspan.embedded.ports import free_port


def test_sigterm_ends_a_command_that_waits() -> None:
    environment = {**os.environ, "CLEARSPAN_CLICKHOUSE__PORT": str(free_port())}
    with subprocess.Popen(
        [sys.executable, "-m", "clearspan", "migrate"], env=environment, stderr=subprocess.PIPE, text=True
    ) as migrate:
        assert migrate.stderr is not None
        assert '"Waiting."' in migrate.stderr.readline()

        migrate.send_signal(signal.SIGTERM)

        _, error_output = migrate.communicate(timeout=120)
    assert migrate.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in error_output


@pytest.mark.parametrize(
    ("command", "output", "code", "message"),
    [
        ("prices", "> /dev/full", 1, "clearspan: standard output: No space left on device."),
        ("settings", "| true", 141, ""),
        ("prices --model none", "", 3, "clearspan: 'none' is not in the table"),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(command: str, output: str, code: int, message: str) -> None:
    python = shlex.quote(sys.executable)
    script = f"(sleep 0.3; {python} -m clearspan {command}) {output}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)

    assert ended.returncode == code
    assert ended.stderr.startswith(message)
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
