"""Parse and format trace and span ids (reference §2.1); the ids of the default project and user.

An id is 16 bytes: a trace id unchanged, a span id of eight bytes doubled. A 128-bit span id whose halves differ is kept
unchanged, and responses contain its last half. The codecs read the binary and base64 forms of OTLP.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

DEFAULT_PROJECT_ID: Final = UUID("00000000-0000-7000-8000-000000000001")
"""The project of spans without a project, and of every request while authentication is off. A project isolates a
tenant: every span, key and query belongs to exactly one."""

DEFAULT_USER_ID: Final = UUID("00000000-0000-7000-8000-000000000002")
"""The user while authentication is off, and of keys without a user; the baseline migration inserts it."""

ZERO_ID: Final = bytes(16)
_TRACE_FORMS: Final = "32 hexadecimal digits, or a UUID with dashes"
_SPAN_FORMS: Final = "16 hexadecimal digits, or a UUID"


def parse_trace_id(text: str) -> bytes:
    """Return the 16 bytes of a trace id.

    Reads 32 hexadecimal digits in any case, optionally after ``0x``, and every form of a UUID: with dashes, in braces,
    after ``urn:uuid:``. Raises ``ValueError`` with one sentence, also if all digits are zero.
    """
    raw = _hex_bytes(text)
    if raw is None or len(raw) != 16:
        raise ValueError(f"{_quoted(text)} is not a trace id; allowed: {_TRACE_FORMS}.")
    if raw == ZERO_ID:
        raise ValueError("A trace id of zeros is not allowed.")
    return raw


def parse_span_id(text: str) -> bytes:
    """Return the 16 bytes of a span id: 16 hexadecimal digits are doubled, the 128-bit forms of a UUID are kept.

    Raises ``ValueError`` with one sentence, also if all digits are zero.
    """
    raw = _hex_bytes(text)
    if raw is None or len(raw) not in (8, 16):
        raise ValueError(f"{_quoted(text)} is not a span id; allowed: {_SPAN_FORMS}.")
    if not any(raw):
        raise ValueError("A span id of zeros is not allowed.")
    return raw + raw if len(raw) == 8 else raw


def trace_id_hex(trace_id: bytes) -> str:
    """Return 32 lowercase hexadecimal digits."""
    return trace_id.hex()


def span_id_hex(span_id: bytes) -> str:
    """Return the last 16 hexadecimal digits, lowercase."""
    return span_id[8:].hex()


def shown_span_id(span_id: bytes) -> bytes:
    """Return the 16 bytes of the id that responses show: the last half, doubled."""
    return span_id[8:] * 2


SHOWN_SPAN_ID_SQL: Final = "toFixedString(concat(substring(span_id, 9), substring(span_id, 9)), 16)"
"""``shown_span_id`` of the column ``span_id``."""


def _hex_bytes(text: str) -> bytes | None:
    """Return the bytes of hexadecimal text, of any length; ``None`` if it is not hexadecimal."""
    digits = text if len(text) in (16, 32) and text.isalnum() and text[1] not in "xX" else _bare_digits(text)
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    return raw if len(raw) * 2 == len(digits) else None  # fromhex skips spaces


def _bare_digits(text: str) -> str:
    if text[:2] in ("0x", "0X"):
        return text[2:]
    lower = text.lower().removeprefix("urn:").removeprefix("uuid:")
    if lower.startswith("{") and lower.endswith("}"):
        lower = lower[1:-1]
    bare = lower.replace("-", "")
    return bare if len(bare) == 32 or bare == lower else ""  # only the 128-bit form has dashes


def _quoted(text: str) -> str:
    return f"“{text}”" if len(text) <= 64 else f"“{text[:61]}…”"
