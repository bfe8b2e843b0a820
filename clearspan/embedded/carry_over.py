"""The dead letters of the journal, given to a fresh broker: in bulk, and beside everything else that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from clearspan.embedded.journal import Entry, Journal
from common.errors import ServiceError
from common.limits import MIB
from common.telemetry import get_logger
from ingest.dead_letter import BulkPublisher, DeadLetterMessage

WINDOW_LETTERS_MAX: Final = 1_000
WINDOW_BYTES_MAX: Final = 8 * MIB

_log = get_logger(__name__)


class CarryOver:
    """Publishes what the journal holds now. What is not acknowledged when it is cancelled is among ``left``."""

    def __init__(self, journal: Journal, bulk: BulkPublisher) -> None:
        self._journal = journal
        self._bulk = bulk
        self._end = journal.size
        self._carried = 0

    async def run(self) -> None:
        """Return when all are acknowledged. A failure ends nothing but this: the letters are still in the journal."""
        entries = self._journal.letters(end=self._end)
        try:
            while window := await asyncio.to_thread(_window, entries):
                await self._bulk.publish([each.letter for each in window])
                self._carried = window[-1].end
        except* (ServiceError, OSError) as failed:
            reasons = ", ".join(str(each) for each in failed.exceptions)
            _log.error("Dead letters of the journal are not in their topic; the next start tries again.", error=reasons)
        else:
            self._carried = self._end

    def left(self) -> Iterator[DeadLetterMessage]:
        """The letters that the broker may not have yet."""
        return (each.letter for each in self._journal.letters(start=self._carried, end=self._end))


def _window(entries: Iterator[Entry]) -> list[Entry]:
    """The next of them: one at least if there is any, and then as many as may be under way at once."""
    window: list[Entry] = []
    bytes_count = 0
    while len(window) < WINDOW_LETTERS_MAX and bytes_count < WINDOW_BYTES_MAX:
        entry = next(entries, None)
        if entry is None:
            break
        window.append(entry)
        bytes_count += entry.letter.size
    return window
