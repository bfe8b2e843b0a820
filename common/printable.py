"""Show texts that come from outside: in the log, and by commands on a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""The control characters of Unicode, which can command a terminal; the characters that end a line or change the
direction of what follows, which can make one row look like another (UAX #9); and halves of surrogate pairs, which
cannot be written."""


def printable(text: str, *, keep: str = "") -> str:
    """Return the text with control characters escaped, as in ``\\x1b`` and ``\\u202e``, except those in ``keep``."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escaped(ord(found[0])), text)


def _escaped(code_point: int) -> str:
    return f"\\x{code_point:02x}" if code_point < 0x100 else f"\\u{code_point:04x}"
