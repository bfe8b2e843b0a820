"""Read the body of a request: receive it within limits of time and memory, inflate, parse, validate and prepare it.
Compress the body of a response if the client accepts it.

Parsing a few megabytes of JSON can take seconds and holds the interpreter lock most of the time, in a thread too. So a
body that is large, or that inflates to a large one, is read in a child process (ADR 0014), unless its route can prepare
it in short steps.

Source: RFC 9110 §8.4 and §12.5.3, RFC 1952 (gzip may have several members), RFC 1950 (zlib).
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import HttpVersion11, web
from pydantic import BaseModel

from common.errors import InvalidInput, TooLarge, UnsupportedMedia
from common.fair_share import FairBudget, current_tenant, in_thread
from common.limits import KIB
from common.settings import HttpSettings, Settings
from common.steps import Steps, finished
from common.time_slices import in_slices
from query_api.compute import IN_PROCESS_BYTES_MAX, Compute
from query_api.request.context import ApiContext
from query_api.request.json_body import read_body
from query_api.request.route import PrepareContext, Route

PREPARED_BYTES_MAX: Final = 4 * KIB
"""``IN_PROCESS_BYTES_MAX`` of routes with ``prepare``: a rejected span costs 8 µs and may take only two bytes."""

BODY_GRACE_S: Final = 10.0
"""How long a body may take to arrive before its minimum rate applies."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

COMPRESS_BYTES_MIN: Final = 1_000
"""Responses below this size are not compressed: it would cost more than it saves."""

OFF_LOOP_BYTES_MIN: Final = 64 * 1024
"""From this size on compressing takes longer than passing the work to a thread."""

SLICE_BYTES: Final = 4 * 1024
"""Input that is inflated at once. The rest of it is copied at the end of each gzip member: with whole bodies, half a
million members took minutes."""

PIECE_BYTES_MAX: Final = 256 * KIB
"""What is inflated in one step: a slice of 4 KiB may inflate to 4 MiB."""

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_ZLIB_WINDOW: Final = zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZLIB_MAGICS: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def body_budget(settings: Settings) -> FairBudget:
    """Return the budget for the bytes of all bodies of the process, from their first byte until they are read.

    A project with neighbors may hold at most half of the bytes, but always one body of the largest size.
    """
    body_bytes_max = settings.limits.body_bytes_max
    total = max(settings.http.bodies_bytes_max, body_bytes_max)
    return FairBudget(
        "Other requests use all the memory for bodies.", total=total, share=max(total // 2, body_bytes_max)
    )


@dataclass(frozen=True, slots=True)
class BodyRules:
    """How to read a body. Picklable."""

    model: type[BaseModel] | None
    """``None`` if the body is taken as bytes."""

    required: bool
    prepare: Callable[[Any], Any] | None
    """The route's ``prepare`` with its context."""

    prepare_in_steps: Callable[[bytes], Steps[Any]] | None
    """The route's ``prepare_in_steps`` with its context."""

    content_type: str | None
    content_encoding: str
    bytes_max: int
    values_max: int


async def read_request_body(
    http_request: web.BaseRequest, route: Route, path: dict[str, str], context: ApiContext, budget: FairBudget
) -> Any:
    """Return the body as the handler takes it; ``None``, and leave the body unread, if the route takes none.

    Raises ``UnsupportedMedia``, ``TooLarge``, ``InvalidInput``, ``InvalidRequest``, ``Overloaded``.
    """
    limits = context.settings.limits
    if route.body is None and not route.raw_body:
        return None
    content_type = http_request.headers.get("Content-Type")
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if route.raw_body and content_type is not None and media_type not in route.raw_body:
        raise UnsupportedMedia(f"Content-Type '{content_type}' is not supported; allowed: {', '.join(route.raw_body)}.")
    arrival = _Arrival(context.settings.http, budget)
    try:
        wire = await _receive(http_request, arrival, bytes_max=limits.body_bytes_max)
        encoding = ",".join(http_request.headers.getall("Content-Encoding", []))
        rules = rules_of(route, context, path=path, content_type=content_type, content_encoding=encoding)
        return await read_wire(context.compute, wire, rules)
    finally:
        arrival.close()


def rules_of(
    route: Route, context: ApiContext, *, path: Mapping[str, str], content_type: str | None, content_encoding: str
) -> BodyRules:
    """Return how to read the body of a request to ``route``."""
    limits = context.settings.limits
    prepare: Callable[[Any], Any] | None = None
    prepare_in_steps: Callable[[bytes], Steps[Any]] | None = None
    if route.prepare is not None:
        kafka, count = context.settings.kafka, context.publisher.partitions_count
        known = PrepareContext(
            path,
            content_type,
            limits.span_limits(),
            context.clock.now_ns(),
            otlp_partitions=count(kafka.otlp_topic),
            span_partitions=count(kafka.intake_topic),
            logs_partitions=count(kafka.logs_topic),
            takes_logs=context.takes_logs,
        )
        prepare = partial(route.prepare, context=known)
        if route.prepare_in_steps is not None:
            prepare_in_steps = partial(route.prepare_in_steps, context=known)
    return BodyRules(
        model=route.body,
        required=route.body_required,
        prepare=prepare,
        prepare_in_steps=prepare_in_steps,
        content_type=content_type,
        content_encoding=content_encoding,
        bytes_max=limits.body_bytes_max,
        values_max=limits.body_values_max,
    )


async def _receive(http_request: web.BaseRequest, arrival: _Arrival, *, bytes_max: int) -> bytes:
    def check_size(bytes_count: int) -> None:
        if bytes_count > bytes_max:
            raise TooLarge(f"The body is larger than {bytes_max} bytes.")

    check_size(http_request.content_length or 0)
    await _send_continue(http_request)
    content = http_request.content
    if content.is_eof() and (wire := content.read_nowait()):  # a small body arrives together with its headers
        check_size(len(wire))
        arrival.add(len(wire))
        return wire
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout_at(arrival.deadline_s) as timeout:
            async for piece in content.iter_any():
                pieces.append(piece)
                arrival.add(len(piece))
                check_size(arrival.bytes_count)
                timeout.reschedule(arrival.deadline_s)
    except TimeoutError as exc:
        raise InvalidInput(
            f"The body arrived too slowly: {arrival.bytes_count} bytes so far; at least {arrival.http.body_rate_min}"
            f" bytes a second and at most {arrival.http.body_timeout_s:g} s are allowed."
        ) from exc
    return b"".join(pieces)


async def _send_continue(http_request: web.BaseRequest) -> None:
    """Answer ``Expect: 100-continue``. A request that is rejected before this never sends its body."""
    if http_request.version == HttpVersion11 and http_request.headers.get("Expect", "").lower() == "100-continue":
        await http_request.writer.write(CONTINUE)
        http_request.writer.output_size = 0  # the response itself has not begun


class _Arrival:
    """A body that arrives: its bytes so far, held in the budget, and its deadline, which each byte extends."""

    def __init__(self, http: HttpSettings, budget: FairBudget) -> None:
        self.http = http
        self._budget = budget
        self._tenant = current_tenant()
        self._began_s = asyncio.get_running_loop().time()
        self.bytes_count = 0

    def add(self, bytes_count: int) -> None:
        """Count bytes that arrived. Raises ``Overloaded``."""
        self._budget.take(self._tenant, bytes_count)
        self.bytes_count += bytes_count

    def close(self) -> None:
        """Give the bytes back to the budget."""
        self._budget.give_back(self._tenant, self.bytes_count)

    @property
    def deadline_s(self) -> float:
        """On the clock of the event loop."""
        timeout_s = self.http.body_timeout_s
        if self.http.body_rate_min:
            timeout_s = min(timeout_s, BODY_GRACE_S + self.bytes_count / self.http.body_rate_min)
        return self._began_s + timeout_s


async def read_wire(compute: Compute, wire: bytes, rules: BodyRules) -> Any:
    """Read a body that has arrived, without holding up the event loop. Raises as ``read``, and ``Overloaded``."""
    if rules.prepare_in_steps is not None:
        prepared = await in_slices(_prepare_in_steps(wire, rules, rules.prepare_in_steps))
        if prepared is not None:
            return prepared
    bytes_max = PREPARED_BYTES_MAX if rules.prepare else IN_PROCESS_BYTES_MAX
    if len(wire) <= bytes_max:
        try:
            body = _inflate(wire, rules, bytes_max=min(bytes_max, rules.bytes_max))
        except TooLarge:
            if bytes_max >= rules.bytes_max:
                raise
        else:
            return _read_inflated(body, rules)
    return await compute.run(read, wire, rules)


def read(wire: bytes, rules: BodyRules) -> Any:
    """Inflate, parse, validate and prepare a body. Raises a ``ServiceError`` if it is not acceptable."""
    return _read_inflated(_inflate(wire, rules, bytes_max=rules.bytes_max), rules)


def _prepare_in_steps(wire: bytes, rules: BodyRules, prepare: Callable[[bytes], Steps[Any]]) -> Steps[Any]:
    body = yield from inflate_in_steps(wire, content_encoding=rules.content_encoding, bytes_max=rules.bytes_max)
    body = yield from _inflate_by_magic(body, bytes_max=rules.bytes_max)
    return (yield from prepare(body))


def _inflate(wire: bytes, rules: BodyRules, *, bytes_max: int) -> bytes:
    body = inflate(wire, content_encoding=rules.content_encoding, bytes_max=bytes_max)
    return body if rules.model is not None else inflate_by_magic(body, bytes_max=bytes_max)


def _read_inflated(inflated: bytes, rules: BodyRules) -> Any:
    body: Any = inflated
    if rules.model is not None:
        values_max = None if rules.prepare else rules.values_max
        body = read_body(
            rules.model, inflated, content_type=rules.content_type, required=rules.required, values_max=values_max
        )
    return rules.prepare(body) if rules.prepare else body


def inflate(body: bytes, *, content_encoding: str, bytes_max: int) -> bytes:
    """Decode ``Content-Encoding``.

    Raises ``UnsupportedMedia`` for an encoding other than gzip, ``TooLarge`` as soon as the result exceeds
    ``bytes_max``, ``InvalidInput`` if the body is not gzip.
    """
    if not _is_gzip(content_encoding):
        return body
    return finished(_decompress(body, window=_GZIP_WINDOW, bytes_max=bytes_max))


def inflate_in_steps(body: bytes, *, content_encoding: str, bytes_max: int) -> Steps[bytes]:
    """Do what ``inflate`` does."""
    if not _is_gzip(content_encoding):
        return body
    return (yield from _decompress(body, window=_GZIP_WINDOW, bytes_max=bytes_max))


def _is_gzip(content_encoding: str) -> bool:
    match content_encoding.strip().lower():
        case "" | "identity":
            return False
        case "gzip" | "x-gzip":
            return True
        case other:
            raise UnsupportedMedia(f"Content-Encoding '{other}' is not supported; allowed: gzip, identity.")


def inflate_by_magic(body: bytes, *, bytes_max: int) -> bytes:
    """Inflate a body that is gzip or zlib by its first bytes; return any other unchanged."""
    return finished(_inflate_by_magic(body, bytes_max=bytes_max))


def _inflate_by_magic(body: bytes, *, bytes_max: int) -> Steps[bytes]:
    if body.startswith(_GZIP_MAGIC):
        return (yield from _decompress(body, window=_GZIP_WINDOW, bytes_max=bytes_max))
    if body.startswith(_ZLIB_MAGICS):
        return (yield from _decompress(body, window=_ZLIB_WINDOW, bytes_max=bytes_max))
    return body


def _decompress(body: bytes, *, window: int, bytes_max: int) -> Steps[bytes]:
    pieces: list[bytes] = []
    left = bytes_max
    stream = zlib.decompressobj(window)
    for start in range(0, len(body), SLICE_BYTES):
        rest = body[start : start + SLICE_BYTES]
        piece, piece_bytes_max = b"", 1
        while rest or (len(piece) == piece_bytes_max and not stream.eof):
            if stream.eof:  # the next member begins
                stream = zlib.decompressobj(window)
            piece_bytes_max = min(left + 1, PIECE_BYTES_MAX)
            try:
                piece = stream.decompress(rest, piece_bytes_max)
            except zlib.error as exc:
                raise InvalidInput(f"The compressed body cannot be read: {exc}.") from exc
            left -= len(piece)
            if left < 0:
                raise TooLarge(f"The body is larger than {bytes_max} bytes when inflated.")
            pieces.append(piece)
            rest = stream.unused_data or stream.unconsumed_tail
            yield
    if body and not stream.eof:
        raise InvalidInput("The compressed body ends early.")
    return b"".join(pieces)


def takes_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header allows gzip."""
    allowed: dict[str, bool] = {}
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        allowed[coding.strip()] = parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return allowed.get("gzip", allowed.get("x-gzip", allowed.get("*", False)))


async def compress(body: bytes) -> bytes:
    """Compress with gzip at its fastest level: JSON is at most a tenth larger than at the best level, in a third of the
    time."""
    if len(body) < OFF_LOOP_BYTES_MIN:
        return gzip.compress(body, compresslevel=1, mtime=0)
    return await in_thread(gzip.compress, body, compresslevel=1, mtime=0)
