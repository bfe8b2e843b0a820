"""Undecodable records in a row, per partition: the sign that the encoding of a topic is set wrongly. Pure."""

from __future__ import annotations

from common.kafka.record import Partition


class Streaks:
    """Counts records that cannot be decoded and name no project, one after the other; past ``streak_max`` the partition is held.

    Nothing more of a held partition is dead-lettered: its offset stays, somebody has to look, and a restart tries again. A record of
    a known project never counts, whatever is rejected of it: no project can stop the others on its partition.
    """

    def __init__(self, *, streak_max: int) -> None:
        self._streak_max = streak_max
        self._counts: dict[Partition, int] = {}
        self._held: set[Partition] = set()

    @property
    def held(self) -> frozenset[Partition]:
        """The partitions nothing more is taken of."""
        return frozenset(self._held)

    def admits(self, partition: Partition, *, is_undecodable: bool) -> bool:
        """Whether this record may be handled; call once a record, in order. A good one ends the streak."""
        if partition in self._held:
            return False
        if not is_undecodable:
            self._counts.pop(partition, None)
            return True
        count = self._counts.get(partition, 0) + 1
        self._counts[partition] = count
        if count > self._streak_max:
            self._held.add(partition)
            return False
        return True

    def forget_all(self) -> None:
        """The partitions may belong to somebody else by now; should they come back they start anew."""
        self._counts.clear()
        self._held.clear()
