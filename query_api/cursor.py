"""Cursors: where a walk over pages stands, and what the walk belongs to (contract §3.3).

::

    base64url( version 1 B │ fingerprint 16 B │ position, n B │ HMAC-SHA256 of it all, 16 B )

The position is the business of the walk (spans: ``spans/position.py``). The fingerprint binds it to what was asked: kind of
walk, project, filter, order and bounds; the limit may change from page to page. Text that is not one of ours to the bit
is ``InvalidCursor``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from common.errors import InvalidCursor

VERSION: Final = 3
FINGERPRINT_BYTES: Final = 16
_SIGNATURE_BYTES: Final = 16
_POSITION_AT: Final = 1 + FINGERPRINT_BYTES


def fingerprint(parts: Sequence[bytes]) -> bytes:
    """16 bytes that differ when any of the parts does."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:FINGERPRINT_BYTES]


def write_cursor(position: bytes, *, belongs_to: bytes, secret: bytes) -> str:
    """The cursor that holds ``position``. ``belongs_to`` is a fingerprint."""
    content = bytes([VERSION]) + belongs_to + position
    return base64.urlsafe_b64encode(content + _signature(content, secret)).rstrip(b"=").decode()


def read_cursor(text: str, *, belongs_to: bytes, secret: bytes) -> bytes:
    """The position in a cursor that was written for ``belongs_to`` under ``secret``. Raises ``InvalidCursor``."""
    content, signature = _parts(text)
    if not hmac.compare_digest(signature, _signature(content, secret)):
        raise InvalidCursor("The cursor in windowing.next is not one of this service, or was changed.")
    if content[0] != VERSION:
        raise InvalidCursor("The cursor in windowing.next has a format of another version: begin the walk anew.")
    if content[1:_POSITION_AT] != belongs_to:
        raise InvalidCursor(
            "The cursor in windowing.next belongs to another query: route, project, filter, order and bounds must stay"
            " as they were on the page that gave it."
        )
    return content[_POSITION_AT:]


def _parts(text: str) -> tuple[bytes, bytes]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    is_canonical = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text
    if len(raw) < _POSITION_AT + _SIGNATURE_BYTES or not is_canonical:
        raise InvalidCursor("The cursor in windowing.next cannot be read.")
    return raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]


def _signature(content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")[:_SIGNATURE_BYTES]
