"""What may be shown to people: text from elsewhere, without what would command their terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""The control characters of Unicode, C0 and C1; ESC and CSI begin the commands of terminals."""


def shown(text: str, *, keeps: str = "") -> str:
    """The text with control characters spelt out, as in ``\\x1b``, but for those that it keeps."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keeps else f"\\x{ord(found[0]):02x}", text)
