"""Serve one request: match, authenticate, read, validate, handle, respond, log.

Errors become responses here, by ``request/errors.py`` or in the format of the route's own protocol.

The server is aiohttp's low-level one without ``web.Application``: unreadable requests, header and body limits, path
normalization and 404/405 rules would each have to override the application, which leaves its routing and middleware
unused.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Any, Final
from uuid import UUID

from aiohttp import web
from aiohttp.http_exceptions import PayloadEncodingError
from multidict import MultiMapping

from common.errors import (
    ErrorCode,
    InvalidInput,
    Overloaded,
    ServiceError,
    Unauthorized,
    Unavailable,
)
from common.fair_share import OWN_WORK, FairBudget, RequestTurn, Tenant, working_for
from common.http.server import RESPONSE_HEADERS, Handler, Server
from common.postgres.audit import REFUSED_STATUSES
from common.postgres.keys import KeyOwner
from common.setting_types import origins_of
from common.settings import HttpSettings
from common.telemetry import HTTP_REQUEST_SECONDS, get_logger
from query_api.audit.recorder import AuditRecorder
from query_api.freshness.headers import with_freshness
from query_api.http.auditing import CLIENT_GONE_STATUS, Caller, record_change, record_refusal
from query_api.http.authentication import KeyLimits, check_scope, owner_of, running, tenant_of
from query_api.http.body import COMPRESS_BYTES_MIN, compress, read_request_body, takes_gzip
from query_api.http.cross_origin import (
    PREFLIGHT,
    is_allowed_page,
    page_headers,
    preflight_response,
    preflight_route,
)
from query_api.http.stream import check_can_stream, cut_off, send_stream, send_whole
from query_api.request.context import ApiContext
from query_api.request.errors import internal_error_response, new_operation_id, response_of, status_of
from query_api.request.json_body import Strict, read_query
from query_api.request.route import NO_PROJECT, Access, Request, Response, Route, Router

REQUEST_ID_HEADER: Final = "X-Request-Id"
NO_ROUTE: Final = "none"
OTHER_METHOD: Final = "other"
"""Metric labels of unknown paths and methods, so that clients cannot create labels."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_log: Final = get_logger("clearspan.api")


@dataclass(slots=True)
class StartupState:
    """The singletons of the process, and what it still waits for while it starts; both change once.

    The API listens from the first moment, so that ``/readyz`` can say what is missing.
    """

    context: ApiContext
    waits_for: str = ""
    """A sentence that says what is missing. Until it is empty, every route that is not public answers 503."""

    audit: AuditRecorder | None = None
    """Writes the audit log; ``None`` only in tests."""

    key_limits: KeyLimits = field(init=False)

    def __post_init__(self) -> None:
        self.key_limits = KeyLimits(self.context.clock)


@dataclass(slots=True)
class _RequestLog:
    """What becomes known of a request while it is dispatched, for the log, the metrics and error responses."""

    request_id: str
    route: Route | None = None
    project_id: UUID = NO_PROJECT
    tenant: Tenant = OWN_WORK
    is_authenticated: bool = False
    admission: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What the request holds of its key, which may end it, until its response is sent."""

    responded_s: float = 0.0
    """When the response was ready; of a stream, when it was sent."""

    begun: web.StreamResponse | None = None
    """The response, as soon as it may have begun."""

    broken_off: int | None = None
    """The status of the failure that broke off a response."""

    caller: Caller = field(default_factory=Caller)


class Dispatcher:
    """Answers every request of the process."""

    def __init__(self, router: Router, state: StartupState, bodies: FairBudget) -> None:
        self._router = router
        self._state = state
        self._bodies = bodies

    async def dispatch(self, http_request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Raises nothing but ``CancelledError``."""
        request_log = _RequestLog(request_id_of(http_request.headers), caller=Caller(http_request.remote))
        clock = self._state.context.clock
        started_s = clock.monotonic_s()
        record = partial(_record, http_request.method, request_log)
        try:
            http_response = await self._respond_until_key_ends(http_request, request_log)
            seconds = request_log.responded_s - started_s
        except asyncio.CancelledError:
            record(status=CLIENT_GONE_STATUS, seconds=clock.monotonic_s() - started_s)
            raise
        # After the response is sent, so that no client waits for the log.
        asyncio.get_running_loop().call_soon(
            partial(record, status=request_log.broken_off or http_response.status, seconds=seconds)
        )
        return http_response

    def _record_refusal(
        self, http_request: web.BaseRequest, http_response: web.StreamResponse, request_log: _RequestLog
    ) -> None:
        route, headers, status = request_log.route, http_request.headers, http_response.status
        if self._state.audit is not None and status in REFUSED_STATUSES:
            record_refusal(self._state.audit, self._state.context, request_log.caller, route, headers, status)

    async def _respond_until_key_ends(
        self, http_request: web.BaseRequest, request_log: _RequestLog
    ) -> web.StreamResponse:
        """Return the response, sent if the request has a key; 401, or a response that is broken off, if that ends."""
        now_s = self._state.context.clock.monotonic_s
        try:
            async with request_log.admission:
                http_response = await self._respond(http_request, request_log)
                request_log.responded_s = now_s()
                self._record_refusal(http_request, http_response, request_log)
                owner = request_log.caller.owner
                if owner is not None and owner.key_id is not None:
                    request_log.begun = http_response
                    await send_whole(http_request, http_response)
                return http_response
        except Unauthorized as error:
            begun, request_log.responded_s = request_log.begun, now_s()
            if begun is None or not begun.prepared:
                refusal = _error_response(error, http_request, request_log)
                http_response = await _http_response(http_request, refusal, request_log)
                self._record_refusal(http_request, http_response, request_log)
                return http_response
            request_log.broken_off = status_of(error)
            cut_off(http_request)
            return begun

    async def _respond(self, http_request: web.BaseRequest, request_log: _RequestLog) -> web.StreamResponse:
        try:
            response = await self._handle_errors(http_request, request_log)
            if response.stream is not None:
                return await self._stream(http_request, response, response.stream, request_log)
            if request_log.route is not None and request_log.route.takes_pages:
                pages = page_headers(http_request.headers, self._origins)
                response = replace(response, headers={**response.headers, **pages})
            return await _http_response(http_request, response, request_log)
        except Exception:  # noqa: BLE001 - the last line of defence, also when reporting an error fails
            return await _http_response(http_request, _internal_error(request_log), request_log)

    async def _stream(
        self,
        http_request: web.BaseRequest,
        response: Response,
        stream: AsyncGenerator[bytes, None],
        request_log: _RequestLog,
    ) -> web.StreamResponse:
        async with aclosing(stream):
            headers = _headers(response, request_id=request_log.request_id)
            http_response = web.StreamResponse(status=response.status, headers=headers)
            request_log.begun = http_response
            if http_request.method != "HEAD":
                with working_for(request_log.tenant):
                    request_log.broken_off = await send_stream(
                        http_request,
                        http_response,
                        stream,
                        first=response.body,
                        timeout_s=self._state.context.settings.http.stall_timeout_s,
                        request_id=request_log.request_id,
                    )
            return http_response

    async def _handle_errors(self, http_request: web.BaseRequest, request_log: _RequestLog) -> Response:
        try:
            return await self._handle(http_request, request_log)
        except ServiceError as error:
            if error.code is ErrorCode.INTERNAL:
                return _internal_error(request_log)
            if error.public_message != error.detail:
                _log.warning(
                    "A system failed; the client got the public message.",
                    public_message=error.public_message,
                    reason=error.detail,
                    request_id=request_log.request_id,
                )
            return _error_response(error, http_request, request_log)
        except (web.RequestPayloadError, PayloadEncodingError, ConnectionError) as exc:
            return _error_response(InvalidInput(f"The body cannot be read: {exc}."), http_request, request_log)

    async def _handle(self, http_request: web.BaseRequest, request_log: _RequestLog) -> Response:
        context, headers, raw_path = self._state.context, http_request.headers, http_request.rel_url.raw_path
        if http_request.method == PREFLIGHT:
            request_log.route = preflight_route(self._router, raw_path, headers, self._origins)
            if request_log.route is not None:
                return preflight_response()
        try:
            route, path = self._router.match(http_request.method, raw_path)
        except ServiceError:
            # A client without a key does not learn which paths exist.
            await self._admit(http_request, request_log, access=self._router.required_access(raw_path))
            raise
        request_log.route = route
        owner = await self._admit(http_request, request_log, access=route.access)
        check_scope(owner, route)
        tenant = await tenant_of(context, owner.project_id)
        request_log.tenant = tenant if route.is_streamed else replace(tenant, turn=RequestTurn())
        with working_for(request_log.tenant):
            query = _read_parameters(http_request, route)
            body = await read_request_body(http_request, route, path, context, self._bodies)
            sees_all = context.keys is None or owner.project_id == NO_PROJECT
            if route.is_streamed:
                check_can_stream(http_request)
            request = Request(
                context, owner.project_id, path, query, body, headers, owner.user_id, owner.scopes, sees_all
            )
            audit, caller = self._state.audit, request_log.caller
            if audit is None or not route.changes_something:
                return await _handled(route, request)
            return await record_change(audit, caller, route, request, request_log.request_id, _handled)

    @property
    def _origins(self) -> frozenset[str]:
        return origins_of(self._state.context.settings.http.allowed_origins)

    async def _admit(self, http_request: web.BaseRequest, request_log: _RequestLog, *, access: Access) -> KeyOwner:
        """Authenticate, and count the request for the limits of its key. Raises as ``authenticate``, ``Overloaded``."""
        headers, query = http_request.headers, http_request.query
        route = request_log.route
        is_allowed = route is not None and route.takes_pages and is_allowed_page(headers, self._origins)
        owner = await authenticate(self._state, access=access, headers=headers, query=query, is_allowed_page=is_allowed)
        request_log.is_authenticated, request_log.project_id = True, owner.project_id
        request_log.caller.owner = owner
        await request_log.admission.enter_async_context(running(self._state.context, owner))
        request_log.admission.enter_context(self._state.key_limits.admitted(owner))
        return owner


async def authenticate(
    state: StartupState,
    *,
    access: Access,
    headers: Mapping[str, str],
    query: MultiMapping[str],
    is_allowed_page: bool = False,
) -> KeyOwner:
    """Return the project and the user of a request. Raises as ``owner_of``, and ``Unavailable`` during the start."""
    if access is not Access.PUBLIC and state.waits_for:
        raise Unavailable(state.waits_for)
    return await owner_of(state.context, access=access, headers=headers, query=query, is_allowed_page=is_allowed_page)


async def _handled(route: Route, request: Request) -> Response:
    return await (with_freshness(request, route.handler) if route.reads_spans else route.handler(request))


class _NoParameters(Strict):
    """The query string of a route that takes no parameters."""


def _read_parameters(http_request: web.BaseRequest, route: Route) -> Any:
    """Validate the query string. A route that filters by its body rejects parameters instead of ignoring them."""
    if route.query is not None:
        return read_query(route.query, http_request.query)
    if route.body is not None and not route.ignores_unknown:
        read_query(_NoParameters, http_request.query)
    return None


def _error_response(error: ServiceError, http_request: web.BaseRequest, request_log: _RequestLog) -> Response:
    if request_log.route is not None and request_log.is_authenticated and request_log.route.error_format is not None:
        return request_log.route.error_format(error, http_request.headers) or response_of(error)
    return response_of(error)


def _internal_error(request_log: _RequestLog) -> Response:
    operation_id = new_operation_id()
    _log.exception("A request failed unexpectedly.", operation_id=operation_id, request_id=request_log.request_id)
    return internal_error_response(operation_id)


async def _http_response(http_request: web.BaseRequest, response: Response, request_log: _RequestLog) -> web.Response:
    http_response = uncompressed(response, request_id=request_log.request_id)
    if len(response.body) >= COMPRESS_BYTES_MIN:
        vary = http_response.headers.get("Vary")
        http_response.headers["Vary"] = f"{vary}, Accept-Encoding" if vary else "Accept-Encoding"
        if takes_gzip(http_request.headers.get("Accept-Encoding", "")):
            with suppress(Overloaded), working_for(request_log.tenant):  # without a free thread it is sent uncompressed
                http_response.body = await compress(response.body)
                http_response.headers["Content-Encoding"] = "gzip"
    return http_response


def uncompressed(response: Response, *, request_id: str) -> web.Response:
    """Return aiohttp's form of a response, with the headers of every response."""
    headers = _headers(response, request_id=request_id)
    return web.Response(body=response.body, status=response.status, headers=headers)


def _headers(response: Response, *, request_id: str) -> dict[str, str]:
    return {
        **RESPONSE_HEADERS,
        **response.headers,
        REQUEST_ID_HEADER: request_id,
        "Content-Type": response.content_type,
    }


def request_id_of(headers: Mapping[str, str]) -> str:
    """Return the client's id if it is safe to log, else a new one."""
    sent = headers.get(REQUEST_ID_HEADER, "")
    return sent if _REQUEST_ID.fullmatch(sent) else token_hex(16)


def _record(method: str, request_log: _RequestLog, *, status: int, seconds: float) -> None:
    route = request_log.route.path if request_log.route is not None else NO_ROUTE
    known_method = method if method in _METHODS else OTHER_METHOD
    HTTP_REQUEST_SECONDS.labels(known_method, route, str(status)).observe(seconds)
    # Probes and scrapes come every few seconds and add nothing to the metrics.
    is_probe = request_log.route is not None and request_log.route.access is Access.PUBLIC
    _log.log(
        logging.DEBUG if is_probe else logging.INFO,
        "request",
        request_id=request_log.request_id,
        method=known_method,
        route=route,
        status=status,
        ms=round(seconds * 1000, 3),
        project_id=str(request_log.project_id),
    )


class Runner(web.ServerRunner):
    """Serves one handler until ``cleanup``. Make it inside a running event loop.

    ``cleanup`` calls ``before_shutdown``, then waits for running requests for at most ``grace_s`` seconds. A request
    whose client has disconnected is cancelled.
    """

    def __init__(
        self, handler: Handler, http: HttpSettings, *, before_shutdown: Callable[[], None], grace_s: float
    ) -> None:
        server = Server(handler, http, unreadable=_unreadable, failed=_failed)
        super().__init__(server, shutdown_timeout=grace_s)
        self._before_shutdown = before_shutdown

    async def shutdown(self) -> None:
        """Called by aiohttp before it waits for running requests."""
        self._before_shutdown()


def _unreadable(reason: str) -> web.Response:
    request_id = token_hex(16)
    _log.info("A request cannot be read as HTTP.", reason=reason, request_id=request_id)
    return _without_request(response_of(InvalidInput(reason)), request_id)


def _failed(exc: BaseException | None) -> web.Response:
    request_id, operation_id = token_hex(16), new_operation_id()
    _log.error("A request failed unexpectedly.", operation_id=operation_id, request_id=request_id, exc_info=exc)
    return _without_request(internal_error_response(operation_id), request_id)


def _without_request(response: Response, request_id: str) -> web.Response:
    HTTP_REQUEST_SECONDS.labels(OTHER_METHOD, NO_ROUTE, str(response.status)).observe(0.0)
    return uncompressed(response, request_id=request_id)
