"""Cursors: the position of a scan over pages, bound to the query that it belongs to (contract §3.3).

::

    base64url( version 1 B │ AES-SIV( fingerprint 16 B │ position, n B ) )

The scan defines the format of its position. The fingerprint binds the position to the query: kind of scan, project,
filter, order and bounds; the limit may change from page to page. Any other text is ``InvalidCursor``.

Positions contain Kafka offsets, which count the records of every project, so they are encrypted (ADR 0011). AES-SIV
(RFC 5297) authenticates and encrypts without a nonce that could repeat.

Coordinates of published records travel in the same form, bound to their project: intake returns them, and a query waits
for them. Their position is ``topic/partition/offset`` of the last record in each partition.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.errors import InvalidCursor
from common.kafka.record import Coordinates
from query_api.request.route import Request

VERSION: Final = 4
FINGERPRINT_BYTES: Final = 16
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = 64
"""For AES-256-SIV."""

_VERSION_BYTE: Final = bytes([VERSION])

COORDINATES_HEADER: Final = "X-Clearspan-Coordinates"
COORDINATES_MAX: Final = 200
"""Partitions in one header, and coordinates in one request: clients and proxies limit a header to 8 KiB."""

_OFFSET_DIGITS_MIN: Final = 12
"""The length of the text must not reveal how many records of all projects a partition
holds."""

_DIGITS_MAX: Final = 18
"""The most digits of a number: more than any offset has, and fewer than 64 bits."""


def fingerprint(parts: Sequence[bytes]) -> bytes:
    """Return 16 bytes that differ if any of the parts differs."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()[:FINGERPRINT_BYTES]


def write_cursor(position: bytes, *, scope: bytes, secret: bytes) -> str:
    """Return a cursor with ``position``. ``scope`` is a fingerprint."""
    raw = _VERSION_BYTE + _cipher(secret).encrypt(scope + position, [_VERSION_BYTE])
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_cursor(text: str, *, scope: bytes, secret: bytes) -> bytes:
    """Return the position of a cursor that was written for ``scope`` with ``secret``. Raises ``InvalidCursor``."""
    version, ciphertext = _parts(text)
    if version != VERSION:
        raise InvalidCursor(
            "The cursor in windowing.next has the format of another version, or was changed: start again without it."
        )
    try:
        content = _cipher(secret).decrypt(ciphertext, [_VERSION_BYTE])
    except InvalidTag as exc:
        raise InvalidCursor("The cursor in windowing.next is not one of this service, or was changed.") from exc
    if content[:FINGERPRINT_BYTES] != scope:
        raise InvalidCursor(
            "The cursor in windowing.next belongs to another query: route, project, filter, order and bounds must be"
            " those of the page that returned it."
        )
    return content[FINGERPRINT_BYTES:]


def _parts(text: str) -> tuple[int, bytes]:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
    is_canonical = base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == text
    if len(raw) < 1 + FINGERPRINT_BYTES + _TAG_BYTES or not is_canonical:
        raise InvalidCursor("The cursor in windowing.next cannot be read.")
    return raw[0], raw[1:]


@lru_cache(maxsize=4)
def _cipher(secret: bytes) -> AESSIV:
    return AESSIV(HKDF(SHA256(), _KEY_BYTES, salt=None, info=b"cursor").derive(secret))


def coordinates_header(request: Request, where: Sequence[Coordinates]) -> dict[str, str]:
    """Return the header with the coordinates of the published records; nothing without records."""
    if not where:
        return {}
    return {
        COORDINATES_HEADER: sign_coordinates(where, project_id=request.project_id, secret=request.context.cursor_secret)
    }


def sign_coordinates(where: Sequence[Coordinates], *, project_id: UUID, secret: bytes) -> str:
    """Encrypt the last coordinates in each partition, as a text that only its project can use."""
    last = {(place.topic, place.partition): place for place in sorted(where)}
    texts = [f"{place.topic}/{place.partition}/{place.offset:0{_OFFSET_DIGITS_MIN}}" for place in last.values()]
    position = ",".join(texts[:COORDINATES_MAX]).encode()
    return write_cursor(position, scope=_coordinates_scope(project_id), secret=secret)


def read_signed_coordinates(text: str, *, project_id: UUID, secret: bytes) -> list[Coordinates]:
    """Return what ``sign_coordinates`` encrypted for the project. Raises ``InvalidCursor``."""
    position = read_cursor(text, scope=_coordinates_scope(project_id), secret=secret).decode()
    return [parse_coordinates(part) for part in position.split(",")]


def parse_coordinates(text: str) -> Coordinates:
    """Read ``topic/partition/offset``. Raises ``ValueError``."""
    topic, *numbers = text.rsplit("/", 2)
    if len(numbers) != 2 or not topic or not all(_is_number(number) for number in numbers):
        raise ValueError(text)
    return Coordinates(topic, int(numbers[0]), int(numbers[1]))


def _coordinates_scope(project_id: UUID) -> bytes:
    return fingerprint([b"coordinates", project_id.bytes])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
