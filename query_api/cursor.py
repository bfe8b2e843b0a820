"""Cursors: where a walk over pages stands, and what the walk belongs to (contract §3.3).

::

    base64url( version 1 B │ encrypted( fingerprint 16 B │ position, n B ) │ HMAC-SHA256 of version, fingerprint, position, 16 B )

The position is the business of the walk (spans: ``spans/position.py``). The fingerprint binds it to what was asked: kind of
walk, project, filter, order and bounds; the limit may change from page to page. Text that is not one of ours to the bit
is ``InvalidCursor``.

Positions hold offsets of Kafka, which count the records of every project, so nobody may read them (ADR 0011). The HMAC is
also the nonce of the cipher, so equal content gives equal text and there is no nonce to repeat (the SIV construction of RFC 5297).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from common.errors import InvalidCursor

VERSION: Final = 4
FINGERPRINT_BYTES: Final = 16
_SIGNATURE_BYTES: Final = 16
_ENCRYPTION: Final = b"cursor encryption"


def fingerprint(parts: Sequence[bytes]) -> bytes:
    """16 bytes that differ when any of the parts does."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:FINGERPRINT_BYTES]


def write_cursor(position: bytes, *, belongs_to: bytes, secret: bytes) -> str:
    """The cursor that holds ``position``. ``belongs_to`` is a fingerprint."""
    content = belongs_to + position
    signature = _signature(content, secret)
    raw = bytes([VERSION]) + _ciphered(content, nonce=signature, secret=secret) + signature
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_cursor(text: str, *, belongs_to: bytes, secret: bytes) -> bytes:
    """The position in a cursor that was written for ``belongs_to`` under ``secret``. Raises ``InvalidCursor``."""
    version, ciphertext, signature = _parts(text)
    if version != VERSION:
        raise InvalidCursor(
            "The cursor in windowing.next has a format of another version, or was changed: begin the walk anew."
        )
    content = _ciphered(ciphertext, nonce=signature, secret=secret)
    if not hmac.compare_digest(signature, _signature(content, secret)):
        raise InvalidCursor("The cursor in windowing.next is not one of this service, or was changed.")
    if content[:FINGERPRINT_BYTES] != belongs_to:
        raise InvalidCursor(
            "The cursor in windowing.next belongs to another query: route, project, filter, order and bounds must stay"
            " as they were on the page that gave it."
        )
    return content[FINGERPRINT_BYTES:]


def _parts(text: str) -> tuple[int, bytes, bytes]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    is_canonical = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text
    if len(raw) < 1 + FINGERPRINT_BYTES + _SIGNATURE_BYTES or not is_canonical:
        raise InvalidCursor("The cursor in windowing.next cannot be read.")
    return raw[0], raw[1:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]


def _signature(content: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, bytes([VERSION]) + content, "sha256")[:_SIGNATURE_BYTES]


def _ciphered(content: bytes, *, nonce: bytes, secret: bytes) -> bytes:
    """Encrypt, or decrypt what was encrypted with the same nonce and secret."""
    key = hmac.digest(secret, _ENCRYPTION, "sha256")
    stream = hashlib.shake_256(key + nonce).digest(len(content))
    return (int.from_bytes(content, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(content), "big")
