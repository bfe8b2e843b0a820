"""Which of several hosts is used."""

from __future__ import annotations


class HostOrder:
    """The host that worked last, until it fails; then the next one of the list, and after the last one the first.

    Hosts are numbers from 0.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._current = 0

    @property
    def in_turn(self) -> list[int]:
        """All hosts in the order in which to try them."""
        return [(self._current + step) % self._count for step in range(self._count)]

    def works(self, host: int) -> None:
        """Begin with this host from now on."""
        self._current = host

    def fails(self, host: int) -> None:
        """Begin with the next host from now on, if this one was the first to try."""
        if host == self._current:
            self._current = (host + 1) % self._count
