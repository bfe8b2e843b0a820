"""What a page is taken from: the query of a request, its window, and the cursor of the page (contract §3.3, §3.5).

A ``Window`` is what ``Windowing`` means for a statement: bounds, order, sample, and the position at which the previous
page ended. A cursor is that position, signed and encrypted:

    base64url( version 1 B │ AES-SIV( fingerprint 16 B │ [time 8 B │] position, n B ) )

The time of the first page, from which relative times count, is in cursors of the version ``DATED`` alone. The
fingerprint binds a cursor to its query: kind of pages, project, filter, order and bounds, but not the limit. Positions
contain Kafka offsets, which count the records of every project, so they are encrypted (ADR 0011). AES-SIV (RFC 5297)
authenticates and encrypts without a nonce that could repeat.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.errors import InvalidCursor
from common.times import RelativeTime, microseconds
from query_api.filter.language import Node
from query_api.filter.parse import has_relative_time, parse_filter
from query_api.request.route import Request
from query_api.spans.versions import Position, TracePosition
from query_api.spans.windowing import BasicWindowing, Order, Windowing

SAMPLED: Final = "reinterpretAsUInt32(reverse(substring(trace_id, 1, 4))) % 100 < {rate_percent:UInt8}"
"""The condition of ``windowing.rate`` on ``trace_id``: the same traces each time (reference §6.4). Omit it at 100 %."""
_SPAN_CURSOR: Final = struct.Struct(">q16s16s")
_LOWEST_ID: Final = bytes(16)
_HIGHEST_ID: Final = b"\xff" * 16

VERSION: Final = 5
DATED: Final = 6
FINGERPRINT_BYTES: Final = 16
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 64  # of AES-256-SIV
_TIME: Final = struct.Struct(">q")


class CursorContent(NamedTuple):
    """What a cursor holds. ``now_us`` is the time of the first page, if it has one."""

    position: bytes
    now_us: int | None = None


def fingerprint(parts: Sequence[bytes]) -> bytes:
    """Return 16 bytes that differ if any of the parts differs."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:FINGERPRINT_BYTES]


def write_cursor(position: bytes, *, scope: bytes, secret: bytes, now_us: int | None = None) -> str:
    """Return a cursor with ``position``, and with the time of the first page if there is one. ``scope`` is a
    fingerprint."""
    version, time = (VERSION, b"") if now_us is None else (DATED, _TIME.pack(now_us))
    raw = bytes([version]) + _cipher(secret).encrypt(scope + time + position, [bytes([version])])
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_cursor(text: str, *, scope: bytes, secret: bytes) -> CursorContent:
    """Return the content of a cursor that was written for ``scope`` with ``secret``. Raises ``InvalidCursor``."""
    version, ciphertext = _parts(text)
    if version not in (VERSION, DATED):
        raise InvalidCursor(
            "The cursor in `next` has the format of another version, or was changed: start again without it."
        )
    try:
        content = _cipher(secret).decrypt(ciphertext, [bytes([version])])
    except InvalidTag as exc:
        raise InvalidCursor("The cursor in `next` is not one of this service, or was changed.") from exc
    if content[:FINGERPRINT_BYTES] != scope:
        raise InvalidCursor(
            "The cursor in `next` belongs to another query: route, project, filter, order and bounds must be"
            " those of the page that returned it."
        )
    position = content[FINGERPRINT_BYTES:]
    if version == VERSION:
        return CursorContent(position)
    return CursorContent(position[_TIME.size :], *_TIME.unpack_from(position))


def _parts(text: str) -> tuple[int, bytes]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidCursor("The cursor in `next` cannot be read.") from exc
    is_canonical = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text
    if len(raw) < 1 + FINGERPRINT_BYTES + _TAG_BYTES or not is_canonical:
        raise InvalidCursor("The cursor in `next` cannot be read.")
    return raw[0], raw[1:]


@lru_cache(maxsize=4)
def _cipher(secret: bytes) -> AESSIV:
    return AESSIV(HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"cursor").derive(secret))


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where a page begins, and how to write the cursor of the next one.

    ``now_us`` is what relative times count from, in microseconds since 1970; ``is_dated`` whether cursors carry it.
    ``position`` is what the cursor of the request holds, ``None`` on a first page.
    """

    scope: bytes
    secret: bytes
    now_us: int
    is_dated: bool = False
    position: bytes | None = None

    def write(self, position: bytes) -> str:
        """Return the cursor of the page after ``position``."""
        return write_cursor(
            position, scope=self.scope, secret=self.secret, now_us=self.now_us if self.is_dated else None
        )


def page_cursor(
    request: Request,
    kind: str,
    filtering: Node,
    windowing: BasicWindowing,
    *,
    takes_ids: bool = False,
    unscoped: str | None = None,
) -> PageCursor:
    """Return the cursor of a request. Raises ``InvalidCursor``.

    ``kind`` names the pages, so that a cursor of one route is invalid on another. ``takes_ids``: ``next`` may also be
    an id, the cursor of a client of the reference, which cannot carry a time. ``unscoped`` is a bound that is in the
    position instead of the scope.
    """
    secret, now_us = request.context.cursor_secret, request.context.clock.now_ns() // 1_000
    scoped = windowing if unscoped is None else windowing.model_copy(update={unscoped: None})
    scope = cursor_scope(kind, request.project_id, filtering, scoped)
    bounds = (windowing.newest, windowing.oldest)
    is_relative = has_relative_time(filtering) or any(isinstance(bound, RelativeTime) for bound in bounds)
    first = PageCursor(scope, secret, now_us, is_relative)
    if windowing.next is None:
        return first
    if takes_ids and _is_id(windowing.next):
        if is_relative:
            raise InvalidCursor("windowing.next is an id, which carries no time of a first page: give absolute times.")
        return first
    content = read_cursor(windowing.next, scope=scope, secret=secret)
    is_dated = content.now_us is not None
    return PageCursor(scope, secret, now_us if content.now_us is None else content.now_us, is_dated, content.position)


def cursor_scope(kind: str, project_id: UUID, filtering: Node, windowing: BasicWindowing) -> bytes:
    """Return the fingerprint of all that decides what pages there are and in which order; the limit is not part of it.

    A relative time is in it as its text, so that a later page can repeat it.
    """
    order = windowing.order or Order.DESCENDING
    times = [
        bound if isinstance(bound, RelativeTime) else bound_us(bound, now_us=0)
        for bound in (windowing.newest, windowing.oldest)
    ]
    conditions = orjson.dumps(filtering, option=orjson.OPT_SORT_KEYS)  # one text for one filter
    rest = repr([str(part) for part in [order, *times, windowing.rate]]).encode()
    return fingerprint([kind.encode(), project_id.bytes, conditions, rest])


def _is_id(cursor: str) -> bool:
    try:
        UUID(cursor)
    except ValueError:
        return False
    return True


class Query(NamedTuple):
    """Which spans, and which page of them."""

    filtering: Node
    windowing: Windowing


Resolve: TypeAlias = Callable[[Request, Query], Awaitable[Query]]
"""Merges the query of a request with the saved query that it refers to."""


async def query_of(request: Request, resolve: Resolve) -> Query:
    """Return what a request asks for, as its body says or merged with a saved query. Raises what parsing and
    ``resolve`` raise.
    """
    body = request.body
    own = Query(await parse_filter(body.filtering), body.windowing or Windowing())
    references = (body.query_ref, body.query_variant_ref, body.query_revision_ref)
    return own if references == (None, None, None) else await resolve(request, own)


def bound_us(bound: datetime | RelativeTime | None, *, now_us: int) -> int | None:
    """Return a bound in microseconds since 1970; a relative one counts from ``now_us``."""
    if bound is None:
        return None
    return bound.at_us(now_us) if isinstance(bound, RelativeTime) else microseconds(bound)


def percent_of(rate: float | None) -> int:
    """Return how many of a hundred traces ``rate`` keeps, rounded down; 100 if there is none."""
    return 100 if rate is None else int(rate * 100)


Place: TypeAlias = Position | TracePosition
At = TypeVar("At", Position, TracePosition)


def edge(kind: type[At], start_us: int, order: Order) -> At:
    """Return the place after everything that starts then or comes before that in the order."""
    last_id = _LOWEST_ID if order is Order.DESCENDING else _HIGHEST_ID
    return kind(start_us, *[last_id] * (len(kind._fields) - 1))


def is_edge(place: Place) -> bool:
    """Return whether the place is between two starts and not the place of a span or trace."""
    return set(place[1:]) in ({_LOWEST_ID}, {_HIGHEST_ID})


class Conditions(NamedTuple):
    """Conditions on rows of ``spans``, and the values in them."""

    texts: list[str]
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """The spans that may be on a page, and their order. Bounds are microseconds; ``after`` is where the last page
    ended.

    The bound at which pages begin is excluded, the other one is included (reference §6.2). ``rate_percent`` is how
    many of a hundred traces are kept.
    """

    order: Order = Order.DESCENDING
    newest_us: int | None = None
    oldest_us: int | None = None
    rate_percent: int = 100
    after: Place | None = None

    @classmethod
    def of(cls, windowing: BasicWindowing, *, now_us: int) -> Self:
        """Return the window of a first page; relative bounds count from ``now_us``."""
        order = windowing.order or Order.DESCENDING
        newest_us, oldest_us = (bound_us(bound, now_us=now_us) for bound in (windowing.newest, windowing.oldest))
        return cls(order, newest_us, oldest_us, percent_of(windowing.rate))

    @property
    def is_descending(self) -> bool:
        """Whether pages go from the newest to the oldest."""
        return self.order is Order.DESCENDING

    @property
    def signs(self) -> tuple[str, str]:
        """How ``start_us`` compares with ``newest_us``, and with ``oldest_us``."""
        return ("<", ">=") if self.is_descending else ("<=", ">")

    @property
    def leading_us(self) -> int | None:
        """The bound at which pages begin."""
        return self.newest_us if self.is_descending else self.oldest_us

    def after_place(self) -> Conditions:
        """Return the conditions that leave the rows after ``after``."""
        if self.after is None:
            return Conditions([], {})
        sign = "<" if self.is_descending else ">"
        [start, *ids] = self.after._fields
        places = [f"toFixedString(unhex({{after_{column}:String}}), 16)" for column in ids]
        texts = [
            f"{start} {sign}= {{after_{start}:Int64}}",  # on its own, so that it prunes by the primary key
            f"({', '.join(self.after._fields)}) {sign} ({', '.join([f'{{after_{start}:Int64}}', *places])})",
        ]
        packed = {f"after_{column}": place.hex() for column, place in zip(ids, self.after[1:], strict=True)}
        return Conditions(texts, {f"after_{start}": self.after.start_us, **packed})

    def bounds(self) -> Conditions:
        """Return the conditions on ``start_us``. A place is within the leading bound, which is omitted after it."""
        texts: list[str] = []
        parameters: dict[str, Any] = {}
        newest_sign, oldest_sign = self.signs
        if self.newest_us is not None and (self.after is None or not self.is_descending):
            texts.append(f"start_us {newest_sign} {{newest_us:Int64}}")
            parameters["newest_us"] = self.newest_us
        if self.oldest_us is not None and (self.after is None or self.is_descending):
            texts.append(f"start_us {oldest_sign} {{oldest_us:Int64}}")
            parameters["oldest_us"] = self.oldest_us
        return Conditions(texts, parameters)

    def sampling(self) -> Conditions:
        """Return the condition that keeps ``rate_percent`` of the traces."""
        if self.rate_percent >= 100:
            return Conditions([], {})
        return Conditions([SAMPLED], {"rate_percent": self.rate_percent})

    def conditions(self) -> Conditions:
        """Return all conditions of the window."""
        parts = (self.after_place(), self.bounds(), self.sampling())
        texts = [text for part in parts for text in part.texts]
        return Conditions(texts, {name: value for part in parts for name, value in part.parameters.items()})


def spans_window(windowing: Windowing, *, position: bytes | None, now_us: int) -> Window:
    """Return the part of the spans that a page is taken from. Raises ``InvalidCursor``.

    ``position`` and ``now_us`` are those of the ``PageCursor``.
    """
    window = Window.of(windowing, now_us=now_us)
    if position is not None:
        return replace(window, after=unpack_position(position))
    if windowing.next is None:
        return window
    bound = place_of_reference(windowing.next, window, "a span id", "the start_time of that span")
    # After all spans of that time and id: the order of the reference is not total (reference §6.2).
    start_us, span_id = bound
    return replace(window, after=edge(Position, start_us, window.order)._replace(span_id=span_id))


def place_of_reference(cursor: str, window: Window, what: str, bound: str) -> tuple[int, bytes]:
    """Return the place in a cursor of a client of the reference: an id, and the bound that is its time."""
    if window.leading_us is None:
        name = "newest" if window.is_descending else "oldest"
        raise InvalidCursor(f"windowing.next as {what} needs windowing.{name}: {bound}.")
    return window.leading_us, UUID(cursor).bytes


def pack_position(position: Position) -> bytes:
    """Return the 40 bytes that the cursor of a page of spans holds."""
    return _SPAN_CURSOR.pack(*position)


def unpack_position(packed: bytes) -> Position:
    """Return the position that ``pack_position`` wrote. Raises ``InvalidCursor``."""
    try:
        return Position(*_SPAN_CURSOR.unpack(packed))
    except struct.error as exc:
        raise InvalidCursor("The cursor in `next` cannot be read.") from exc
