"""Where a walk over ids stands: what its cursor holds.

::

    activity of the last id 8 B │ its tie-break 16 B │ has a leading bound 1 B │ leading bound 8 B │ window's newest 9 B │ id, ≤ 256 B

Ids are in the order of their activity, then of their first 256 bytes, then of a hash of what is longer. The leading bound is
the one that the first page was asked with: a later page may repeat it, or give the activity of the last id in its place, as
clients of the reference do.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from common.errors import InvalidCursor

ID_BYTES_MAX: Final = 256
"""Of an id in a cursor: a client must be able to carry it."""

_PACKED: Final = struct.Struct(">q16s?q?q")


class IdPosition(NamedTuple):
    """The place of an id; the window of its walk."""

    activity_us: int
    beginning: bytes
    tail: bytes
    leading_us: int | None
    """The leading bound of the first page."""

    newest_us: int | None
    """Where the walk's window ends, itself not in it, whatever the first page was asked with."""

    def pack(self) -> bytes:
        """As it stands in a cursor."""
        bounds = (part for bound in (self.leading_us, self.newest_us) for part in (bound is not None, bound or 0))
        return _PACKED.pack(self.activity_us, self.tail, *bounds) + self.beginning

    @classmethod
    def unpack(cls, packed: bytes) -> IdPosition:
        """What ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            activity_us, tail, has_leading, leading_us, has_newest, newest_us = _PACKED.unpack_from(packed)
        except struct.error as exc:
            raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
        return cls(
            activity_us,
            packed[_PACKED.size :],
            tail,
            leading_us if has_leading else None,
            newest_us if has_newest else None,
        )
