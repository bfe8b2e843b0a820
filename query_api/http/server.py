"""HTTP below the dispatcher: connections, and our own error responses to requests that cannot be parsed (contract §1).

This is aiohttp's low-level server without ``web.Application``: unreadable requests, header and body limits, path
normalization and 404/405 rules would each have to override the application, which leaves its routing and middleware
unused.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from common.errors import InvalidInput
from common.http.server import HEADER_BYTES_MAX, Connection, Handler, Server, headers_size, headers_too_large
from common.settings import HttpSettings
from common.telemetry import HTTP_REQUEST_SECONDS, get_logger
from query_api.http.dispatch import NO_ROUTE, OTHER_METHOD, uncompressed
from query_api.request.errors import internal_error_response, new_operation_id, response_of
from query_api.request.route import Response

BAD_REQUEST: Final = 400
REASON_CHARACTERS_MAX: Final = 200

_log: Final = get_logger("clearspan.api")


class Runner(web.ServerRunner):
    """Serves one handler until ``cleanup``. Make it inside a running event loop.

    ``cleanup`` calls ``before_shutdown``, then waits for running requests for at most ``grace_s`` seconds. A request
    whose client has disconnected is cancelled.
    """

    def __init__(
        self, handler: Handler, http: HttpSettings, *, before_shutdown: Callable[[], None], grace_s: float
    ) -> None:
        super().__init__(_Server(handler, http), shutdown_timeout=grace_s)
        self._before_shutdown = before_shutdown

    async def shutdown(self) -> None:
        """Called by aiohttp before it waits for running requests."""
        self._before_shutdown()


class _Server(Server):
    def __init__(self, handler: Handler, http: HttpSettings) -> None:
        async def bounded(http_request: web.BaseRequest) -> web.StreamResponse:
            if headers_size(http_request) > http.headers_bytes_max:
                return _unreadable(headers_too_large(http))
            return await handler(http_request)

        super().__init__(bounded, http)

    def __call__(self) -> web.RequestHandler:
        return _Connection(self)


class _Connection(Connection):
    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what never reached the handler, or an error that left it, and close the connection."""
        if request.writer.output_size > 0:
            raise ConnectionError("The response has already begun, so the error cannot be reported.")
        if status == BAD_REQUEST:
            return _unreadable(_reason(exc, message))
        request_id, operation_id = token_hex(16), new_operation_id()
        _log.error("failed", operation_id=operation_id, request_id=request_id, exc_info=exc)
        return _closing(internal_error_response(operation_id), request_id)


def _unreadable(reason: str) -> web.StreamResponse:
    request_id = token_hex(16)
    _log.info("unreadable", reason=reason, request_id=request_id)
    return _closing(response_of(InvalidInput(reason)), request_id)


def _closing(response: Response, request_id: str) -> web.StreamResponse:
    HTTP_REQUEST_SECONDS.labels(OTHER_METHOD, NO_ROUTE, str(response.status)).observe(0.0)
    http_response = uncompressed(response, request_id=request_id)
    http_response.force_close()
    return http_response


def _reason(exc: BaseException | None, message: str | None) -> str:
    if isinstance(exc, LineTooLong):
        return f"The request line, or a header, is larger than {HEADER_BYTES_MAX} bytes."
    reason = (message or "").strip().partition("\n")[0].rstrip(":. ")[:REASON_CHARACTERS_MAX]
    return f"This cannot be read as HTTP/1.1: {reason or 'no request'}."
