"""A record that ends the decoder costs that record alone (contract §4): it becomes a dead letter (ADR 0006).

If a chunk fails each time, its records are decoded one by one. A record that fails alone while the decoder still takes
an empty chunk is at fault. If the decoder fails on that too, nothing is committed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pyarrow as pa

from common.clickhouse.span_columns import warm_up
from common.telemetry import get_logger
from ingest.decode import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk, reject_records
from ingest.decoding.decoder import Decoder, DecoderFailed, ProcessDecoder, ThreadDecoder

REASON: Final = (
    "Clearspan failed on it, which is a defect of Clearspan: decoding it fails or ends the process each time."
    " Replay it once the defect is fixed."
)

_log = get_logger(__name__)


async def open_decoder(rules: Rules, *, processes: int) -> Decoder:
    """Return a decoder that uses at most ``processes`` child processes, or a thread of this process if 0."""
    if processes:
        return IsolatingDecoder(ProcessDecoder(rules, processes=processes), rules)
    await asyncio.to_thread(warm_up)
    return ThreadDecoder(rules)


class IsolatingDecoder:
    """Decodes in child processes; see the module."""

    def __init__(self, decoder: ProcessDecoder, rules: Rules) -> None:
        self._decoder: Decoder = decoder
        self._rules = rules

    @property
    def chunks_max(self) -> int:
        """How many chunks at once keep it busy."""
        return self._decoder.chunks_max

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk. Raises ``DecoderFailed`` if the decoder fails whatever it gets."""
        try:
            return await self._decoder.decode(chunk)
        except DecoderFailed as failure:
            if len(chunk.records) == 1:
                return await self._reject(chunk, failure)
        return _joined([await self.decode(replace(chunk, records=[record])) for record in chunk.records])

    async def close(self) -> None:
        """End the processes. Safe to call twice."""
        await self._decoder.close()

    async def _reject(self, chunk: Chunk, failure: DecoderFailed) -> DecodedChunk:
        """Reject the only record of a chunk. Raises ``DecoderFailed`` if the decoder fails on an empty chunk too."""
        await self._decoder.decode(replace(chunk, records=[]))
        (record,) = chunk.records
        _log.error(
            "A record cannot be decoded; it becomes a dead letter.",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=str(failure),
        )
        return reject_records(chunk, self._rules, REASON)


def _joined(parts: list[DecodedChunk]) -> DecodedChunk:
    """Return the result of a chunk whose records were decoded one by one."""
    projects = {project for part in parts for project in part.masked}
    return DecodedChunk(
        outcomes=[outcome for part in parts for outcome in part.outcomes],
        claimed=frozenset().union(*(part.claimed for part in parts)),
        rows=pa.concat_tables([part.rows for part in parts]),
        seconds=sum(part.seconds for part in parts),
        masked={project: sum(part.masked.get(project, 0) for part in parts) for project in projects},
    )
