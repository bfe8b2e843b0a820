"""A table of dead letters in memory, as a worker sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from common.clickhouse.dead_letters import DeadLetter, DeadLetterContent
from common.errors import ServiceError


class MemoryDeadLetters:
    """``faults`` are used up one a call."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal = journal if journal is not None else []
        self.faults: deque[ServiceError] = deque()
        self.rows: dict[str, tuple[DeadLetter, DeadLetterContent]] = {}

    async def insert(self, dead_letters: Sequence[tuple[DeadLetter, DeadLetterContent]], /) -> None:
        if self.faults:
            raise self.faults.popleft()
        self.rows |= {dead_letter.id: (dead_letter, content) for dead_letter, content in dead_letters}
        self.journal.append("dead letters")
