"""Where a span stands in the order of pages: what the cursor of a walk over spans holds."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from common.errors import InvalidCursor

_PACKED: Final = struct.Struct(">q16s16s")


class Position(NamedTuple):
    """The place of a span in the order of pages; also in the order of their columns."""

    start_us: int
    span_id: bytes
    trace_id: bytes

    def pack(self) -> bytes:
        """As it stands in a cursor: 40 bytes."""
        return _PACKED.pack(*self)

    @classmethod
    def unpack(cls, packed: bytes) -> Position:
        """What ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            return cls(*_PACKED.unpack(packed))
        except struct.error as exc:
            raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
