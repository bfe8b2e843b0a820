"""OTLP over gRPC: the calls of ``opentelemetry-proto`` as requests to the routes of OTLP over HTTP (contract §4).

A call is authenticated before its message is read; then body, handler and errors are those of the route. What gRPC
bounds by itself: connections, calls of a connection, metadata, the size of a message before and after it is inflated,
and how long a connection may say nothing.

Source: OpenTelemetry Protocol 1.x, “OTLP/gRPC”; a message that is too large is ``RESOURCE_EXHAUSTED`` without
``RetryInfo``, as gRPC itself answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import grpc
from multidict import CIMultiDict, MultiDict

from common.errors import ErrorCode, InvalidInput, Retryable, ServiceError
from common.fair_share import FairBudget, FairShare, working_for
from common.postgres.audit import REFUSED_STATUSES
from common.postgres.keys import KeyOwner
from common.settings import InvalidSettings, Settings
from common.telemetry import GRPC_REQUEST_SECONDS, get_logger
from query_api.freshness.headers import COORDINATES_HEADER
from query_api.http.auditing import Caller, record_refusal
from query_api.http.authentication import check_scope, running, tenant_of
from query_api.http.body import read_wire, rules_of
from query_api.http.dispatch import REQUEST_ID_HEADER, StartupState, authenticate, request_id_of
from query_api.intake.otlp import PROTOBUF, code_of, status_message, with_retry_info
from query_api.request.errors import INTERNAL_MESSAGE, new_operation_id, status_of
from query_api.request.route import NO_PROJECT, Request, Response, Route

SERVICES: Final[Mapping[str, str]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "/v1/traces",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "/v1/metrics",
    "opentelemetry.proto.collector.logs.v1.LogsService": "/v1/logs",
}
"""Each service has one method, ``Export``, which does what POST does on this path."""

STREAMS_MAX: Final = 1_000
"""Calls of one connection at the same time; its client holds back the others."""

RECEIVING_MAX: Final = 32
"""Messages that are received at the same time; each takes up to the largest body in memory before it can be counted."""

UNCOUNTED_MAX: Final = 2_000
"""Calls beyond those that are served: they are authenticated, and refused with the time to retry. gRPC itself refuses
any further one, without a time."""

METADATA_BYTES_MAX: Final = 4_000
"""Trailing metadata of a response: clients accept 8 KiB in all. Longer coordinates are left out."""

KEEPALIVE_S: Final = 60.0
"""How long a connection may be silent before it is probed; a peer that is gone is dropped ``PROBE_S`` later."""

PROBE_S: Final = 20.0
IDLE_S: Final = 600.0
"""How long a connection without calls is kept; clients connect again by themselves."""

CANCELLED: Final = "CANCELLED"
"""The code in log and metrics of a call whose client left, or whose deadline passed."""

_NAMES: Final[Mapping[int, str]] = {code.value[0]: code.name for code in grpc.StatusCode}
_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}
_MESSAGE_CHARACTERS_MAX: Final = 1_000
_log: Final = get_logger("clearspan.api")


class OtlpGrpcServer:
    """Serves OTLP over gRPC on one port. ``routes`` are those of OTLP over HTTP. Make it inside a running loop."""

    def __init__(self, state: StartupState, routes: tuple[Route, ...], bodies: FairBudget) -> None:
        settings = state.context.settings
        calls_max = settings.http.connections_max
        self._state = state
        self._bodies = bodies
        self._calls = FairBudget("Too many calls are being served.", total=calls_max, share=(calls_max + 1) // 2)
        self._receiving = FairShare("places for messages over gRPC", RECEIVING_MAX)
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own log is not ours, and repeats what clients send
        self._server = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=calls_max + UNCOUNTED_MAX)
        by_path = {route.path: route for route in routes if route.method == "POST"}
        self._server.add_generic_rpc_handlers(
            tuple(_service(name, partial(self._serve, by_path[path])) for name, path in SERVICES.items())
        )

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses if it is 0. Raises ``InvalidSettings``."""
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            chosen: int = self._server.add_insecure_port(address)
        except RuntimeError as exc:
            raise InvalidSettings(
                f"CLEARSPAN_API_HOST and CLEARSPAN_OTLP_GRPC_PORT are {address}, which is not available."
            ) from exc
        await self._server.start()
        return chosen

    async def stop(self, *, grace_s: float) -> None:
        """Accept no more calls; wait for those that run, at most ``grace_s`` seconds."""
        await self._server.stop(grace_s)

    async def _serve(self, route: Route, _messages: object, call: Any) -> bytes:
        """Answer one call: return the response, or end it with a status."""
        headers = _headers(call)
        served = _Served(route, headers, _address(call), self._state)
        with served.recorded():
            try:
                return await self._answer_or_refuse(route, headers, call, served)
            except (grpc.RpcError, grpc.aio.AbortError, asyncio.CancelledError):
                raise
            except Exception:  # noqa: BLE001 - the last line of defence: gRPC sends the text of what it catches
                return await served.fail(call)

    async def _answer_or_refuse(self, route: Route, headers: CIMultiDict[str], call: Any, served: _Served) -> bytes:
        try:
            response = await self._answer(route, headers, call, served)
        except ServiceError as error:
            if error.code is ErrorCode.INTERNAL:
                raise
            return await served.refuse(call, error)
        call.set_trailing_metadata(_trailing(response, served.request_id))
        return response.body

    async def _answer(self, route: Route, headers: CIMultiDict[str], call: Any, served: _Served) -> Response:
        state = self._state
        owner = await authenticate(state, access=route.access, headers=headers, query=MultiDict())
        served.caller.owner, served.project_id = owner, owner.project_id
        async with running(state.context, owner):
            with state.key_limits.admitted(owner):
                check_scope(owner, route)
                return await self._export(route, owner, headers, call)

    async def _export(self, route: Route, owner: KeyOwner, headers: CIMultiDict[str], call: Any) -> Response:
        context = self._state.context
        tenant = await tenant_of(context, owner.project_id)
        with working_for(tenant), self._calls.holding(1):
            message = await self._receive(call)
            with self._bodies.holding(len(message)):
                rules = rules_of(route, context, path={}, content_type=PROTOBUF, content_encoding="")
                body = await read_wire(context.compute, message, rules)
            sees_all = context.keys is None
            request = Request(context, owner.project_id, {}, None, body, headers, owner.user_id, owner.scopes, sees_all)
            return await route.handler(request)

    async def _receive(self, call: Any) -> bytes:
        """Return the message of the call. Raises ``Overloaded`` if no place is free, ``InvalidInput`` without one."""
        http = self._state.context.settings.http
        async with self._receiving.place(timeout_s=http.header_timeout_s):
            try:
                async with asyncio.timeout(http.body_timeout_s):
                    message = await call.read()
            except TimeoutError as exc:
                raise InvalidInput(
                    f"The message arrived too slowly: at most {http.body_timeout_s:g} s are allowed."
                ) from exc
        if message is grpc.aio.EOF:  # also after a message that is too large, which gRPC reports itself
            raise InvalidInput("The call has no message.")
        return bytes(message)


class _Served:
    """One call, for the log, the metrics and errors."""

    def __init__(self, route: Route, headers: CIMultiDict[str], address: str | None, state: StartupState) -> None:
        self._route = route
        self._headers = headers
        self._state = state
        self._clock = state.context.clock
        self._code = CANCELLED
        self.request_id = request_id_of(headers)
        self.caller = Caller(address)
        self.project_id = NO_PROJECT

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Count and log the call when it ends."""
        started_s = self._clock.monotonic_s()
        try:
            yield
            if self._code == CANCELLED:
                self._code = grpc.StatusCode.OK.name
        finally:
            seconds = self._clock.monotonic_s() - started_s
            GRPC_REQUEST_SECONDS.labels(self._route.path, self._code).observe(seconds)
            _log.info(
                "request",
                request_id=self.request_id,
                method="gRPC",
                route=self._route.path,
                status=self._code,
                ms=round(seconds * 1000, 3),
                project_id=str(self.project_id),
            )

    async def refuse(self, call: Any, error: ServiceError) -> bytes:
        """End the call with the status of an error. Always raises ``AbortError``."""
        if error.public_message != error.detail:
            _log.warning(
                "A system failed; the client got the public message.",
                public_message=error.public_message,
                reason=error.detail,
                request_id=self.request_id,
            )
        status_code = status_of(error)
        audit = self._state.audit
        if audit is not None and status_code in REFUSED_STATUSES:
            record_refusal(audit, self._state.context, self.caller, self._route, self._headers, status_code)
        text = error.public_message[:_MESSAGE_CHARACTERS_MAX]
        status = status_message(code_of(error), text)
        return await self._abort(
            call, code_of(error), text, with_retry_info(status, error) if isinstance(error, Retryable) else status
        )

    async def fail(self, call: Any) -> bytes:
        """End the call after a bug of ours, with the id of its log entry. Always raises ``AbortError``."""
        operation_id = new_operation_id()
        _log.exception("A request failed unexpectedly.", operation_id=operation_id, request_id=self.request_id)
        code: int = grpc.StatusCode.INTERNAL.value[0]
        text = f"{INTERNAL_MESSAGE} operation_id: {operation_id}"
        return await self._abort(call, code, text, status_message(code, text))

    async def _abort(self, call: Any, code: int, text: str, status: bytes) -> bytes:
        self._code = _NAMES[code]
        metadata = (("grpc-status-details-bin", status), (REQUEST_ID_HEADER.lower(), self.request_id))
        await call.abort(_CODES[code], text, metadata)
        raise AssertionError("abort has returned")


def _service(name: str, serve: Callable[[object, Any], Awaitable[bytes]]) -> Any:
    """Return a service whose ``Export`` gets the bytes of its message when it reads them.

    On the wire a stream of one message is the same as one message.
    """
    return grpc.method_handlers_generic_handler(name, {"Export": grpc.stream_unary_rpc_method_handler(serve)})


def _options(settings: Settings) -> list[tuple[str, int]]:
    http = settings.http
    return [
        ("grpc.so_reuseport", 0),  # a taken port is an error
        ("grpc.max_receive_message_length", settings.limits.body_bytes_max),
        ("grpc.max_metadata_size", http.headers_bytes_max),
        ("grpc.absolute_max_metadata_size", http.headers_bytes_max),
        ("grpc.max_allowed_incoming_connections", http.connections_max),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.server_handshake_timeout_ms", round(http.header_timeout_s * 1_000)),
        ("grpc.keepalive_time_ms", round(KEEPALIVE_S * 1_000)),
        ("grpc.keepalive_timeout_ms", round(PROBE_S * 1_000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_connection_idle_ms", round(IDLE_S * 1_000)),
        ("grpc.http2.bdp_probe", 0),  # it lets a client send up to 16 MiB of a message that is not read
    ]


def _headers(call: Any) -> CIMultiDict[str]:
    """Return the metadata of a call as the headers of a request; binary ones are left out."""
    texts = ((key, value) for key, value in call.invocation_metadata() or () if isinstance(value, str))
    headers = CIMultiDict(texts)
    headers["Content-Type"] = PROTOBUF
    return headers


def _address(call: Any) -> str | None:
    """Return the address of the client: gRPC says ``ipv4:127.0.0.1:50000`` or ``ipv6:%5B::1%5D:50000``."""
    kind, _, rest = unquote(str(call.peer())).partition(":")
    return rest.rpartition(":")[0].strip("[]") or None if kind in {"ipv4", "ipv6"} else None


def _trailing(response: Response, request_id: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata after a response: its id, and the coordinates of its spans."""
    coordinates = response.headers.get(COORDINATES_HEADER, "")
    named = [(REQUEST_ID_HEADER.lower(), request_id)]
    if coordinates and len(coordinates) <= METADATA_BYTES_MAX:
        named.append((COORDINATES_HEADER.lower(), coordinates))
    return tuple(named)
