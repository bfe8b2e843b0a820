"""Which packages with native code each process of the stack loads: one that it does not need is memory (ADR 0031)."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from bench.records import llm_records
from tests.support.produce import produce
from tests.support.stack import RunningStack

_PACKAGE: Final = re.compile(r"site-packages/(\w+)")
_DECODER: Final = {"google", "numpy", "orjson", "ptars", "pyarrow", "re2"}
_CHILD: Final = _DECODER | {"pydantic_core"}

ALLOWED: Final = {
    "clearspan up": _CHILD
    | {"_cffi_backend", "aiohttp", "aiokafka", "asyncpg", "backports", "chdb", "chdb_core", "clickhouse_connect"}
    | {
        "cramjam",
        "cryptography",
        "frozenlist",
        "greenlet",
        "grpc",
        "jsonschema_rs",
        "lz4",
        "multidict",
        "propcache",
        "psutil",
    }
    | {"yarl"},
    "clearspan.embedded.guard": {"psutil"},
    "clearspan.embedded.broker_server": {"aiokafka", "cramjam"},
    "decoder": _DECODER,
    "compute": _CHILD
    | {"_cffi_backend", "aiohttp", "asyncpg", "backports", "cryptography", "frozenlist", "multidict", "propcache"}
    | {"clickhouse_connect", "lz4", "yarl"},
}
"""By a part of the command line. Postgres is a program of its own."""


def test_processes_load_only_packages_that_they_need(stack: RunningStack) -> None:
    produce(stack.kafka, "otlp_spans", list(llm_records(100)))
    stack.ask_until("/spans/query", {}, lambda answer: bool(answer["count"]))
    for path in ("/traces/query", "/spans/analytics/query", "/spans/facets/query"):
        stack.ask(path, {})
    span = {"trace_id": "1" * 32, "span_id": "2" * 16, "attributes": {"text": "x" * 10_000}}
    stack.ask("/tracing/spans/ingest", {"spans": [span]})
    with urllib.request.urlopen(f"{stack.api}/spans/export?format=parquet", timeout=120) as response:
        response.read()

    loaded = dict(_loaded_packages(stack.process.pid))

    assert {kind: packages - ALLOWED[kind] for kind, packages in loaded.items()} == {kind: set() for kind in ALLOWED}


def _loaded_packages(pid: int) -> Iterator[tuple[str, set[str]]]:
    stack = psutil.Process(pid)
    for process in (stack, *stack.children(recursive=True)):
        command = " ".join(process.cmdline())
        kind = next((kind for kind in ALLOWED if kind in command.replace("-m ", "", 1) or command.endswith(kind)), None)
        if kind is not None:
            yield kind, set(_PACKAGE.findall(Path(f"/proc/{process.pid}/maps").read_text()))
