"""Send a response of any length: as fast as the client reads, and broken off if it cannot be completed (contract §9).

A stream is sent in chunks (RFC 9112 §7.1). If it fails, the connection is closed without the final chunk, so that no
client takes what it got for all of it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from aiohttp import HttpVersion11, web

from common.errors import InvalidInput, ServiceError
from common.limits import KIB
from common.telemetry import get_logger
from query_api.request.errors import INTERNAL_STATUS, status_of

WRITE_BYTES: Final = 256 * KIB
"""How much is written at once. A client that takes longer than the timeout for that much has stopped reading."""

STALLED_STATUS: Final = 408
"""The status in log and metrics of a stream whose client stopped reading; it is never sent."""

_DROP_UNSENT: Final = struct.pack("ii", 1, 0)
"""``struct linger``: on, for no time."""

_log: Final = get_logger("clearspan.api")


def check_can_stream(http_request: web.BaseRequest) -> None:
    """Raise ``InvalidInput`` if the client could not see that a stream is broken off."""
    if http_request.version < HttpVersion11:
        raise InvalidInput("This response is a stream of unknown length, which needs HTTP/1.1.")


async def send_stream(
    http_request: web.BaseRequest,
    http_response: web.StreamResponse,
    pieces: AsyncGenerator[bytes, None],
    *,
    first: bytes,
    timeout_s: float,
    request_id: str,
) -> int | None:
    """Send ``first`` and the pieces after it; return ``None``, or the status of the failure that broke it off."""
    http_response.enable_chunked_encoding()
    await http_response.prepare(http_request)
    try:
        await _write(http_response, first, timeout_s=timeout_s)
        async for piece in pieces:
            await _write(http_response, piece, timeout_s=timeout_s)
    except ServiceError as error:
        reason, status = error.detail, status_of(error)
    except TimeoutError:
        reason, status = f"The client read nothing for {timeout_s:g} s.", STALLED_STATUS
    except ConnectionError as exc:
        reason, status = f"The connection ended: {exc}.", STALLED_STATUS
    except Exception as exc:  # noqa: BLE001 - the response has begun, so nothing else can report it
        reason, status = repr(exc), INTERNAL_STATUS
    else:
        return None
    _log.warning("A response was broken off.", reason=reason, request_id=request_id, exc_info=status >= INTERNAL_STATUS)
    _close(http_request, is_stalled=status == STALLED_STATUS)
    return status


def cut_off(http_request: web.BaseRequest) -> None:
    """End the connection in the middle of a response; what was written but not sent yet is dropped."""
    transport = http_request.transport
    if transport is not None:
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT)
        transport.abort()


async def send_whole(http_request: web.BaseRequest, http_response: web.StreamResponse) -> None:
    """Send what is left of a response; return when the client has read it but for what the connection holds.

    If the connection ends, aiohttp notices that again.
    """
    with suppress(ConnectionError):
        await http_response.prepare(http_request)
        await http_response.write_eof()


async def _write(http_response: web.StreamResponse, piece: bytes, *, timeout_s: float) -> None:
    view = memoryview(piece)
    for begin in range(0, len(view), WRITE_BYTES):
        async with asyncio.timeout(timeout_s):
            await http_response.write(view[begin : begin + WRITE_BYTES])


def _close(http_request: web.BaseRequest, *, is_stalled: bool) -> None:
    """Close the connection; what was written is still sent, unless the client does not read."""
    transport = http_request.transport
    if transport is not None:
        transport.abort() if is_stalled else transport.close()
