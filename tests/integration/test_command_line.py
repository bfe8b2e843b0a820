"""The command line as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from clearspan.embedded.ports import free_port


def test_sigterm_ends_a_command_that_waits() -> None:
    environment = {**os.environ, "CLEARSPAN_CLICKHOUSE__PORT": str(free_port())}
    with subprocess.Popen(
        [sys.executable, "-m", "clearspan", "migrate"], env=environment, stderr=subprocess.PIPE, text=True
    ) as migrate:
        assert migrate.stderr is not None
        assert '"Waiting."' in migrate.stderr.readline()

        migrate.send_signal(signal.SIGTERM)

        _, error_output = migrate.communicate(timeout=10)
    assert migrate.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in error_output
