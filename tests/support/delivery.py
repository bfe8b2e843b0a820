"""A receiver of webhooks, spans to deliver, and a deliverer with a client of its routes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import aiohttp
import orjson
from aiohttp import web
from standardwebhooks import Webhook

from common.clickhouse.store import ColumnStore
from common.postgres.pool import Database
from common.postgres.projects import Projects
from common.settings import DeliverySettings, Settings
from common.span import Span
from common.times import Clock, SystemClock
from jobs.app import open_jobs
from query_api.request.context import ApiContext
from tests.support.api import context_of, serving
from tests.support.feed import settle
from tests.support.span_corpus import START_NS, store_record

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PARTITION = "cluster/spans/0"
TICK_S: Final = 0.05
"""How often a deliverer looks for subscriptions; the product waits longer."""

Respond = Callable[[int], web.Response | Awaitable[web.Response]]


@dataclass
class Message:
    """What a receiver got."""

    id: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def span_ids(self) -> list[int]:
        return [int(span["span_id"], 16) for span in self.body["data"]["spans"]]


@dataclass
class Receiver:
    """Verifies and keeps messages. ``respond`` gets the number of the request and returns the response."""

    port: int = 0
    messages: list[Message] = field(default_factory=list)
    requests_count: int = 0
    respond: Respond = field(default=lambda _: web.Response(status=204))
    keeps_refused: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/spans"

    @property
    def span_ids(self) -> list[int]:
        """The ids of all spans in the order of their arrival, with repetitions."""
        return [id_ for message in self.messages for id_ in message.span_ids]

    def ids_of_spans(self) -> dict[int, set[str]]:
        """The ids of the messages in which each span arrived."""
        found = defaultdict[int, set[str]](set)
        for message in self.messages:
            for span_id in message.span_ids:
                found[span_id].add(message.id)
        return dict(found)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(status=405)
        body = await request.content.read()  # `request.read` takes at most 1 MiB
        headers = {name.lower(): value for name, value in request.headers.items()}
        Webhook(SECRET).verify(body, headers)
        number, self.requests_count = self.requests_count, self.requests_count + 1
        answer = self.respond(number)
        response = answer if isinstance(answer, web.Response) else await answer
        if response.status < 300 or self.keeps_refused:
            self.messages.append(Message(headers["webhook-id"], orjson.loads(body), headers))
        return response

    async def until(self, count: int, *, within_s: float = 60.0) -> None:
        """Wait until that many different spans have arrived."""
        async with asyncio.timeout(within_s):
            while len(set(self.span_ids)) < count:  # noqa: ASYNC110 - what is waited for is the effect of a request
                await asyncio.sleep(0.01)

    async def until_count(self, count: int, *, within_s: float = 60.0) -> None:
        """Wait until that many spans have arrived, repetitions included."""
        async with asyncio.timeout(within_s):
            while len(self.span_ids) < count:  # noqa: ASYNC110 - what is waited for is the effect of a request
                await asyncio.sleep(0.01)


@asynccontextmanager
async def receiving(port: int = 0, receiver: Receiver | None = None) -> AsyncIterator[Receiver]:
    """Listen on a port of loopback."""
    receiver = receiver or Receiver()
    runner = web.ServerRunner(web.Server(receiver.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    receiver.port = int(runner.addresses[0][1])
    try:
        yield receiver
    finally:
        await runner.cleanup()


def span_of(number: int, **members: Any) -> Span:
    """A span whose id and name say its number."""
    ids = {"trace_id": number.to_bytes(16, "big"), "span_id": number.to_bytes(8, "big") * 2, "parent_id": None}
    usual = {"name": f"s{number}", "kind": 1, "status_code": 0, "status_message": None, "attributes": {"n": number}}
    times = {"start_ns": START_NS, "end_ns": START_NS + 1_000}
    return Span(**{**ids, **usual, **times, **members})


def delivery_settings(**members: Any) -> Settings:
    """Settings that allow a receiver on loopback and retry soon."""
    usual = {"private_addresses": "on", "retry_delay_max_s": 0.2, "timeout_s": 30.0, "lease_s": 30.0}
    return Settings(auth="off", delivery=DeliverySettings.model_validate({**usual, **members}))


@dataclass
class Deliveries:
    """An API, and what it needs to deliver."""

    client: aiohttp.ClientSession
    context: ApiContext
    database: Database
    offsets: dict[str, int] = field(default_factory=dict)

    async def store(
        self,
        numbers: Sequence[int],
        *,
        partition_id: str = PARTITION,
        project_id: UUID | None = None,
        **members: Any,
    ) -> None:
        """Store one record with these spans, and announce it."""
        project_id = project_id or self.context.settings.default_project_id
        offset = self.offsets.get(partition_id, -1) + 1
        self.offsets[partition_id] = offset
        spans = [span_of(number, **members) for number in numbers]
        stored_us = self.context.clock.now_ns() // 1_000
        store = self.context.store
        await store_record(
            store, spans, partition_id=partition_id, offset=offset, project_id=project_id, stored_us=stored_us
        )
        settled = await settle(store, offset=offset, partition_id=partition_id, project_id=project_id)
        self.context.stored.learn([settled])

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Send a request, check its status, return the body."""
        async with self.client.request(method, path, json=body) as response:
            answer = orjson.loads(await response.read())
            assert response.status == status, answer
            return answer

    async def create(self, slug: str, target: Any, **members: Any) -> Any:
        body = {"subscription": {"slug": slug, "target": target, **members}}
        return (await self.call("POST", "/subscriptions/", body))["subscription"]

    async def webhook(self, receiver: Receiver, *, slug: str = "hook", **members: Any) -> Any:
        """Create a subscription for a receiver."""
        return await self.create(slug, {"kind": "webhook", "url": receiver.url, "secret": SECRET}, **members)

    async def state(self, slug: str = "hook") -> Any:
        return (await self.call("GET", f"/subscriptions/{slug}"))["subscription"]

    async def until(self, is_so: Callable[[Any], bool], *, slug: str = "hook", within_s: float = 60.0) -> Any:
        """Return the state as soon as it is as wanted."""
        state: Any = None
        try:
            async with asyncio.timeout(within_s):
                while not is_so(state := await self.state(slug)):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(state) from None
        return state

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Deliver while inside."""
        context = self.context
        async with open_jobs(
            context.settings,
            store=context.store,
            database=self.database,
            stored=context.stored,
            clock=context.clock,
            tick_s=TICK_S,
        ):
            yield


@asynccontextmanager
async def deliveries(
    store: ColumnStore, database: Database, settings: Settings, *, clock: Clock | None = None
) -> AsyncIterator[Deliveries]:
    """Routes over a real engine and a real Postgres, with a new project; its subscriptions are deleted at the end."""
    project = await Projects(database, SystemClock()).create("deliveries")
    settings = settings.model_copy(update={"default_project_id": project.id})
    context = context_of(store=store, database=database, clock=clock or SystemClock(), settings=settings)
    try:
        async with serving(context) as client:
            yield Deliveries(client, context, database)
    finally:
        await database.fetch_all("DELETE FROM subscriptions WHERE project_id = $1", project.id)
