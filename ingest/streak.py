"""Refusals in a row, per partition: the sign that a producer, or we, went wrong as a whole. Pure."""

from __future__ import annotations

from common.kafka.record import Partition


class Streaks:
    """Counts whole records refused one after the other; past ``streak_max`` the partition is held.

    A held partition is not buried any further: its offset stays, somebody has to look, and a restart tries again.
    """

    def __init__(self, *, streak_max: int) -> None:
        self._streak_max = streak_max
        self._counts: dict[Partition, int] = {}
        self._held: set[Partition] = set()

    @property
    def held(self) -> frozenset[Partition]:
        """The partitions nothing more is taken of."""
        return frozenset(self._held)

    def admits(self, partition: Partition, *, is_refused: bool) -> bool:
        """Whether this record may be handled; call once a record, in order. A good one ends the streak."""
        if partition in self._held:
            return False
        if not is_refused:
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
