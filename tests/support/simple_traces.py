"""A client of simple traces, annotations and invocations: an API over real stores, and the steps of a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import aiohttp
import orjson

from common.clickhouse.store import ColumnStore
from common.codec import span_json
from common.limits import SpanLimits
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.times import SystemClock
from tests.fakes.clock import ManualClock
from tests.fakes.kafka import MemoryBroker
from tests.support.api import KnownKeys, context_of, serving
from tests.support.span_corpus import store_record


@dataclass
class Simple:
    """The routes, and the steps of a worker on request."""

    client: aiohttp.ClientSession
    key: str
    broker: MemoryBroker
    store: ColumnStore
    project_id: UUID
    stored: set[tuple[int, int]] = field(default_factory=set)

    async def call(self, method: str, path: str, *, status: int = 200, **sent: Any) -> Any:
        """Send a request below ``/simple/traces``, check its status, return the body."""
        return await self.ask(method, f"/simple/traces{path}", status=status, **sent)

    async def ask(self, method: str, path: str, *, status: int = 200, **sent: Any) -> Any:
        """Send a request, check its status, return the body."""
        async with self.client.request(method, path, headers={"Authorization": self.key}, **sent) as response:
            body = orjson.loads(await response.read())
            assert response.status == status, body
            return body

    async def create(self, **trace: Any) -> Any:
        """Create a trace with the required members, and store what was published."""
        sent = {"data": {"outputs": {"score": 1}}, "references": {}, "links": {}, **trace}
        created = await self.call("POST", "/", json={"trace": sent}, status=202)
        await self.store_published()
        return created["trace"]

    async def store_published(self) -> None:
        """Store what was published for the project."""
        for record in self.broker.records("spans"):
            if record.header("project-id") != str(self.project_id).encode():
                continue
            place = (record.partition, record.offset)
            if place not in self.stored:
                decoded = span_json.decode(record.value or b"", limits=SpanLimits(), now_ns=SystemClock().now_ns())
                assert not decoded.rejections.in_full
                log = f"cluster/spans/{place[0]}"
                await store_record(
                    self.store, decoded.spans, partition_id=log, offset=place[1], project_id=self.project_id
                )
                self.stored.add(place)

    async def ids(self, **query: Any) -> set[str]:
        """Return the ids of the simple traces that match."""
        found = await self.call("POST", "/query", json=query)
        assert found["count"] == len(found["traces"])
        return {trace["trace_id"] for trace in found["traces"]}

    async def ingest(self, *spans: dict[str, Any]) -> None:
        """Store spans that were not written as simple traces."""
        sent = {"spans": list(spans)}
        async with self.client.post(
            "/tracing/spans/ingest", json=sent, headers={"Authorization": self.key}
        ) as response:
            assert response.status == 202
        await self.store_published()

    async def span(self, trace_id: str, span_id: str) -> dict[str, Any]:
        """Return a stored span without the time at which it was stored."""
        async with self.client.get(f"/spans/{trace_id}/{span_id}", headers={"Authorization": self.key}) as response:
            found: dict[str, Any] = (await response.json())["span"]
        del found["created_at"]
        return found


@asynccontextmanager
async def simple_clients(store: ColumnStore, database: Database, *, count: int = 1) -> AsyncIterator[list[Simple]]:
    """Clients of one API, each with a new project."""
    projects = Projects(database, ManualClock())
    ids = {f"key-{number}": (await projects.create(f"project {number}")).id for number in range(count)}
    broker = MemoryBroker()
    context = context_of(broker=broker, store=store, clock=SystemClock(), keys=KnownKeys(ids), database=database)
    async with serving(context) as client:
        yield [Simple(client, key, broker, store, project_id) for key, project_id in ids.items()]
