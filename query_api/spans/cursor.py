"""Cursors: a position in a query, signed and encrypted (contract §3.3).

    base64url( version 1 B │ AES-SIV( fingerprint 16 B │ [time 8 B │] position, n B ) )

A cursor of the version ``DATED`` holds the time of the first page, which relative times count from; one of the version
``VERSION`` has none.

Each ordering of pages defines the format of its position. The fingerprint binds it to the query: kind of pages,
project, filter, order and bounds; the limit may change from page to page. Any other text is ``InvalidCursor``.

Positions contain Kafka offsets, which count the records of every project, so they are encrypted (ADR 0011). AES-SIV
(RFC 5297) authenticates and encrypts without a nonce that could repeat.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.errors import InvalidCursor

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
