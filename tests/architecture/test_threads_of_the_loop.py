"""The threads of the event loop do the program's own work: nothing that a caller can slow down uses them (ADR 0034).

Requests have threads of their own (``common.fair_share.in_thread``), and so have look-ups of names that callers chose
(``common.host_names``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("clearspan", "common", "ingest", "jobs", "query_api")

USES: Final = frozenset(
    {"to_thread", "set_default_executor", "getaddrinfo", "getnameinfo", "open_connection", "create_connection"}
    | {"create_datagram_endpoint", "gethostbyname", "ThreadedResolver", "DefaultResolver", "TCPConnector"}
    | {"ClientSession", "AsyncClient"}
)
"""Names that use these threads, or that do unless they are told otherwise, as clients that resolve names."""

LIBRARIES: Final = frozenset({"aiohttp", "asyncio", "clickhouse_connect", "socket"})
COMMAND: Final = "a command, which serves nobody else"
OWN_CHILD: Final = "a process that this one has started"
STORING: Final = "the worker's own work: one batch or one decoder at a time, of limited size"
ALLOWED: Final = {
    ("clearspan/client/connection.py", "ClientSession"): COMMAND,
    ("clearspan/client/export.py", "to_thread"): COMMAND,
    ("clearspan/embedded/broker.py", "open_connection"): OWN_CHILD,
    ("clearspan/embedded/broker.py", "to_thread"): OWN_CHILD,
    ("clearspan/embedded/broker_server/server.py", "to_thread"): "the broker's syncs, one at a time",
    ("clearspan/embedded/first_span.py", "ClientSession"): COMMAND,
    ("clearspan/embedded/stack.py", "to_thread"): OWN_CHILD,
    ("common/children/pool.py", "to_thread"): OWN_CHILD,
    ("common/clickhouse/server.py", "AsyncClient"): "the hosts of the setting",
    ("common/clickhouse/embedded.py", "to_thread"): "the end of the engine",
    ("common/clickhouse/server.py", "to_thread"): STORING,
    ("common/host_names.py", "getaddrinfo"): "in threads of its own",
    ("common/kafka/foreign_servers.py", "create_connection"): "the name is resolved by common.host_names",
    ("common/kafka/security.py", "to_thread"): "the function of a setting that returns a token for the own cluster",
    ("ingest/clickhouse_sink.py", "to_thread"): STORING,
    ("ingest/decoding/decoder.py", "to_thread"): STORING,
    ("ingest/flush.py", "to_thread"): STORING,
    ("ingest/joiner.py", "to_thread"): STORING,
    ("ingest/late_scores.py", "to_thread"): STORING,
    ("query_api/delivery/addresses.py", "TCPConnector"): "with the resolver of common.host_names",
    ("query_api/delivery/targets/http.py", "ClientSession"): "with this connector",
}
"""Each use with its reason. What a library does by itself: asyncpg, aiokafka and clickhouse-connect resolve the names
of the settings; aiokafka computes passwords of SCRAM, which ``BoundedScram`` limits; Arrow has its own threads."""


def _uses(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(attr=name) if name in USES:
                yield name
            case ast.ImportFrom(module=module, names=names) if str(module).split(".")[0] in LIBRARIES:
                yield from (alias.name for alias in names if alias.name in USES)
            case ast.Call(func=ast.Attribute(attr="run_in_executor"), args=[ast.Constant(), *_]):
                yield "run_in_executor"
            case _:
                pass


def _found() -> set[tuple[str, str]]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {(str(path.relative_to(ROOT)), name) for path in paths for name in _uses(path)}


def test_each_use_of_these_threads_is_named_with_its_reason() -> None:
    assert _found() == set(ALLOWED)


def test_a_use_is_found(tmp_path: Path) -> None:
    source = "import asyncio\nasyncio.to_thread(f)\nloop.run_in_executor(None, f)\nfrom asyncio import to_thread\n"
    (tmp_path / "x.py").write_text(source)

    assert sorted(_uses(tmp_path / "x.py")) == ["run_in_executor", "to_thread", "to_thread"]
