"""Trace and span ids: every spelling that is read, the one that is written (reference §2.1).

Inside, an id is 16 bytes: a trace id as it is, a span id of eight bytes doubled. A 128-bit span id whose halves differ is
kept as it is; answers show its last half. The binary and base64 forms of OTLP live in the codecs.
"""

from __future__ import annotations

from typing import Final

ZERO_ID: Final = bytes(16)
_TRACE_LEGAL: Final = "32 hexadecimal digits, or a UUID with dashes"
_SPAN_LEGAL: Final = "16 hexadecimal digits, or a UUID"


def parse_trace_id(text: str) -> bytes:
    """The 16 bytes of a trace id.

    Reads 32 hexadecimal digits in any case, with ``0x`` before them or not, and all that reads as a UUID: with dashes,
    in braces, as ``urn:uuid:``. Raises ``ValueError`` with one sentence, also when all digits are zero.
    """
    raw = _hex_bytes(text)
    if raw is None or len(raw) != 16:
        raise ValueError(f"{_quoted(text)} is not a trace id: it takes {_TRACE_LEGAL}.")
    if raw == ZERO_ID:
        raise ValueError("A trace id of zeros is no id.")
    return raw


def parse_span_id(text: str) -> bytes:
    """The 16 bytes of a span id: 16 hexadecimal digits are doubled, the 128-bit spellings of a UUID are kept.

    Raises ``ValueError`` with one sentence, also when all digits are zero.
    """
    raw = _hex_bytes(text)
    if raw is None or len(raw) not in (8, 16):
        raise ValueError(f"{_quoted(text)} is not a span id: it takes {_SPAN_LEGAL}.")
    if not any(raw):
        raise ValueError("A span id of zeros is no id.")
    return raw + raw if len(raw) == 8 else raw


def trace_id_hex(trace_id: bytes) -> str:
    """32 lowercase hexadecimal digits."""
    return trace_id.hex()


def span_id_hex(span_id: bytes) -> str:
    """The last 16 hexadecimal digits, lowercase."""
    return span_id[8:].hex()


def _hex_bytes(text: str) -> bytes | None:
    """The bytes that ``text`` spells, of any length; ``None`` when it spells none."""
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
    return bare if len(bare) == 32 or bare == lower else ""  # dashes belong to the 128-bit form alone


def _quoted(text: str) -> str:
    return f"“{text}”" if len(text) <= 64 else f"“{text[:61]}…”"
