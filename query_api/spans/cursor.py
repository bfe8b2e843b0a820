"""The cursor of a walk over pages: where the last page ended, and what the walk belongs to (contract §3.3).

::

    base64url( version 1 B │ start_us 8 B │ span_id 16 B │ trace_id 16 B │ fingerprint 16 B │ HMAC-SHA256 of it all, 16 B )

The fingerprint binds it to project, filter, order and bounds; the limit may change from page to page. Text that is not
one of ours to the bit is ``InvalidCursor``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from common.errors import InvalidCursor

VERSION: Final = 1
FINGERPRINT_BYTES: Final = 16
_SIGNATURE_BYTES: Final = 16
_CONTENT: Final = struct.Struct(">Bq16s16s16s")


class Position(NamedTuple):
    """The place of a span in the order of pages."""

    start_us: int
    span_id: bytes
    trace_id: bytes


def fingerprint(parts: Sequence[bytes]) -> bytes:
    """16 bytes that differ when any of the parts does."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:FINGERPRINT_BYTES]


def write_cursor(position: Position, *, belongs_to: bytes, secret: bytes) -> str:
    """The cursor behind ``position``. ``belongs_to`` is a fingerprint."""
    content = _CONTENT.pack(VERSION, *position, belongs_to)
    return base64.urlsafe_b64encode(content + _signature(content, secret)).rstrip(b"=").decode()


def read_cursor(text: str, *, belongs_to: bytes, secret: bytes) -> Position:
    """The position in a cursor that was written for ``belongs_to`` under ``secret``. Raises ``InvalidCursor``."""
    content, signature = _parts(text)
    if not hmac.compare_digest(signature, _signature(content, secret)):
        raise InvalidCursor("The cursor in windowing.next is not one of this service, or was changed.")
    version, start_us, span_id, trace_id, owner = _CONTENT.unpack(content)
    if version != VERSION:
        raise InvalidCursor("The cursor in windowing.next has a format of another version: begin the walk anew.")
    if owner != belongs_to:
        raise InvalidCursor(
            "The cursor in windowing.next belongs to another query: project, filter, order and bounds must stay"
            " as they were on the page that gave it."
        )
    return Position(start_us, span_id, trace_id)


def _parts(text: str) -> tuple[bytes, bytes]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    is_canonical = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text
    if len(raw) != _CONTENT.size + _SIGNATURE_BYTES or not is_canonical:
        raise InvalidCursor("The cursor in windowing.next cannot be read.")
    return raw[: _CONTENT.size], raw[_CONTENT.size :]


def _signature(content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")[:_SIGNATURE_BYTES]
