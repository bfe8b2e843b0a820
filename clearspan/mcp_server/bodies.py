"""Refuses bodies over HTTP that the library answers with 500: JSON that is nested deeply, or is no JSON at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

import orjson

from query_api.filter.operands import parts_of

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
    """An ASGI application whose bodies are JSON of at most ``LEVELS_MAX`` levels."""

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
