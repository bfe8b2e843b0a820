"""Where a page of spans ends, at a span or between two starts: what the cursor of a walk over spans holds."""

from __future__ import annotations

import struct
from typing import Final

from common.errors import InvalidCursor
from query_api.spans.version import Position
from query_api.spans.windowing import Order

_PACKED: Final = struct.Struct(">q16s16s")
_LOWEST_ID: Final = bytes(16)
_HIGHEST_ID: Final = b"\xff" * 16


def last_id(order: Order) -> bytes:
    """The last in the order of all that an id can be."""
    return _LOWEST_ID if order is Order.DESCENDING else _HIGHEST_ID


def is_extreme(span_or_trace_id: bytes) -> bool:
    """Whether it is the last in one of the orders, and so nobody's."""
    return span_or_trace_id in (_LOWEST_ID, _HIGHEST_ID)


def edge(start_us: int, order: Order) -> Position:
    """Return the position after all spans that start then or are before that in the order; no span has this position."""
    return Position(start_us, last_id(order), last_id(order))


def is_edge(position: Position) -> bool:
    """Return whether this is a position between two starts and not the position of a span."""
    return position.span_id == position.trace_id and is_extreme(position.span_id)


def pack_position(position: Position) -> bytes:
    """Return the 40 bytes that a cursor holds."""
    return _PACKED.pack(*position)


def unpack_position(packed: bytes) -> Position:
    """Return the position that ``pack_position`` wrote. Raises ``InvalidCursor``."""
    try:
        return Position(*_PACKED.unpack(packed))
    except struct.error as exc:
        raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
