"""Between people and commands: what of a text from elsewhere may be shown, and which texts they may give."""

from __future__ import annotations

import argparse
import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""The control characters of Unicode, C0 and C1; ESC and CSI begin the commands of terminals."""

CHARACTERS_MAX: Final = 200
"""Of a name: more is a mistake, and a list of them is not to be read any more."""


def shown(text: str, *, keeps: str = "") -> str:
    """The text with control characters spelt out, as in ``\\x1b``, but for those that it keeps."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keeps else f"\\x{ord(found[0]):02x}", text)


def short_text(text: str) -> str:
    """A name or an address as an argument; raises what argparse shows as wrong usage."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it must not be empty")
    if len(text) > CHARACTERS_MAX:
        raise argparse.ArgumentTypeError(f"it has {len(text)} characters; {CHARACTERS_MAX} are legal")
    return text
