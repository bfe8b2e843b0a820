"""VictoriaTraces, the single-node program: OTLP/HTTP in; Jaeger's query API and LogsQL out.

A span is stored in a stream of its service and name, with the end of the span as its time
(https://docs.victoriametrics.com/victoriatraces/keyconcepts/).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlencode

from bench.peers.jaeger_api import jaeger_queries
from bench.peers.peer import GoProgram, PeerQuery
from bench.queries import OPERATION, Stored, operation_of, service_of
from tests.support.metrics import metric
from tests.support.ports import free_port

OPERATION_SPANS_LIMIT: Final = 50
DROPPED: Final = "vt_rows_dropped_total"


class VictoriaTraces:
    """A run of VictoriaTraces. It writes every five seconds, without waiting for the disk."""

    title: ClassVar[str] = "VictoriaTraces"
    source: ClassVar[GoProgram] = GoProgram("github.com/VictoriaMetrics/VictoriaTraces/app/victoria-traces", "v0.12.0")
    quiet_s: ClassVar[float] = 6.0

    def __init__(self, data: Path) -> None:
        self._data = data
        self._address = f"127.0.0.1:{free_port()}"

    def arguments(self) -> Sequence[str]:
        return [f"-storageDataPath={self._data}", f"-httpListenAddr={self._address}"]

    def environment(self) -> Mapping[str, str]:
        return {}

    def intake_url(self) -> str:
        return f"http://{self._address}/insert/opentelemetry/v1/traces"

    def ready_url(self) -> str:
        return f"http://{self._address}/health"

    def query_address(self) -> str:
        return self._address

    def dropped_count(self) -> int:
        return round(metric(f"http://{self._address}", DROPPED))

    def queries(self, stored: Stored) -> Mapping[str, PeerQuery]:
        def spans(draw: random.Random) -> str:
            stream = f'{{resource_attr:service.name="{service_of(draw)}",name="{operation_of(draw)}"}}'
            window = {"start": stored.oldest_us * 1_000, "end": stored.newest_us * 1_000}
            return "/select/logsql/query?" + urlencode({"query": stream, "limit": OPERATION_SPANS_LIMIT, **window})

        # LogsQL has a query of spans: the newest that match, one line of JSON each.
        by_operation = PeerQuery(spans, lambda body: len(body.splitlines()), OPERATION_SPANS_LIMIT)
        return {**jaeger_queries("/select/jaeger", stored), OPERATION: by_operation}
