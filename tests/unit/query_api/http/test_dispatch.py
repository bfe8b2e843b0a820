from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

import aiohttp
import orjson
import pytest
from aiohttp import web
from pydantic import BaseModel
from structlog.testing import capture_logs

from common.errors import ServiceError
from common.fair_share import OWN_WORK, current_tenant
from common.settings import HttpSettings, LimitSettings, QuerySettings, Settings
from query_api.http import body
from query_api.http.app import make_runner
from query_api.http.dispatch import REQUEST_ID_HEADER, StartupState
from query_api.request.errors import MemberConflict
from query_api.request.route import Access, Request, Response, Route
from tests.support.api import KnownKeys, context_of, status_of
from tests.unit.query_api.conftest import Client

LIMIT = 1_000
SMALL = Settings(auth="off", limits=LimitSettings(body_bytes_max=LIMIT))


class Body(BaseModel):
    text: str = ""


class Asked(BaseModel):
    limit: int = 1


async def _echo(call: Request) -> Response:
    return Response(orjson.dumps({"length": len(call.body.text)}))


async def _count(call: Request) -> Response:
    return Response(orjson.dumps({"length": len(call.body)}))


async def _long(call: Request) -> Response:
    return Response(b"x" * int(call.path["length"]))


async def _asked(call: Request) -> Response:
    return Response(orjson.dumps({"limit": call.query.limit}))


ROUTES = (
    Route("POST", "/echo", _echo, "", "", None, body=Body),
    Route("POST", "/raw", _count, "", "", None, raw_body=("application/x-protobuf", "application/json")),
    Route("GET", "/long/{length}", _long, "", "", None),
    Route("GET", "/asked", _asked, "", "", None, query=Asked),
)


def _json_of(length: int) -> bytes:
    return b'{"text":"%b"}' % (b"x" * (length - len('{"text":""}')))


@pytest.fixture
async def client(aiohttp_client: Client) -> aiohttp.ClientSession:
    return await aiohttp_client(context_of(settings=SMALL), routes=ROUTES)


async def test_body_at_the_limit_is_read_and_one_past_is_413(client: aiohttp.ClientSession) -> None:
    assert await status_of(client.post("/echo", data=_json_of(LIMIT), headers=JSON)) == 200
    assert await status_of(client.post("/echo", data=_json_of(LIMIT + 1), headers=JSON)) == 413


async def test_body_without_a_length_is_bounded_too(client: aiohttp.ClientSession) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(LIMIT + 1):
            yield b" "

    assert await status_of(client.post("/echo", data=pieces(), headers=JSON)) == 413


@pytest.mark.parametrize(("length", "status"), [(LIMIT, b"200"), (LIMIT + 1, b"413")])
async def test_body_that_arrives_with_its_headers_is_bounded_too(
    client: aiohttp.ClientSession, length: int, status: bytes
) -> None:
    assert client._base_url is not None
    reader, writer = await asyncio.open_connection(client._base_url.host, client._base_url.port)

    writer.write(
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n" % (length, _json_of(length))
    )
    line = await reader.readline()
    writer.close()

    assert line.split()[1] == status


async def test_gzip_is_inflated_within_the_limit(client: aiohttp.ClientSession) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}

    assert (await client.post("/echo", data=gzip.compress(_json_of(LIMIT)), headers=headers)).status == 200
    assert (await client.post("/echo", data=gzip.compress(_json_of(LIMIT + 1)), headers=headers)).status == 413


async def test_other_content_encodings_are_415(client: aiohttp.ClientSession) -> None:
    response = await client.post("/echo", data=b"{}", headers={**JSON, "Content-Encoding": "br"})

    assert response.status == 415


async def test_a_body_that_was_compressed_twice_is_415(client: aiohttp.ClientSession) -> None:
    twice = gzip.compress(gzip.compress(b"{}"))
    headers = [*JSON.items(), ("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")]

    assert await status_of(client.post("/echo", data=twice, headers=headers)) == 415


@pytest.mark.parametrize(
    ("content_type", "status"),
    [("application/x-protobuf", 200), ("Application/JSON; charset=utf-8", 200), ("text/plain", 415)],
)
async def test_raw_routes_accept_only_their_content_types(
    content_type: str, status: int, client: aiohttp.ClientSession
) -> None:
    response = await client.post("/raw", data=b"abc", headers={"Content-Type": content_type})

    assert response.status == status


async def test_query_string_problems_are_located_at_query(client: aiohttp.ClientSession) -> None:
    good = await client.get("/asked?limit=5&unknown=1")
    bad = await client.get("/asked?limit=many")

    assert await good.json() == {"limit": 5}
    assert (bad.status, (await bad.json())["detail"][0]["loc"]) == (422, ["query", "limit"])


@pytest.mark.parametrize(("length", "encoding"), [(999, None), (1_000, "gzip"), (300_000, "gzip")])
async def test_response_of_a_thousand_bytes_is_compressed(
    length: int, encoding: str | None, client: aiohttp.ClientSession
) -> None:
    response = await client.get(f"/long/{length}", headers={"Accept-Encoding": "gzip"})

    assert response.headers.get("Content-Encoding") == encoding
    assert len(await response.read()) == length


async def test_response_is_not_compressed_for_clients_without_gzip(client: aiohttp.ClientSession) -> None:
    response = await client.get("/long/5000", headers={"Accept-Encoding": "identity"})

    assert "Content-Encoding" not in response.headers
    assert response.headers["Vary"] == "Accept-Encoding"


async def test_head_has_the_headers_and_no_body(client: aiohttp.ClientSession) -> None:
    response = await client.head("/long/500")

    assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize(
    ("sent", "is_kept"), [("my-id.7", True), ("two words", False), ("x" * 129, False), (None, False)]
)
async def test_safe_request_id_of_the_client_is_used(
    sent: str | None, is_kept: bool, client: aiohttp.ClientSession
) -> None:
    with capture_logs() as logs:
        response = await client.get("/long/1", headers={REQUEST_ID_HEADER: sent} if sent else {})

    returned = response.headers[REQUEST_ID_HEADER]
    assert (returned == sent) is is_kept
    assert logs[0]["request_id"] == returned


async def test_each_request_is_one_log_line_without_its_content(client: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        await client.get("/long/7?secret=1")

    (line,) = logs
    assert (line["event"], line["method"], line["route"], line["status"]) == ("request", "GET", "/long/{length}", 200)
    assert "secret" not in str(line)


async def _unspeakable(_call: Request) -> Response:
    raise MemberConflict("taken", conflict={"slug": object()})  # type: ignore[dict-item] # what is wrong with it


def _no_shape(error: ServiceError, _headers: Mapping[str, str]) -> Response:
    raise ValueError("no words for it") from error


async def _unsendable(_call: Request) -> Response:
    return Response(5)  # type: ignore[arg-type]  # what is wrong with it


@pytest.mark.parametrize(
    "route",
    [
        Route("GET", "/failing", _unspeakable, "", "", None),
        Route("GET", "/failing", _unspeakable, "", "", None, error_format=_no_shape),
        Route("GET", "/failing", _unsendable, "", "", None),
    ],
    ids=["the body of an error", "the form of an error", "the body of an answer"],
)
async def test_error_while_building_the_response_is_500(route: Route, aiohttp_client: Client) -> None:
    client = await aiohttp_client(context_of(settings=SMALL), routes=(route,))
    with capture_logs() as logs:
        response = await client.get("/failing", headers={REQUEST_ID_HEADER: "asked-1"})

    detail = (await response.json())["detail"]
    (failure,) = [each for each in logs if each["event"] == "A request failed unexpectedly."]
    (line,) = [each for each in logs if each["event"] == "request"]
    assert (response.status, response.content_type) == (500, "application/json")
    assert response.headers[REQUEST_ID_HEADER] == "asked-1"
    assert failure["exc_info"]
    assert (failure["operation_id"], failure["request_id"]) == (detail["operation_id"], "asked-1")
    assert line["status"] == 500


async def test_aborted_body_is_not_an_internal_error(client: aiohttp.ClientSession) -> None:
    with capture_logs() as logs:
        writer = await _send(client, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc")
        writer.close()
        await _until_logged(logs)

    assert [(line["event"], line["status"]) for line in logs] == [("request", 499)]


@pytest.mark.parametrize(
    "http", [HttpSettings(body_timeout_s=0.05), HttpSettings(body_rate_min=1_000_000)], ids=["late", "too slow"]
)
async def test_slow_body_is_rejected(
    http: HttpSettings, aiohttp_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_GRACE_S", 0.05)
    client = await aiohttp_client(context_of(settings=Settings(auth="off", http=http)), routes=ROUTES)
    with capture_logs() as logs:
        writer = await _send(client, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc")
        while not logs:
            writer.write(b"d")
            await asyncio.sleep(0.02)
        writer.close()

    assert [(line["event"], line["status"]) for line in logs] == [("request", 400)]


async def _send(client: aiohttp.ClientSession, text: bytes) -> asyncio.StreamWriter:
    url = client._base_url
    assert url is not None
    _, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(text)
    await writer.drain()
    return writer


async def _until_logged(logs: Sequence[object]) -> None:
    async with asyncio.timeout(60):
        while not logs:  # noqa: ASYNC110 - the log has no event to wait for
            await asyncio.sleep(0.01)


async def test_only_public_routes_respond_during_startup(aiohttp_client: Client) -> None:
    async def public(call: Request) -> Response:
        return Response(b"{}")

    routes = (*ROUTES, Route("GET", "/public", public, "", "", None, access=Access.PUBLIC))
    state = StartupState(replace(context_of(), cursor_secret=b""), waits_for="Starting: waiting for Postgres.")
    runner = make_runner(state, routes)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
            public_status = await status_of(session.get("/public"))
            refused = await session.get("/asked")
            refused_body = await refused.json()
            state.waits_for = ""
            later = await status_of(session.get("/asked"))
    finally:
        await runner.cleanup()

    assert (public_status, refused.status, later) == (200, 503, 200)
    assert refused_body == {"detail": "Starting: waiting for Postgres."}
    assert refused.headers["Retry-After"] == "1"


JSON = {"Content-Type": "application/json"}


async def test_shutdown_waits_for_a_request_at_most_as_long_as_a_query_may_take(
    aiohttp_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, was_cancelled = asyncio.Event(), asyncio.Event()

    async def stuck(call: Request) -> Response:
        begun.set()
        try:
            return await asyncio.Future[Response]()
        finally:
            was_cancelled.set()

    monkeypatch.setattr("query_api.http.app.OVERHEAD_S", 0.1)
    context = context_of(settings=Settings(auth="off", query=QuerySettings(budget_s=0.1, queue_s=0.1)))
    runner = make_runner(StartupState(context), (Route("GET", "/stuck", stuck, "", "", None, access=Access.PUBLIC),))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
        asked = asyncio.create_task(session.get("/stuck"))
        await begun.wait()
        async with asyncio.timeout(60):
            await runner.cleanup()
        await asyncio.gather(asked, return_exceptions=True)

    assert was_cancelled.is_set()


async def test_work_counts_for_the_project_of_its_request_on_a_shared_connection(aiohttp_client: Client) -> None:
    async def whose(_: Request) -> Response:
        tenant = current_tenant()
        return Response(orjson.dumps([tenant.project_id.int, tenant.has_neighbors, tenant.queue_s]))

    routes = (
        Route("GET", "/mine", whose, "", "", None),
        Route("GET", "/public", whose, "", "", None, access=Access.PUBLIC),
    )
    settings = Settings(auth="on", query=QuerySettings(queue_s=2))
    keys = KnownKeys({"a": UUID(int=1), "b": UUID(int=2)})
    client = await aiohttp_client(context_of(settings=settings, keys=keys), routes=routes)

    told = [
        await (await client.get(path, headers={"Authorization": key})).json()
        for path, key in (("/mine", "a"), ("/public", "a"), ("/mine", "b"), ("/mine", "a"))
    ]

    assert told == [[1, True, 2], [0, False, None], [2, True, 2], [1, True, 2]]
    assert current_tenant() is OWN_WORK
