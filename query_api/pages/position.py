"""Where a page of spans ends, at a span or between two starts: what the cursor of a walk over spans holds."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from common.errors import InvalidCursor
from query_api.pages.spans_models import Order

_PACKED: Final = struct.Struct(">q16s16s")
_LOWEST_ID: Final = bytes(16)
_HIGHEST_ID: Final = b"\xff" * 16


def last_id(order: Order) -> bytes:
    """The last in the order of all that an id can be."""
    return _LOWEST_ID if order is Order.DESCENDING else _HIGHEST_ID


def is_extreme(span_or_trace_id: bytes) -> bool:
    """Whether it is the last in one of the orders, and so nobody's."""
    return span_or_trace_id in (_LOWEST_ID, _HIGHEST_ID)


class Position(NamedTuple):
    """The place of a span in the order of pages; also in the order of their columns."""

    start_us: int
    span_id: bytes
    trace_id: bytes

    @classmethod
    def edge(cls, start_us: int, order: Order) -> Position:
        """Behind all spans of that start and of those before it in the order: no span stands there."""
        return cls(start_us, last_id(order), last_id(order))

    @property
    def is_edge(self) -> bool:
        """Whether it is one between two starts, rather than that of a span."""
        return self.span_id == self.trace_id and is_extreme(self.span_id)

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
