"""Between people and commands: what of a text from elsewhere may be shown, and which texts they may give."""

from __future__ import annotations

import argparse
import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""The control characters of Unicode, C0 and C1; ESC and CSI begin the commands of terminals. And those that end lines or turn the
order of what follows, so that a row reads as another one (UAX #9)."""

CHARACTERS_MAX: Final = 200
"""Of a name: more is a mistake, and a list of them is not to be read any more."""


def shown(text: str, *, keeps: str = "") -> str:
    """The text with control characters spelt out, as in ``\\x1b`` and ``\\u202e``, but for those that it keeps."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keeps else _spelt_out(found[0]), text)


def _spelt_out(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def short_text(text: str) -> str:
    """A name or an address as an argument; raises what argparse shows as wrong usage."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it must not be empty")
    if len(text) > CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(f"it has {len(text)} characters; {CHARACTERS_MAX} are legal")
    return text
