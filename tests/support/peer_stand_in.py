"""A program that behaves as Jaeger and VictoriaTraces do towards ``bench/peers``, and keeps spans in memory.

It listens on each address of its arguments. Spans of the service ``$LOST_SERVICE`` are dropped and counted.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ADDRESS = re.compile(r".*=127\.0\.0\.1:(\d+)")
STREAM = re.compile(r'\{resource_attr:service\.name="(?P<service>[^"]+)",name="(?P<operation>[^"]+)"\}')


class Stored(NamedTuple):
    trace_id: str
    service: str
    operation: str
    start_us: int
    tags: dict[str, str]


SPANS: list[Stored] = []
DROPPED: list[Stored] = []


def keep(body: bytes) -> None:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = resource.resource.attributes[0].value.string_value
        kept = DROPPED if service == os.environ.get("LOST_SERVICE") else SPANS
        for span in resource.scope_spans[0].spans:
            tags = {attribute.key: attribute.value.string_value for attribute in span.attributes}
            kept.append(Stored(span.trace_id.hex(), service, span.name, span.start_time_unix_nano // 1000, tags))


def traces(trace_ids: set[str]) -> bytes:
    wanted = sorted(span for span in SPANS if span.trace_id in trace_ids)
    grouped = [list(spans) for _, spans in groupby(wanted, key=lambda span: span.trace_id)]
    return json.dumps({"data": [{"spans": [span.operation for span in spans]} for spans in grouped]}).encode()


def search(query: dict[str, str]) -> bytes:
    tags = json.loads(query.get("tags", "{}"))
    matching = {
        span.trace_id: None
        for span in SPANS
        if span.service == query["service"]
        and span.operation == query.get("operation", span.operation)
        and tags.items() <= span.tags.items()
        and int(query["start"]) <= span.start_us <= int(query["end"])
    }
    return traces(set(list(matching)[: int(query["limit"])]))


def logsql(query: dict[str, str]) -> bytes:
    stream = STREAM.fullmatch(query["query"])
    assert stream, query
    matching = [
        json.dumps({"name": span.operation})
        for span in SPANS
        if (span.service, span.operation) == (stream["service"], stream["operation"])
        and int(query["start"]) <= span.start_us * 1_000 <= int(query["end"])
    ]
    return "".join(f"{line}\n" for line in matching[: int(query["limit"])]).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert self.path in {"/v1/traces", "/insert/opentelemetry/v1/traces"}
        keep(self.rfile.read(int(self.headers["content-length"])))
        self._respond(b"")

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix("/select/jaeger")
        if path == "/metrics":
            names = ("jaeger_collector_spans_dropped_total", "vt_rows_dropped_total")
            self._respond("".join(f'{name}{{a="b"}} {len(DROPPED)}\n' for name in names).encode())
        elif path == "/select/logsql/query":
            self._respond(logsql(query))
        elif path == "/api/traces":
            self._respond(search(query))
        elif path.startswith("/api/traces/"):
            self._respond(traces({path.rpartition("/")[2]}))
        else:
            assert path in {"/health", "/api/services"}
            self._respond(b"{}")

    def _respond(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    servers = [
        ThreadingHTTPServer(("127.0.0.1", int(address[1])), Handler)
        for argument in sys.argv[1:]
        if (address := ADDRESS.fullmatch(argument))
    ]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(60.0,)).start()


if __name__ == "__main__":
    main()
