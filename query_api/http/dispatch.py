"""The way of one request: match, authenticate, read, validate, handle, answer; and its line in the log.

With ``server.py`` the only place that knows aiohttp's request and response. Errors become answers here, by ``errors.py`` or in the form
of the route's own protocol.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Any, Final

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import PayloadEncodingError

from common.errors import ErrorCode, InvalidInput, Overloaded, ServiceError, TooLarge, Unavailable, UnsupportedMedia
from common.http.server import RESPONSE_HEADERS
from common.postgres.keys import KeyOwner
from common.settings import HttpSettings
from common.telemetry import HTTP_REQUEST_SECONDS, get_logger
from common.tenant import OWN_WORK, current_tenant, working_for
from query_api.freshness.data_through import with_freshness
from query_api.http.auth import owner_of, tenant_of
from query_api.http.body_budget import BodyBudget
from query_api.http.content_encoding import COMPRESS_BYTES_MIN, compress, takes_gzip
from query_api.http.request_body import BodyRules, read_request_body
from query_api.http.router import Match, Router, guard_of
from query_api.http.startup_state import StartupState
from query_api.request.body_models import Strict
from query_api.request.context import ApiContext
from query_api.request.errors import internal_error_response, new_operation_id, response_of
from query_api.request.json_body import read_query
from query_api.request.route import NO_PROJECT, Access, PrepareContext, Request, Response, Route

REQUEST_ID_HEADER: Final = "X-Request-Id"
NO_ROUTE: Final = "none"
OTHER_METHOD: Final = "other"
"""Labels in metrics for a path that no route answers and for a method that none has: what a client makes up never becomes one."""

BODY_GRACE_S: Final = 10.0
"""How long a body may take to arrive before it has to keep up with the least rate."""

CLIENT_GONE_STATUS: Final = 499
"""In the log and the metrics of a request whose client left before the answer; nobody is sent it."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_log: Final = get_logger("clearspan.api")


class Dispatcher:
    """Answers every request of the process."""

    def __init__(self, router: Router, state: StartupState) -> None:
        self._router = router
        self._state = state
        self._budget = BodyBudget(state.context.settings)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Response one request; nothing but a cancellation gets out."""
        request_log = _RequestLog(request_id=_request_id(request))
        clock = self._state.context.clock
        started_s = clock.monotonic_s()
        try:
            response = await self._response(request, request_log)
        except asyncio.CancelledError:
            _record(request.method, request_log, status=CLIENT_GONE_STATUS, seconds=clock.monotonic_s() - started_s)
            raise
        seconds = clock.monotonic_s() - started_s
        told = partial(_record, request.method, request_log, status=response.status, seconds=seconds)
        asyncio.get_running_loop().call_soon(told)  # behind the answer: nobody waits for a line in the log
        return response

    async def _response(self, request: web.BaseRequest, request_log: _RequestLog) -> web.Response:
        try:
            return await _response(request, await self._answer(request, request_log), request_log)
        except Exception:  # noqa: BLE001 - the last line of defence, where telling of an error fails too
            return await _response(request, _our_failure(request_log), request_log)

    async def _answer(self, request: web.BaseRequest, request_log: _RequestLog) -> Response:
        try:
            return await self._handled(request, request_log)
        except ServiceError as error:
            if error.code is ErrorCode.INTERNAL:
                return _our_failure(request_log)
            if error.public_message != error.detail:
                _log.warning(
                    "system_failed",
                    public_message=error.public_message,
                    reason=error.detail,
                    request_id=request_log.request_id,
                )
            return _error_answer(error, request, request_log)
        except (web.RequestPayloadError, PayloadEncodingError, ConnectionError) as exc:
            return _error_answer(InvalidInput(f"The body cannot be read: {exc}."), request, request_log)

    async def _handled(self, request: web.BaseRequest, request_log: _RequestLog) -> Response:
        context = self._state.context
        try:
            match = self._router.match(request.method, request.rel_url.raw_path)
        except ServiceError:
            # Without a key nobody learns which paths there are.
            await self._owner_of(request, guard_of(request.rel_url.raw_path))
            raise
        route = request_log.route = match.route
        owner = await self._owner_of(request, route.access)
        request_log.project_id = owner.project_id
        request_log.is_in_route = True
        request_log.tenant = await tenant_of(context, owner.project_id)
        with working_for(request_log.tenant):
            query = _read_parameters(request, route)
            body = await _read(request, match, context, self._budget)
            call = Request(context, owner.project_id, match.path, query, body, request.headers, owner.user_id)
            return await (with_freshness(call, route.handler) if route.reads_spans else route.handler(call))

    async def _owner_of(self, request: web.BaseRequest, access: Access) -> KeyOwner:
        if access is not Access.PUBLIC and self._state.waits_for:
            raise Unavailable(self._state.waits_for)
        return await owner_of(self._state.context, access=access, headers=request.headers, query=request.query)


class _RequestLog:
    """What becomes known of a request on its way, for its line in the log."""

    def __init__(self, *, request_id: str) -> None:
        self.request_id = request_id
        self.route: Route | None = None
        self.project_id = NO_PROJECT
        self.tenant = OWN_WORK
        self.is_in_route = False


class _NoParameters(Strict):
    """The query string of a route that takes no parameters."""


def _read_parameters(request: web.BaseRequest, route: Route) -> Any:
    """Validate the query string. If only the body narrows the answer, parameters are refused instead of ignored."""
    if route.query is not None:
        return read_query(route.query, request.query)
    if route.body is not None and not route.ignores_unknown:
        read_query(_NoParameters, request.query)
    return None


async def _read(request: web.BaseRequest, match: Match, context: ApiContext, budget: BodyBudget) -> Any:
    """The body as the route takes it; a route that takes none leaves it unread."""
    route, limits = match.route, context.settings.limits
    if route.body is None and not route.raw_body:
        return None
    content_type = request.headers.get("Content-Type")
    if route.raw_body and not _is_one_of(content_type, route.raw_body):
        raise UnsupportedMedia(f"Content-Type '{content_type}' is not supported; legal: {', '.join(route.raw_body)}.")
    arrival = _Arrival(context.settings.http, budget)
    try:
        wire = await _read_wire(request, arrival, bytes_max=limits.body_bytes_max)
        rules = BodyRules(
            model=route.body,
            required=route.body_required,
            prepare=route.prepare,
            content_encoding=",".join(request.headers.getall("Content-Encoding", [])),
            bytes_max=limits.body_bytes_max,
            values_max=limits.body_values_max,
            context=PrepareContext(match.path, content_type, limits.span_limits(), context.clock.now_ns()),
        )
        return await read_request_body(context.compute, wire, rules)
    finally:
        arrival.close()


async def _read_wire(request: web.BaseRequest, arrival: _Arrival, *, bytes_max: int) -> bytes:
    too_large = TooLarge(f"The body is larger than {bytes_max} bytes.")
    if (request.content_length or 0) > bytes_max:
        raise too_large
    await _let_come(request)
    if request.content.is_eof() and (wire := request.content.read_nowait()):  # it came with its head, as small ones do
        if len(wire) > bytes_max:
            raise too_large
        arrival.add(len(wire))
        return wire
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout_at(arrival.ends_s) as timeout:
            async for piece in request.content.iter_any():
                pieces.append(piece)
                arrival.add(len(piece))
                if arrival.bytes_count > bytes_max:
                    raise too_large
                timeout.reschedule(arrival.ends_s)
    except TimeoutError as exc:
        raise InvalidInput(
            f"The body did not arrive in time: {arrival.bytes_count} bytes came; legal are {arrival.http.body_rate_min} bytes a"
            f" second and {arrival.http.body_timeout_s:g} s."
        ) from exc
    return b"".join(pieces)


class _Arrival:
    """How much of a body has arrived and is held, and until when more has to: each byte buys time, up to the timeout of the whole
    body."""

    def __init__(self, http: HttpSettings, budget: BodyBudget) -> None:
        self.http = http
        self._budget = budget
        self._tenant = current_tenant()
        self._began_s = asyncio.get_running_loop().time()
        self.bytes_count = 0

    def add(self, bytes_count: int) -> None:
        """Count bytes that came. Raises ``Overloaded``."""
        self._budget.take(self._tenant, bytes_count)
        self.bytes_count += bytes_count

    def close(self) -> None:
        """Nothing is held any more."""
        self._budget.give_back(self._tenant, self.bytes_count)

    @property
    def ends_s(self) -> float:
        """On the clock of the event loop."""
        timeout_s = self.http.body_timeout_s
        if self.http.body_rate_min:
            timeout_s = min(timeout_s, BODY_GRACE_S + self.bytes_count / self.http.body_rate_min)
        return self._began_s + timeout_s


async def _let_come(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send its body; one whose request is refused is never asked for it."""
    if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(CONTINUE)
        request.writer.output_size = 0  # the answer has not begun by that


def _is_one_of(content_type: str | None, legal: tuple[str, ...]) -> bool:
    """A missing content type is the first that the route takes."""
    return content_type is None or content_type.partition(";")[0].strip().lower() in legal


def _error_answer(error: ServiceError, request: web.BaseRequest, request_log: _RequestLog) -> Response:
    shape = request_log.route.error_format if request_log.route is not None and request_log.is_in_route else None
    return (shape(error, request.headers) if shape is not None else None) or response_of(error)


def _our_failure(request_log: _RequestLog) -> Response:
    operation_id = new_operation_id()
    _log.exception("failed", operation_id=operation_id, request_id=request_log.request_id)
    return internal_error_response(operation_id)


async def _response(request: web.BaseRequest, answer: Response, request_log: _RequestLog) -> web.Response:
    response = plain_response(answer, request_id=request_log.request_id)
    if len(answer.body) >= COMPRESS_BYTES_MIN:
        response.headers["Vary"] = "Accept-Encoding"
        if takes_gzip(request.headers.get("Accept-Encoding", "")):
            with suppress(Overloaded), working_for(request_log.tenant):  # without a thread it goes out as it is
                response.body = await compress(answer.body)
                response.headers["Content-Encoding"] = "gzip"
    return response


def plain_response(answer: Response, *, request_id: str) -> web.Response:
    """The answer as it is, under the id of its request."""
    headers = {
        **RESPONSE_HEADERS,
        **answer.headers,
        REQUEST_ID_HEADER: request_id,
        "Content-Type": answer.content_type,
    }
    return web.Response(body=answer.body, status=answer.status, headers=headers)


def _request_id(request: web.BaseRequest) -> str:
    """The client's id if it can stand in a log as it is, else a new one."""
    sent = request.headers.get(REQUEST_ID_HEADER, "")
    return sent if _REQUEST_ID.fullmatch(sent) else token_hex(16)


def _record(method: str, request_log: _RequestLog, *, status: int, seconds: float) -> None:
    route = request_log.route.path if request_log.route is not None else NO_ROUTE
    known_method = method if method in _METHODS else OTHER_METHOD
    HTTP_REQUEST_SECONDS.labels(known_method, route, str(status)).observe(seconds)
    # Probes and scrapes come every few seconds and say nothing that the metrics do not.
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
