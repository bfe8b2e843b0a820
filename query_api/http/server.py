"""HTTP below the dispatcher: connections, and requests that cannot be read as such, which get our errors too (contract §1).

aiohttp's low-level server, without its application: routes, errors and limits on bodies are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from common.errors import InvalidInput
from common.http.server import HEADER_BYTES_MAX, Connection, Handler, Server, headers_size, headers_too_large
from common.settings import HttpSettings
from common.telemetry import HTTP_REQUEST_SECONDS, get_logger
from query_api.http.dispatch import NO_ROUTE, OTHER_METHOD, plain_response
from query_api.request.errors import internal_error_response, new_operation_id, response_of
from query_api.request.route import Response

BAD_REQUEST: Final = 400
REASON_CHARACTERS_MAX: Final = 200

_log: Final = get_logger("clearspan.api")


class Runner(web.ServerRunner):
    """Serves one handler until ``cleanup``. ``let_go`` is called then, before the wait for requests under way: ``grace_s`` seconds
    at the most.

    Bodies are inflated by us, within limits, and requests are logged by us. A request whose client has gone is cancelled where
    it awaits, so that nobody waits for news that nobody hears. Make it inside a running loop.
    """

    def __init__(self, handler: Handler, http: HttpSettings, *, let_go: Callable[[], None], grace_s: float) -> None:
        super().__init__(_Server(handler, http), shutdown_timeout=grace_s)
        self._let_go = let_go

    async def shutdown(self) -> None:
        """What comes before the wait."""
        self._let_go()


class _Server(Server):
    def __init__(self, handler: Handler, http: HttpSettings) -> None:
        async def bounded(request: web.BaseRequest) -> web.StreamResponse:
            if headers_size(request) > http.headers_bytes_max:
                return _refused(headers_too_large(http))
            return await handler(request)

        super().__init__(bounded, http)

    def __call__(self) -> web.RequestHandler:
        return _Connection(self)


class _Connection(Connection):
    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The answer to what never came to the handler, or came out of it; the connection ends with it."""
        if request.writer.output_size > 0:
            raise ConnectionError("The answer has begun already, so an error cannot be told.")
        if status == BAD_REQUEST:
            return _refused(_reason(exc, message))
        request_id, operation_id = token_hex(16), new_operation_id()
        _log.error("failed", operation_id=operation_id, request_id=request_id, exc_info=exc)
        return _last_response(internal_error_response(operation_id), request_id)


def _refused(reason: str) -> web.StreamResponse:
    request_id = token_hex(16)
    _log.info("unreadable", reason=reason, request_id=request_id)
    return _last_response(response_of(InvalidInput(reason)), request_id)


def _last_response(answer: Response, request_id: str) -> web.StreamResponse:
    HTTP_REQUEST_SECONDS.labels(OTHER_METHOD, NO_ROUTE, str(answer.status)).observe(0.0)
    response = plain_response(answer, request_id=request_id)
    response.force_close()
    return response


def _reason(exc: BaseException | None, message: str | None) -> str:
    if isinstance(exc, LineTooLong):
        return f"The request line, or a header, is larger than {HEADER_BYTES_MAX} bytes."
    told: Any = (message or "").strip().partition("\n")[0].rstrip(":. ")[:REASON_CHARACTERS_MAX]
    return f"This cannot be read as HTTP/1.1: {told or 'no request'}."
