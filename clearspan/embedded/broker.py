"""The embedded broker as a child process, which is started again if it dies (``broker_server``, ADR 0002)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Final

from clearspan.embedded.guard import Child
from clearspan.embedded.layout import Layout, StackError
from clearspan.embedded.ports import LOOPBACK, free_port
from common.settings import Settings

START_TIMEOUT_S: Final = 30.0
"""It reads the last segments of each partition when it starts."""

STOP_TIMEOUT_S: Final = 5.0


class EmbeddedBroker:
    """A broker whose records outlive its process."""

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._log = layout.broker_log
        self._port = settings.kafka_port or free_port()
        self._options = {
            "port": self._port,
            "directory": str(layout.broker),
            "bytes_max": settings.embedded_broker_bytes_max,
            "group": settings.kafka.group,
            "topics": sorted(settings.kafka.topics),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap: Final = f"{LOOPBACK}:{self._port}"

    async def start(self) -> None:
        """Start the process, and return when it accepts connections. Raises ``StackError``."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - no user input; returns at once
                [sys.executable, "-m", "clearspan.embedded.broker_server.server", json.dumps(self._options)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await _accepts(self._port):
                    if not self.is_alive():
                        raise StackError(f"The broker ended immediately; {self._log} says why.")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise StackError(f"The broker did not start within {START_TIMEOUT_S:g} s; {self._log} says why.") from None

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[Child]:
        """Return the broker's process, if it runs."""
        return [Child.of("broker", self._process.pid)] if self._process is not None and self.is_alive() else []

    async def close(self) -> None:
        """End the process. Safe to call twice."""
        await asyncio.to_thread(self._stop_process)

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


async def _accepts(port: int) -> bool:
    """Return whether something accepts connections on the port."""
    try:
        _reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True
