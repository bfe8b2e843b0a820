"""Serves the tools over standard input and output, or over HTTP.

Over stdio every call has the key of the command. Over HTTP it has the ``Authorization`` header of its caller and never
the key of the command, so reaching the port is not enough to see spans.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, redirect_stdout
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

import orjson
import uvicorn
from mcp.server.fastmcp import Context

from clearspan.client.connection import ApiClient, RequestFailed, WrongUsage, open_connection
from clearspan.console import fail
from clearspan.mcp_server.tools import build_server
from clearspan.options import ServerOptions
from common.settings import Settings
from query_api.filter.operands import parts_of

CALLS_MAX: Final = 64
"""Requests over HTTP at the same time; more are answered with 503."""


def mcp(settings: Settings, /, *, server: ServerOptions, listen: str | None) -> int:
    """Serve until standard input ends, or over HTTP until a signal; return the exit code."""
    try:
        if listen is None:
            asyncio.run(_serve_stdio(settings, server))
        else:
            asyncio.run(_serve_http(settings, server, *_loopback_address(listen)))
    except WrongUsage as exc:
        return fail(str(exc), code=2)
    except (RequestFailed, OSError) as exc:
        return fail(str(exc))
    return 0


async def _serve_stdio(settings: Settings, server: ServerOptions) -> None:
    async with open_connection(settings, server) as api:
        await api.get("/projects/current")  # a wrong address or key ends the command, not the first call

    @asynccontextmanager
    async def connect(_ctx: Context[Any, Any, Any]) -> AsyncIterator[ApiClient]:
        async with open_connection(settings, server) as connected:
            yield connected

    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as output, redirect_stdout(output):
        await build_server(connect).run_stdio_async()  # closes its standard output


async def _serve_http(settings: Settings, server: ServerOptions, host: str, port: int) -> None:
    @asynccontextmanager
    async def connect(ctx: Context[Any, Any, Any]) -> AsyncIterator[ApiClient]:
        request = ctx.request_context.request
        key = "" if request is None else request.headers.get("authorization", "").removeprefix("Bearer ")
        async with open_connection(settings, server._replace(key=key)) as connected:
            yield connected

    app = build_server(
        connect,
        host=host,
        port=port,
        stateless_http=True,
        json_response=True,
        max_request_body_size=BODY_BYTES_MAX,
    ).streamable_http_app()
    config = uvicorn.Config(CheckedBodies(app), host=host, port=port, log_level="warning", limit_concurrency=CALLS_MAX)
    print(f"MCP over HTTP: http://{host}:{port}/mcp", flush=True)
    await uvicorn.Server(config).serve()


def _loopback_address(listen: str) -> tuple[str, int]:
    """Return host and port. Raises ``WrongUsage`` unless the host is a loopback address."""
    host, _, port = listen.rpartition(":")
    host = host or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65_535:
        raise WrongUsage(f"--listen must be a port or an address with a port, such as 127.0.0.1:8090, not {listen!r}.")
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        raise WrongUsage(f"--listen takes loopback addresses only, not {host!r}: put a proxy with TLS before it.")
    return host, int(port)


BODY_BYTES_MAX: Final = 1 << 20
LEVELS_MAX: Final = 32
"""Levels of a body. The arguments of the tools need 6."""

_PARSE_ERROR: Final = -32_700
"""Of JSON-RPC."""

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


class CheckedBodies:
    """An ASGI application that refuses other bodies than JSON of at most ``LEVELS_MAX`` levels.

    The library would answer them with 500.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer 400 if the body is refused; else let the application answer."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        received: list[Message] = []
        body = b""
        while len(body) <= BODY_BYTES_MAX:  # a larger one is refused by the application
            received.append(await receive())
            body += received[-1].get("body", b"")
            if not received[-1].get("more_body", False):
                if (problem := problem_of(body)) is not None:
                    await _refuse(send, problem)
                    return
                break
        left = iter(received)

        async def receive_again() -> Message:
            message = next(left, None)
            return await receive() if message is None else message

        await self._app(scope, receive_again, send)


def problem_of(body: bytes) -> str | None:
    """Return why a body is refused; ``None`` if it is not."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        return f"The body is not JSON: {exc}."
    if any(level >= LEVELS_MAX for _, level in parts_of(parsed)):
        return f"The body nests deeper than {LEVELS_MAX} levels."
    return None


async def _refuse(send: Send, problem: str) -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": problem}})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
