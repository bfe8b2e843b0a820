"""The command line as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from clearspan.embedded.ports import free_port


def test_sigterm_is_handled_by_a_command_that_waits_so_that_it_ends_as_first_process_of_a_container_too() -> None:
    environment = {**os.environ, "CLEARSPAN_CLICKHOUSE__PORT": str(free_port())}
    with subprocess.Popen(
        [sys.executable, "-m", "clearspan", "migrate"], env=environment, stderr=subprocess.PIPE, text=True
    ) as migrate:
        assert migrate.stderr is not None
        assert '"waiting"' in migrate.stderr.readline()

        migrate.send_signal(signal.SIGTERM)

        _, said = migrate.communicate(timeout=10)
    assert migrate.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in said
