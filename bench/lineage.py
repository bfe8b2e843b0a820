"""Commits and retrievals over HTTP, compared with bare transactions of one statement on the same Postgres.

The API listens on a real socket; Postgres is the embedded one, with its default durability. Latencies are those of
one writer, which alternates between our requests and the bare statement; rates are those of sixteen writers at once.
The bare statement inserts one row of the same payload. If all writers commit to one variant, it updates one row
instead: the least that a version costs.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pydantic import SecretStr

from bench.client import post_request
from bench.harness import bench_settings, child_main, migrated_store, percentile
from clearspan.embedded.postgres import EmbeddedPostgres
from common.ids import DEFAULT_PROJECT_ID, DEFAULT_USER_ID
from common.postgres.migrate import migrate
from common.postgres.pool import Database, open_database
from common.settings import Settings
from query_api.http.app import open_api
from query_api.registry.store import Lineage, Owner
from query_api.registry.values import CommitTarget, Content, Header, Kind

TIMES: Final = 400
"""How often each operation is timed; the first tenth is warm-up."""

WRITERS: Final = 16
SECONDS: Final = 3.0
DATA: Final = {"parameters": {"prompt": {"messages": [{"role": "system", "content": "Be brief. " * 40}]}}}
PAYLOAD: Final = json.dumps(DATA)
UNCOUNTED: Final = TIMES // 10
LENGTH: Final = re.compile(rb"Content-Length: (\d+)")

CREATE_BARE: Final = (
    "CREATE TABLE bare (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), data json)",
    "CREATE TABLE bare_counter (id integer PRIMARY KEY, count integer NOT NULL)",
    "INSERT INTO bare_counter VALUES (1, 0)",
)
INSERT_BARE: Final = "INSERT INTO bare (data) VALUES ($1) RETURNING id"
UPDATE_BARE: Final = "UPDATE bare_counter SET count = count + 1 WHERE id = 1 RETURNING count"


RETRIEVE: Final = post_request(
    "/applications/revisions/retrieve", {"application_ref": {"slug": "bench"}, "resolve": True}
)

Act = Callable[[], Awaitable[object]]


class Connection:
    """A raw socket, so that the cost of a client library is not measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, request: bytes) -> None:
        """Send a request and read the response, which must be 200."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        body = await self._reader.readexactly(int(LENGTH.findall(head)[0]))
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError((head + body).decode())

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured: the API over HTTP, its store, and Postgres itself. Each writer has a connection and a
    variant.
    """

    connections: Sequence[Connection]
    lineage: Lineage
    database: Database
    variant_ids: Sequence[str]
    commits: Sequence[bytes]
    """The request that commits to each variant."""

    async def commit(self, writer: int, *, on_variant: int) -> None:
        await self.connections[writer].send(self.commits[on_variant])

    async def retrieve(self) -> None:
        await self.connections[0].send(RETRIEVE)


async def measure(seconds: float = SECONDS) -> dict[str, Any]:
    """Measure the milliseconds of a commit and a retrieval, and commits per second, each with bare transactions."""
    async with _opened() as bench:
        alone = await _alone(bench)
        rates = {
            "commits_per_s_one_variant": await _rate(lambda n: bench.commit(n, on_variant=0), seconds),
            "bare_updates_per_s_one_row": await _rate(lambda _: bench.database.fetch_one(UPDATE_BARE), seconds),
            "commits_per_s_many_variants": await _rate(lambda n: bench.commit(n, on_variant=n), seconds),
            "bare_inserts_per_s": await _rate(lambda _: bench.database.fetch_one(INSERT_BARE, PAYLOAD), seconds),
        }
    return {**alone, **rates, "writers": WRITERS}


async def _alone(bench: Bench) -> dict[str, Any]:
    variant_id, content = UUID(bench.variant_ids[0]), Content(Header(), flags="{}", data=PAYLOAD)
    acts: dict[str, Act] = {
        "bare": lambda: bench.database.fetch_one(INSERT_BARE, PAYLOAD),
        "statement": lambda: bench.lineage.commit(CommitTarget(variant_id), content),
        "commit": lambda: bench.commit(0, on_variant=0),
        "retrieve": bench.retrieve,
    }
    took_ms: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(TIMES):
        for name, act in acts.items():
            started_s = time.perf_counter()
            await act()
            took_ms[name].append((time.perf_counter() - started_s) * 1000)
    warm = {name: durations[UNCOUNTED:] for name, durations in took_ms.items()}
    p50 = {name: percentile(durations, 50) for name, durations in warm.items()}
    return {
        "commit_p50_ms": round(p50["commit"], 2),
        "commit_p95_ms": round(percentile(warm["commit"], 95), 2),
        "commit_statement_p50_ms": round(p50["statement"], 2),
        "bare_p50_ms": round(p50["bare"], 2),
        "bare_p95_ms": round(percentile(warm["bare"], 95), 2),
        "commit_over_bare": round(p50["commit"] / p50["bare"], 2),
        "statement_over_bare": round(p50["statement"] / p50["bare"], 2),
        "retrieve_p50_ms": round(p50["retrieve"], 2),
        "retrieve_p95_ms": round(percentile(warm["retrieve"], 95), 2),
    }


async def _rate(act: Callable[[int], Awaitable[object]], seconds: float) -> int:
    """Return how often per second ``WRITERS`` writers do it at once; each gets its number."""
    done = 0
    ends_s = time.perf_counter() + seconds

    async def write(number: int) -> None:
        nonlocal done
        while time.perf_counter() < ends_s:
            await act(number)
            done += 1

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    return round(done / seconds)


@asynccontextmanager
async def _opened() -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        postgres = await asyncio.to_thread(EmbeddedPostgres, root / "postgres")
        try:
            async with _serving(_settings(root, postgres.dsn)) as bench:
                yield bench
        finally:
            await asyncio.to_thread(postgres.stop)


def _settings(root: Path, dsn: str) -> Settings:
    settings = bench_settings(root, bootstrap="127.0.0.1:1")
    return settings.model_copy(
        update={
            "postgres": settings.postgres.model_copy(update={"dsn": SecretStr(dsn), "connections_max": WRITERS}),
            # The connections of writers wait until the measurements of one writer end.
            "http": settings.http.model_copy(update={"header_timeout_s": 300.0}),
        }
    )


@asynccontextmanager
async def _serving(settings: Settings) -> AsyncIterator[Bench]:
    await migrate(settings.postgres, default_project_id=DEFAULT_PROJECT_ID)
    async with (
        migrated_store(settings) as store,
        open_database(settings.postgres) as database,
        open_api(settings, store=store) as port,
    ):
        for statement in CREATE_BARE:
            await database.fetch_all(statement)
        lineage = Lineage(database, Kind.APPLICATION, Owner(DEFAULT_PROJECT_ID, DEFAULT_USER_ID))
        connections = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(WRITERS)]
        variant_ids = await _variants(lineage)
        yield Bench(
            connections, lineage, database, variant_ids, [_commit_request(variant_id) for variant_id in variant_ids]
        )
        for connection in connections:
            connection.close()


def _commit_request(variant_id: str) -> bytes:
    revision = {"variant_id": variant_id, "data": DATA}
    return post_request("/applications/revisions/commit", {"application_revision": revision})


async def _variants(lineage: Lineage) -> list[str]:
    application = await lineage.create_artifact("bench", header=Header(), flags="{}")
    variants = [
        await lineage.create_variant(application.id, f"bench.{number}", header=Header()) for number in range(WRITERS)
    ]
    return [str(variant.id) for variant in variants if variant is not None]


if __name__ == "__main__":
    child_main(measure)
