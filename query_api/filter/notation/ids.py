"""The id of a trace or of a span, in every spelling in which people paste it."""

from __future__ import annotations

import re
from typing import Final

_ID: Final = re.compile(r"(?:urn:)?(?:uuid:)?\{?(?:0x)?([0-9a-f]+(?:-[0-9a-f]+)*)\}?", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://\S+/traces/([0-9a-f]{32})(?:\?(?:\S*&)?span=([0-9a-f]{16})\b\S*|[?#]\S*)?")
"""Of a trace in the explorer, or of a span in it."""

_FIELDS: Final = {16: "span_id", 32: "trace_id"}
"""By the number of digits."""


def read_id(text: str) -> dict[str, str] | None:
    """Return ``field`` and ``value`` of the id that a text is; ``None`` if it is none.

    The value has 32 or 16 digits in lower case. Written are dashes, capitals, ``0x``, braces and ``urn:uuid:``, and the
    address of a trace or a span in the explorer.
    """
    if address := _ADDRESS.fullmatch(text):
        digits = address[2] or address[1]
    elif written := _ID.fullmatch(text):
        digits = written[1].replace("-", "").lower()
    else:
        return None
    field = _FIELDS.get(len(digits))
    return None if field is None else {"field": field, "value": digits}
