"""Keys that can be handed out: scopes, expiry, rotation, limits and last use, over Postgres (contract §2)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.errors import Conflict
from common.postgres.keys import Keys, KeyWanted
from common.postgres.pool import Database, UniqueViolation
from common.postgres.projects import Projects
from common.scopes import KeyScope
from common.settings import Settings
from common.times import SystemClock
from query_api.request.context import ApiContext
from query_api.request.route import Request, Response, Route
from tests.fakes.kafka import MemoryBroker
from tests.support.api import context_of, serving, status_of
from tests.support.otlp_grpc import TRACES, serving_grpc

READ = "/projects/current"
WRITE = "/queries/"
SPANS = "/tracing/spans/ingest"
LONG_BYTES = 64 << 20
"""More than a connection holds that nobody reads."""


class Client:
    """An API, and the keys of one new project."""

    def __init__(self, session: aiohttp.ClientSession, keys: Keys, project_id: UUID) -> None:
        self.keys = keys
        self.project_id = project_id
        self._session = session

    async def key(self, *scopes: KeyScope, **limits: Any) -> str:
        """Create a key and return its text."""
        return (await self.keys.create(self.project_id, KeyWanted("k", scopes or tuple(KeyScope), **limits))).text

    async def call(self, key: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"ApiKey {key}"}
        async with self._session.request(method, path, json=body, headers=headers) as response:
            return response.status, await response.json() if response.content_type == "application/json" else None

    async def retry_after(self, key: str, path: str) -> tuple[int, str | None]:
        async with self._session.get(path, headers={"Authorization": f"ApiKey {key}"}) as response:
            return response.status, response.headers.get("Retry-After")

    async def send(self, key: str, path: str, body: AsyncIterator[bytes]) -> int:
        """Send a body piece by piece and return the status."""
        headers = {"Authorization": f"ApiKey {key}", "Content-Type": "application/json"}
        async with self._session.post(path, data=body, headers=headers) as response:
            return response.status

    async def listed(self, admin: str) -> dict[str, Any]:
        """Return the keys of the project by their prefix."""
        status, answer = await self.call(admin, "GET", "/projects/keys/")
        assert (status, answer["count"]) == (200, len(answer["keys"]))
        return {key["prefix"]: key for key in answer["keys"]}


@pytest.fixture
def context(shared_database: Database) -> ApiContext:
    clock = SystemClock()
    return context_of(
        settings=Settings(auth="on"),
        broker=MemoryBroker(),
        keys=Keys(shared_database, clock),
        database=shared_database,
        clock=clock,
    )


@pytest.fixture
async def client(context: ApiContext, shared_database: Database) -> AsyncIterator[Client]:
    project = await Projects(shared_database, SystemClock()).create("p")
    assert isinstance(context.keys, Keys)
    async with serving(context) as session:
        yield Client(session, context.keys, project.id)


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (KeyScope.INGEST, {SPANS}),
        (KeyScope.READ, {READ}),
        (KeyScope.WRITE, {READ, WRITE}),
        (KeyScope.ADMIN, {READ, WRITE, SPANS, "/projects/keys/"}),
    ],
)
async def test_key_does_what_its_scope_allows(client: Client, scope: KeyScope, allowed: set[str]) -> None:
    key = await client.key(scope)
    span = {
        "trace_id": uuid4().hex,
        "span_id": uuid4().hex[:16],
        "span_name": "s",
        "start_time": "2026-01-01T00:00:00Z",
    }
    calls = {
        SPANS: ("POST", {"spans": [span]}),
        READ: ("GET", None),
        WRITE: ("POST", {"query": {"slug": uuid4().hex}}),
        "/projects/keys/": ("GET", None),
    }

    statuses = {path: (await client.call(key, method, path, body))[0] for path, (method, body) in calls.items()}

    assert {path for path, status in statuses.items() if status in {200, 202}} == allowed
    assert {status for path, status in statuses.items() if path not in allowed} <= {403}


async def test_refusal_says_what_is_needed(client: Client) -> None:
    status, answer = await client.call(await client.key(KeyScope.INGEST), "GET", READ)

    assert status == 403
    assert answer == {"detail": f"GET {READ} needs a key with the scope `read`; this key has `ingest`."}


async def test_expired_key_is_refused(client: Client) -> None:
    key = await client.key(expires_at=datetime.now(UTC) + timedelta(seconds=2))
    assert (await client.call(key, "GET", READ))[0] == 200

    async with asyncio.timeout(30):
        while True:
            if (await client.call(key, "GET", READ))[0] == 401:
                break
            await asyncio.sleep(0.1)


async def test_key_is_created_rotated_and_revoked_over_http(client: Client) -> None:
    admin = await client.key()
    wanted = {"name": "service", "scopes": ["ingest", "read"], "requests_per_s": 50, "concurrent_max": 5}
    expires_at = (datetime.now(UTC) + timedelta(days=30)).isoformat()

    status, created = await client.call(admin, "POST", "/projects/keys/", {"key": {**wanted, "expires_at": expires_at}})
    assert status == 200, created
    key_id = created["key"]["id"]
    _, rotated = await client.call(admin, "POST", f"/projects/keys/{key_id}/rotate", {"overlap_s": 600})

    listed = await client.listed(admin)
    old, new = listed[created["text"][:8]], listed[rotated["text"][:8]]
    assert {name: new[name] for name in wanted} == wanted == {name: old[name] for name in wanted}
    assert created["text"][9:] not in str(listed)
    ends_in = datetime.fromisoformat(old["expires_at"]) - datetime.now(UTC)
    lasts = datetime.fromisoformat(new["expires_at"]) - datetime.fromisoformat(new["created_at"])
    assert timedelta(minutes=1) < ends_in <= timedelta(minutes=10)
    assert timedelta(days=29) < lasts <= timedelta(days=30)
    for text in (created["text"], rotated["text"]):
        assert (await client.call(text, "GET", READ))[0] == 200
    status, revoked = await client.call(admin, "DELETE", f"/projects/keys/{key_id}")
    assert (status, revoked["key"]["id"], "revoked_at" in revoked["key"]) == (200, key_id, True)
    assert (await client.call(created["text"], "GET", READ))[0] == 401
    assert (await client.call(rotated["text"], "GET", READ))[0] == 200
    assert (await client.call(admin, "POST", f"/projects/keys/{key_id}/rotate", {}))[0] == 404


async def test_key_is_replaced_only_once(client: Client) -> None:
    """A client repeats the request if it has lost the response; a third key would have the life of the overlap."""
    admin = await client.key()
    key_id = (await client.call(admin, "POST", "/projects/keys/", {"key": {"name": "k", "scopes": ["read"]}}))[1][
        "key"
    ]["id"]
    _, rotated = await client.call(admin, "POST", f"/projects/keys/{key_id}/rotate", {"overlap_s": 600})

    status, answer = await client.call(admin, "POST", f"/projects/keys/{key_id}/rotate", {"overlap_s": 600})
    again = await client.call(admin, "POST", f"/projects/keys/{rotated['key']['id']}/rotate", {"overlap_s": 600})

    assert (status, f"was replaced by {rotated['key']['id']}" in answer["detail"]) == (409, True)
    assert (again[0], "expires_at" in again[1]["key"]) == (200, False)


async def test_wrong_requests_for_keys_are_explained(client: Client) -> None:
    admin = await client.key()
    for body, status, word in (
        ({"key": {"name": "k", "scope": ["read"], "scopes": ["read"]}}, 422, "scope"),
        ({"key": {"name": "k", "scopes": []}}, 422, "scopes"),
        ({"key": {"name": "k", "scopes": ["everything"]}}, 422, "'ingest', 'read', 'write' or 'admin'"),
        ({"key": {"name": "k", "scopes": ["read"], "requests_per_s": 0}}, 422, "requests_per_s"),
        ({"key": {"name": "k", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}}, 400, "has passed"),
        ({"key": {"name": "k", "scopes": ["read"], "expires_at": "2030-01-01T00:00:00"}}, 422, "timezone"),
    ):
        found, answer = await client.call(admin, "POST", "/projects/keys", body)
        assert (found, word in str(answer)) == (status, True), answer
    for path in (f"/projects/keys/{uuid4()}", "/projects/keys/no-id"):
        assert (await client.call(admin, "DELETE", path))[0] == 404


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:00", "9999-12-31T23:59:59Z"])
async def test_key_cannot_expire_after_the_last_time(client: Client, text: str) -> None:
    wanted = {"name": "k", "scopes": ["read"], "expires_at": text}

    status, answer = await client.call(await client.key(), "POST", "/projects/keys", {"key": wanted})

    assert status == 422
    assert answer["detail"][0]["loc"] == ["body", "key", "expires_at"]
    assert "9999-01-01" in answer["detail"][0]["msg"]


async def test_key_with_the_longest_life_is_rotated(client: Client) -> None:
    admin, last = await client.key(), "9999-01-01T00:00:00Z"
    wanted = {"name": "k", "scopes": ["read"], "expires_at": last}
    _, created = await client.call(admin, "POST", "/projects/keys", {"key": wanted})

    status, rotated = await client.call(admin, "POST", f"/projects/keys/{created['key']['id']}/rotate", {})
    await client.keys.rotate(client.project_id, UUID(rotated["key"]["id"]), overlap=timedelta(days=9_000 * 365))

    assert (status, rotated["key"]["expires_at"]) == (200, last)
    assert len(await client.listed(admin)) == 4


async def test_overlap_ends_at_the_last_time(client: Client) -> None:
    admin = await client.key()
    [key] = await client.keys.of_project(client.project_id)

    await client.keys.rotate(client.project_id, key.id, overlap=timedelta(days=9_000 * 365))

    assert (await client.listed(admin))[key.prefix]["expires_at"] == "9999-01-01T00:00:00Z"


async def test_key_of_another_project_is_unknown(client: Client, shared_database: Database) -> None:
    other = await Projects(shared_database, SystemClock()).create("other")
    foreign = await client.keys.create(other.id, KeyWanted("foreign"))
    admin = await client.key()

    statuses = [
        (await client.call(admin, "DELETE", f"/projects/keys/{foreign.key.id}"))[0],
        (await client.call(admin, "POST", f"/projects/keys/{foreign.key.id}/rotate", {}))[0],
    ]

    assert statuses == [404, 404]
    assert foreign.key.prefix not in await client.listed(admin)
    assert (await client.call(foreign.text, "GET", READ))[0] == 200


# The routes of the reference


async def test_clients_of_the_reference_create_list_and_delete_keys(client: Client) -> None:
    admin, ending = await client.key(), await client.key(expires_at=datetime(2999, 1, 1, tzinfo=UTC))

    status, made = await client.call(admin, "POST", "/keys/?workspace_id=x")
    assert (status, type(made)) == (200, str)
    used = (await client.call(made, "GET", READ))[0]
    await client.keys.store_uses()
    _, listed = await client.call(admin, "GET", "/keys")
    deleted, _ = await client.call(admin, "DELETE", f"/keys/{made[:8]}")

    assert used == 200
    assert [key["prefix"] for key in listed] == [admin[:8], ending[:8], made[:8]]
    assert [key.keys() - {"last_used_at"} for key in listed] == [
        {"prefix", "created_at"},
        {"prefix", "created_at", "expiration_date"},
        {"prefix", "created_at"},
    ]
    assert [listed[1]["expiration_date"], "last_used_at" in listed[2]] == ["2999-01-01T00:00:00Z", True]
    assert deleted == 200
    assert (await client.call(made, "GET", READ))[0] == 401
    assert made[:8] not in str((await client.call(admin, "GET", "/keys"))[1])
    assert (await client.call(admin, "DELETE", f"/keys/{made[:8]}"))[0] == 404


async def test_body_of_our_own_route_is_refused_by_that_of_the_reference(client: Client) -> None:
    """A key that may do everything in place of one that reads would be a surprise."""
    admin = await client.key()

    status, answer = await client.call(admin, "POST", "/keys", {"key": {"name": "k", "scopes": ["read"]}})

    assert (status, answer["detail"][0]["loc"]) == (422, ["body", "key"])
    assert len(await client.listed(admin)) == 1
    assert (await client.call(admin, "POST", "/keys", {}))[0] == 200


async def test_prefix_of_a_key_of_another_project_is_unknown(client: Client, shared_database: Database) -> None:
    other = await Projects(shared_database, SystemClock()).create("other")
    foreign = await client.keys.create(other.id, KeyWanted("foreign"))
    admin = await client.key()

    theirs = await client.call(admin, "DELETE", f"/keys/{foreign.key.prefix}")
    nobodys = await client.call(admin, "DELETE", "/keys/nobodys0")

    assert theirs[0] == nobodys[0] == 404
    assert str(theirs[1]).replace(foreign.key.prefix, "") == str(nobodys[1]).replace("nobodys0", "")
    assert (await client.call(foreign.text, "GET", READ))[0] == 200
    assert foreign.key.prefix not in str((await client.call(admin, "GET", "/keys"))[1])


async def test_only_an_administrators_key_manages_keys_by_prefix(client: Client) -> None:
    admin, writing = await client.key(), await client.key(KeyScope.WRITE)

    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("DELETE", f"/keys/{admin[:8]}")):
        assert (await client.call(writing, method, path))[0] == 403


async def test_two_keys_never_have_the_same_prefix(client: Client, shared_database: Database) -> None:
    """The prefix alone says which key is deleted."""
    prefix = (await client.key())[:8]

    with pytest.raises(UniqueViolation):
        await shared_database.fetch_all(
            "INSERT INTO api_keys (id, project_id, user_id, name, prefix, secret_hash, scopes)"
            " SELECT $1, project_id, user_id, name, prefix, secret_hash, scopes FROM api_keys WHERE prefix = $2",
            uuid4(),
            prefix,
        )


async def test_requests_a_second_are_limited(client: Client) -> None:
    key, other = await client.key(requests_per_s=0.001), await client.key()

    first, second = [await client.call(key, "GET", READ) for _ in range(2)]

    assert first[0] == 200
    assert second == (429, {"detail": "This key may send 0.001 requests a second."})
    assert (await client.call(other, "GET", READ))[0] == 200


@pytest.mark.parametrize("per_s", [5e-324, 1e-300])
async def test_key_of_hardly_any_requests_is_told_to_wait_a_day(
    client: Client, context: ApiContext, per_s: float
) -> None:
    key = await client.key(requests_per_s=per_s)

    assert (await client.call(key, "GET", READ))[0] == 200
    assert await client.retry_after(key, READ) == (429, "86400")
    async with serving_grpc(context) as address, grpc.aio.insecure_channel(address) as channel:
        metadata = (("authorization", f"ApiKey {key}"),)
        calls = [channel.unary_unary(TRACES)(b"", metadata=metadata) for _ in range(2)]
        refused = [call for call in calls if await call.code() is not grpc.StatusCode.OK]
        assert [await call.code() for call in refused] == [grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert await refused[0].details() == f"This key may send {per_s:g} requests a second."


async def test_requests_at_the_same_time_are_limited(client: Client) -> None:
    key = await client.key(concurrent_max=1)
    one_is_refused = asyncio.Event()

    async def slow_body() -> AsyncIterator[bytes]:
        yield b"{"
        await one_is_refused.wait()
        yield b"}"

    calls = [asyncio.create_task(client.send(key, "/queries/query", slow_body())) for _ in range(2)]
    [refused], [served] = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    one_is_refused.set()

    assert await refused == 429
    assert await served == 200
    assert (await client.call(key, "GET", READ))[0] == 200


async def test_requests_that_are_refused_count_too(client: Client) -> None:
    for path, status in ((READ, 403), ("/no-such-path", 404)):
        key = await client.key(KeyScope.INGEST, requests_per_s=0.001)

        assert [(await client.call(key, "GET", path))[0] for _ in range(3)] == [status, 429, 429]


async def test_response_that_is_not_read_counts_until_it_is(context: ApiContext, shared_database: Database) -> None:
    project = await Projects(shared_database, SystemClock()).create("slow")
    assert isinstance(context.keys, Keys)
    key = (await context.keys.create(project.id, KeyWanted("k", (KeyScope.READ,), concurrent_max=1))).text

    async def long(_: Request) -> Response:
        return Response(bytes(LONG_BYTES))

    async with serving(context, routes=(Route("GET", "/long", long, "Long.", "Long", None),)) as session:
        address = session._base_url
        assert address is not None
        reader, writer = await asyncio.open_connection(address.host, address.port, limit=1_024)
        try:
            writer.write(f"GET /long HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n\r\n".encode())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

            headers = {"Authorization": key}
            assert [await status_of(session.get("/long", headers=headers)) for _ in range(2)] == [429, 429]
        finally:
            writer.transport.abort()
        async with asyncio.timeout(60):
            while await status_of(session.get("/long", headers=headers)) == 429:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.1)


async def test_keys_of_a_project_are_bounded(client: Client, shared_database: Database) -> None:
    keys = Keys(shared_database, SystemClock(), count_max=3)

    async def create() -> bool:
        try:
            await keys.create(client.project_id, KeyWanted("k"))
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(create() for _ in range(10)))) == 3
    listed = await keys.of_project(client.project_id)
    assert len(listed) == 3
    with pytest.raises(Conflict):
        await keys.rotate(client.project_id, listed[0].id, overlap=timedelta(hours=1))
    assert await keys.of_project(client.project_id) == listed
    for _ in range(5):
        newest = (await keys.of_project(client.project_id))[-1]
        await keys.rotate(client.project_id, newest.id, overlap=timedelta(0))

    left = await keys.of_project(client.project_id)
    assert [key.expires_at is None for key in left].count(True) == 3
    assert len(left) == 6


async def test_one_key_too_many_is_409(client: Client, context: ApiContext) -> None:
    assert isinstance(context.keys, Keys)
    context.keys._count_max = 1
    admin = await client.key()

    status, answer = await client.call(admin, "POST", "/projects/keys", {"key": {"name": "k", "scopes": ["read"]}})

    assert status == 409
    assert "1 keys in force" in answer["detail"]


async def test_key_does_not_look_like_an_option(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = iter(["-option0", "--optio1", "a-prefix"])
    monkeypatch.setattr(secrets, "token_urlsafe", lambda _bytes_count: next(prefixes))

    assert (await client.key()).startswith("a-prefix.")


async def test_last_use_is_stored(client: Client) -> None:
    admin, unused = await client.key(), await client.key(KeyScope.READ)
    await client.call(admin, "GET", READ)

    await client.keys.store_uses()

    listed = await client.listed(admin)
    used_at = datetime.fromisoformat(listed[admin[:8]]["last_used_at"])
    assert abs(datetime.now(UTC) - used_at) < timedelta(minutes=1)
    assert "last_used_at" not in listed[unused[:8]]


async def test_calls_that_are_refused_count_too(client: Client, context: ApiContext) -> None:
    metadata = (("authorization", f"ApiKey {await client.key(KeyScope.READ, requests_per_s=0.001)}"),)
    async with serving_grpc(context) as address, grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(TRACES)
        codes = [await call(b"", metadata=metadata).code() for _ in range(2)]

    assert codes == [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED]


async def test_grpc_needs_the_scope_too(client: Client, context: ApiContext) -> None:
    request = ExportTraceServiceRequest().SerializeToString()
    codes = {}
    async with serving_grpc(context) as address, grpc.aio.insecure_channel(address) as channel:
        for scope in (KeyScope.INGEST, KeyScope.READ):
            metadata = (("authorization", f"ApiKey {await client.key(scope)}"),)
            call = channel.unary_unary(TRACES)(request, metadata=metadata)
            codes[scope] = await call.code()

    assert codes == {KeyScope.INGEST: grpc.StatusCode.OK, KeyScope.READ: grpc.StatusCode.PERMISSION_DENIED}
