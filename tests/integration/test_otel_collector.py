"""A real OpenTelemetry Collector takes what a subscription sends, and passes it on unchanged.

The test needs a collector with the receiver `otlp` and the exporter `file`, as the distribution `otelcol-contrib` has
them; `OTELCOL_BINARY` names its binary.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.settings import ClickHouseSettings
from query_api.delivery.addresses import AddressRules
from query_api.delivery.targets.otlp import OtlpTarget
from query_api.delivery.targets.otlp_message import export_request
from tests.support.delivered import batch_of
from tests.support.ports import free_port
from tests.support.stored_samples import stored_samples

BINARY: Final = os.environ.get("OTELCOL_BINARY", "")
BATCH_SPANS: Final = 200
WITHIN_S: Final = 60.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not BINARY, reason="OTELCOL_BINARY does not name the binary of an OpenTelemetry Collector"),
]


def config_of(port: int, exported: Path) -> dict[str, Any]:
    """The configuration of a collector that writes each request to a file; JSON is YAML."""
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"file": {"path": str(exported), "format": "proto", "flush_interval": "50ms"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
        },
    }


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yields the address of a running collector, and the file to which it writes."""
    port, exported, log = free_port(), tmp_path / "exported", tmp_path / "collector.log"
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(config_of(port, exported)))
    with log.open("wb") as output:
        process = subprocess.Popen([BINARY, "--config", str(config)], stdout=output, stderr=output)
    try:
        _wait_until_listening(port, process, log)
        yield f"http://127.0.0.1:{port}", exported
    finally:
        process.terminate()
        process.wait()


def _wait_until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)
        else:
            return


def _target(url: str) -> OtlpTarget:
    return OtlpTarget(url, {}, ag=True, timeout_s=30.0, rules=AddressRules(private_addresses=True))


def requests_in(exported: Path) -> Iterator[ExportTraceServiceRequest]:
    """Each request in the file: its length in 4 bytes, then its bytes."""
    content = exported.read_bytes() if exported.exists() else b""
    begin = 0
    while begin + 4 <= len(content):
        (length,) = struct.unpack_from(">I", content, begin)
        if begin + 4 + length > len(content):  # it is being written
            return
        yield ExportTraceServiceRequest.FromString(content[begin + 4 : begin + 4 + length])
        begin += 4 + length


def spans_of(requests: Iterable[ExportTraceServiceRequest]) -> dict[str, tuple[str, str, str]]:
    """Each span as text, with its resource and scope, by its ids."""
    return {
        f"{span.trace_id.hex()} {span.span_id.hex()}": (
            f"{each.resource} {each.schema_url}",
            f"{scope.scope} {scope.schema_url}",
            str(span),
        )
        for request in requests
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    }


async def test_collector_passes_on_every_sample_as_it_was_sent(
    collector: tuple[str, Path], chdb_dir: Path, chdb_settings: Callable[[], ClickHouseSettings]
) -> None:
    url, exported = collector
    async with stored_samples(chdb_settings(), chdb_dir) as samples:
        stored = await samples.spans()
    batches = [stored[begin : begin + BATCH_SPANS] for begin in range(0, len(stored), BATCH_SPANS)]
    target = _target(url)

    assert [await target.deliver(batch_of(batch)) for batch in batches] == [None] * len(batches)
    await target.close()
    async with asyncio.timeout(WITHIN_S):
        while len(received := spans_of(requests_in(exported))) < len(stored):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)

    assert len(stored) == 848
    assert received == spans_of(export_request(batch, ag=True) for batch in batches)
