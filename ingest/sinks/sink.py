"""What every destination of spans promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ingest.batch import SpanBatch


class RejectedRow(NamedTuple):
    """A row that the destination will never take, and why."""

    row: int
    reason: str


class Sink(Protocol):
    """Where a batch ends."""

    async def write(self, batch: SpanBatch, /) -> Sequence[RejectedRow]:
        """Return when every row is durable there, but for those given back.

        Calling it again with the same batch is harmless. Raises transient errors; anything else is a bug of ours.
        """
        ...
