"""Jaeger 1.76 with badger: its all-in-one program, which keeps spans in files of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from bench.peers.jaeger_api import jaeger_queries
from bench.peers.peer import GoProgram, PeerQuery
from bench.queries import Stored
from tests.support.metrics import metric
from tests.support.ports import free_port

QUEUE_SPANS: Final = 2_000
"""Jaeger's default. It refuses requests while its queue is full; the sender sends them again."""

UNUSED: Final = (
    "collector.grpc-server.host-port",
    "collector.http-server.host-port",
    "collector.otlp.grpc.host-port",
    "query.grpc-server.host-port",
)
"""Listeners that are moved away from their default ports, which other programs use."""

DROPPED: Final = "jaeger_collector_spans_dropped_total"


class Jaeger:
    """A run of Jaeger. It writes without waiting for the disk."""

    title: ClassVar[str] = "Jaeger, badger"
    source: ClassVar[GoProgram] = GoProgram("github.com/jaegertracing/jaeger/cmd/all-in-one", "v1.76.0")
    quiet_s: ClassVar[float] = 3.0

    def __init__(self, data: Path) -> None:
        self._data = data
        self._intake, self._query, self._admin = (f"127.0.0.1:{free_port()}" for _ in range(3))

    def arguments(self) -> Sequence[str]:
        options = {name: f"127.0.0.1:{free_port()}" for name in UNUSED}
        options |= {
            "collector.otlp.http.host-port": self._intake,
            "query.http-server.host-port": self._query,
            "admin.http.host-port": self._admin,
            "badger.ephemeral": "false",
            "badger.directory-key": str(self._data / "keys"),
            "badger.directory-value": str(self._data / "values"),
            "collector.queue-size": str(QUEUE_SPANS),
        }
        return [f"--{name}={value}" for name, value in options.items()]

    def environment(self) -> Mapping[str, str]:
        return {"SPAN_STORAGE_TYPE": "badger"}

    def intake_url(self) -> str:
        return f"http://{self._intake}/v1/traces"

    def ready_url(self) -> str:
        return f"http://{self._query}/api/services"

    def query_address(self) -> str:
        return self._query

    def dropped_count(self) -> int:
        return round(metric(f"http://{self._admin}", DROPPED))

    def queries(self, stored: Stored) -> Mapping[str, PeerQuery]:
        return jaeger_queries("", stored)
