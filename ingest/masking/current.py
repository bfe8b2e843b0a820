"""The masking rules that the worker applies now: read before the first record, and again every few seconds.

If they cannot be read for ``STALE_S``, the worker takes no more records: a rule that somebody has made meanwhile must
not be missed because the database is away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol
from uuid import UUID

from common.errors import ServiceError
from common.masking import MaskSet
from common.readiness import Readiness
from common.telemetry import MASKED_VALUES
from common.times import Clock
from ingest.masking.dead_letters import Masking

COMPONENT: Final = "masking"

STALE_S: Final = 6.0
"""Three times the interval at which they are read."""


class MaskReader(Protocol):
    """Reads the masking rules of all projects, and adds up what they masked."""

    async def read(self) -> MaskSet:
        """Return the current rules. Raises ``Unavailable`` (transient)."""
        ...

    async def add_counts(self, counts: Mapping[UUID, int], /) -> None:
        """Add to the numbers of masked values. Raises ``Unavailable`` (transient)."""
        ...


class CurrentMasking:
    """The rules as the worker knows them: those of ``unread`` until they were read, or without a reader."""

    def __init__(self, reader: MaskReader | None, unread: Masking, *, clock: Clock, readiness: Readiness) -> None:
        self._reader = reader
        self._clock = clock
        self._readiness = readiness
        self._read_s: float | None = None
        self._counts: Counter[UUID] = Counter()
        self._masking = unread

    @property
    def known(self) -> Masking | None:
        """The rules; ``None`` if they were not read, or too long ago."""
        if self._reader is None:
            return self._masking
        is_known = self._read_s is not None and self._clock.monotonic_s() - self._read_s <= STALE_S
        return self._masking if is_known else None

    async def refresh(self) -> None:
        """Read the rules, and report what was masked since the last time."""
        if self._reader is None:
            return
        counts, self._counts = self._counts, Counter()
        begun_s = self._clock.monotonic_s()
        try:
            masks = await self._reader.read()
            if masks != self._masking.masks:
                self._masking = replace(self._masking, masks=masks)
            self._read_s = begun_s
            self._readiness.green(COMPONENT)
            if counts:
                await self._reader.add_counts(counts)
        except ServiceError as exc:
            self._counts.update(counts)
            if not exc.transient:
                raise
            if self.known is None:
                self._readiness.waits_for(COMPONENT, f"The masking rules cannot be read: {exc.detail}")

    def count(self, masked: Mapping[UUID, int]) -> None:
        """Note how many values were masked, by project."""
        if masked:
            self._counts.update(masked)
            MASKED_VALUES.inc(sum(masked.values()))
