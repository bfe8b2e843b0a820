"""Where a walk over ids stands: what its cursor holds.

::

    activity of the last id 8 B │ its tie-break 16 B │ has a leading bound 1 B │ leading bound 8 B │ length 2 B │ id, ≤ 256 B │ logs

Ids are in the order of their activity, then of their first 256 bytes, then of a hash of what is longer. The leading bound is
the one that the first page was asked with: a later page may repeat it, or give the activity of the last id in its place, as
clients of the reference do. The logs are what was stored when the walk began (``spans/snapshot.py``).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from common.errors import InvalidCursor
from query_api.spans.snapshot import Snapshot

ID_BYTES_MAX: Final = 256
"""Of an id in a cursor: a client must be able to carry it."""

_PACKED: Final = struct.Struct(">q16s?qH")


class IdPosition(NamedTuple):
    """The place of an id, and what its walk began with."""

    activity_us: int
    beginning: bytes
    tail: bytes
    leading_us: int | None
    """The leading bound of the first page."""

    snapshot: Snapshot

    def pack(self) -> bytes:
        """As it stands in a cursor."""
        leading = (self.leading_us is not None, self.leading_us or 0)
        head = _PACKED.pack(self.activity_us, self.tail, *leading, len(self.beginning))
        return head + self.beginning + self.snapshot.pack()

    @classmethod
    def unpack(cls, packed: bytes) -> IdPosition:
        """What ``pack`` wrote. Raises ``InvalidCursor``."""
        try:
            activity_us, tail, has_leading, leading_us, length = _PACKED.unpack_from(packed)
            beginning, partition_ids = packed[_PACKED.size :][:length], packed[_PACKED.size :][length:]
            snapshot = Snapshot.unpack(partition_ids)
        except struct.error as exc:
            raise InvalidCursor("The cursor in windowing.next cannot be read.") from exc
        return cls(activity_us, beginning, tail, leading_us if has_leading else None, snapshot)
