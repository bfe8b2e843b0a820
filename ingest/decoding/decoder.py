"""Who opens chunks: the promise, the one that does it in a thread of this process, and the choice."""

from __future__ import annotations

import asyncio
from typing import Protocol

from common.clickhouse.span_columns import warm_up
from ingest.consume import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk
from ingest.decoding.processes import ProcessDecoder


class Decoder(Protocol):
    """Opens chunks beside the loop. The same chunk gives the same rows wherever it is opened."""

    @property
    def chunks_max(self) -> int:
        """So many at once keep it busy; more would only wait."""
        ...

    async def open(self, chunk: Chunk, /) -> DecodedChunk:
        """The chunk, opened. Safe to cancel. What it raises is a bug of ours: nothing may be committed then."""
        ...

    async def close(self) -> None:
        """Let go of threads and processes; what is being opened is dropped. Safe to call twice."""
        ...


class ThreadDecoder:
    """In a thread of this process, one at a time: it shares the interpreter with everything else here."""

    chunks_max = 1

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def open(self, chunk: Chunk, /) -> DecodedChunk:
        """The chunk, opened."""
        return await asyncio.to_thread(decode_chunk, chunk, self._rules)

    async def close(self) -> None:
        """Nothing is held."""


async def open_decoder(rules: Rules, *, processes: int) -> Decoder:
    """One with so many processes of its own, which are on their way; with none, it works in a thread of this one."""
    if processes:
        return ProcessDecoder(rules, processes=processes)
    await asyncio.to_thread(warm_up)
    return ThreadDecoder(rules)
