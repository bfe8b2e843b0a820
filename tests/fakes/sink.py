"""A sink that keeps what it was given, and fails on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from common.errors import ServiceError
from ingest.batch import SpanBatch
from ingest.sink import RejectedRow, SpanRows


class RecordingSink:
    """``faults`` are used up one a call, ``None`` lets a call through. ``gate`` holds every write while it is cleared."""

    name = "store"

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal = journal if journal is not None else []
        self.faults: deque[ServiceError | None] = deque()
        self.refused_names: set[str] = set()
        self.batches: list[list[str]] = []
        self.tokens: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def names(self) -> list[str]:
        """The names of all spans that were stored, in order."""
        return [name for batch in self.batches for name in batch]

    async def write(self, spans: SpanRows, /) -> Sequence[RejectedRow]:
        await self.gate.wait()
        self.tokens.append(spans.token)
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            raise fault
        names = [str(name) for name in spans.columns.column("name").to_pylist()]
        refused = [RejectedRow(row, "not storable") for row, name in enumerate(names) if name in self.refused_names]
        self.batches.append([name for name in names if name not in self.refused_names])
        self.journal.append("write")
        return refused

    async def record(self, batch: SpanBatch, /) -> None:
        """Note in the journal that a stored position was recorded."""
        self.journal.append("record")
