"""Decode chunks outside the event loop: in a thread, or in processes with an interpreter of their own (ADR 0006).

The worker awaits chunks in the order in which it sent them.

A record that ends the processes costs that record alone (contract §4): it becomes a dead letter. If a chunk fails each
time, its records are decoded one by one. A record that fails alone while a process still takes an empty chunk is at
fault. If the process fails on that too, nothing is committed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa

from common.children.child import Failure, ServiceFailure
from common.children.pool import ChildPool, Lost, PoolLimits, Program
from common.clickhouse.span_columns import warm_up
from common.fair_share import shielded
from common.limits import MIB
from common.telemetry import DECODER_RESTARTS, get_logger
from ingest.decode import Rules
from ingest.decoding.child import prepare, run
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk, reject_records
from ingest.joining.chunk import JoiningChunk, joined_rows

CHUNKS_PER_PROCESS: Final = 4
"""One is decoded, the next is already in the pipe, and the others keep the process busy while a batch waits for the
engine.
"""

TRIES_MAX: Final = 3

RESPONSE_S_MAX: Final = 120.0
"""Four times what the worst record of 10 MiB takes (five million empty spans), start of the process included."""

CHUNK_BYTES_MAX: Final = 12 * MIB
"""A larger chunk, with records past the default limit, gets proportionally more time."""

IDLE_S: Final = 60.0
"""How long a process has no chunk before it ends, unless it is the first: it holds 60 MiB, and starts in a second."""

REASON: Final = (
    "Clearspan failed on it, which is a defect of Clearspan: decoding it fails or ends the process each time."
    " Replay it once the defect is fixed."
)

_log = get_logger(__name__)


class Decoder(Protocol):
    """Decodes chunks outside the event loop. A chunk gives the same rows wherever it is decoded."""

    @property
    def chunks_max(self) -> int:
        """How many chunks at once keep it busy; more would only wait."""
        ...

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk. Safe to cancel. Any exception is a defect: nothing may be committed then."""
        ...

    async def join(self, chunk: JoiningChunk, /) -> pa.Table:
        """Return ``joined_rows`` of a chunk. Raises like ``decode``."""
        ...

    async def close(self) -> None:
        """Release threads and processes; chunks that are being decoded are dropped. Safe to call twice."""
        ...


async def open_decoder(rules: Rules, *, processes: int, niceness: int = 0) -> Decoder:
    """Return a decoder that uses at most ``processes`` child processes, or a thread of this process if 0.

    ``niceness`` is that of the processes, beyond that of this one.
    """
    if processes:
        return ProcessDecoder(rules, processes=processes, niceness=niceness)
    await asyncio.to_thread(warm_up)
    return ThreadDecoder(rules)


class ThreadDecoder:
    """Decodes in a thread of this process, one chunk at a time; the thread shares the interpreter lock."""

    chunks_max = 1

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk."""
        return await asyncio.to_thread(decode_chunk, chunk, self._rules)

    async def join(self, chunk: JoiningChunk, /) -> pa.Table:
        """Derive the rows of a chunk."""
        return await asyncio.to_thread(joined_rows, chunk, self._rules.prices)

    async def close(self) -> None:
        """Do nothing: nothing is held."""


class DecoderFailed(Exception):
    """A defect: decoding raised in the process, or ends the process each time. The message says what and where."""


class ProcessDecoder:
    """Decodes in child processes; see the module."""

    def __init__(
        self,
        rules: Rules,
        *,
        processes: int,
        niceness: int = 0,
        response_s_max: float = RESPONSE_S_MAX,
        idle_s: float = IDLE_S,
    ) -> None:
        program = Program(
            name="decoder",
            run=partial(run, rules=rules),
            count_restart=DECODER_RESTARTS.inc,
            prepare=partial(prepare, niceness),
        )
        self._pool = ChildPool(
            program,
            PoolLimits(processes=processes, ends_max=TRIES_MAX, hangs_max=TRIES_MAX, keeps_first=True, idle_s=idle_s),
        )
        self._rules = rules
        self._response_s_max = response_s_max
        self.chunks_max = CHUNKS_PER_PROCESS * processes

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes that run now."""
        return self._pool.process_ids

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk. Raises ``DecoderFailed`` if the processes fail whatever they get."""
        try:
            return await self._decode(chunk)
        except DecoderFailed as failure:
            if len(chunk.records) == 1:
                return await self._reject(chunk, failure)
            if not chunk.records:
                raise
        return _joined([await self.decode(replace(chunk, records=[record])) for record in chunk.records])

    async def join(self, chunk: JoiningChunk, /) -> pa.Table:
        """Derive the rows of a chunk. Raises ``DecoderFailed`` if the processes fail on it."""
        return read_stream(await self._run(chunk, timeout_s=self._response_s_max, described="spans with log events"))

    async def close(self) -> None:
        """End the processes. Safe to call twice."""
        await self._pool.close()

    async def _decode(self, chunk: Chunk) -> DecodedChunk:
        size = sum(len(record.value or b"") for record in chunk.records)
        timeout_s = self._response_s_max * max(1.0, size / CHUNK_BYTES_MAX)
        return from_parts(*await self._run(chunk, timeout_s=timeout_s, described=_described(chunk)))

    async def _run(self, chunk: Chunk | JoiningChunk, *, timeout_s: float, described: str) -> Any:
        match await shielded(self._pool.submit(chunk, timeout_s=timeout_s)):
            case Lost(tries_count):
                raise DecoderFailed(
                    f"The decoder ended or hung {tries_count} times over the same records: {described}."
                )
            case Failure(trace):
                raise DecoderFailed(f"Decoding failed, which is a defect of Clearspan:\n{trace}")
            case ServiceFailure() as failure:
                raise DecoderFailed(f"Decoding failed, which is a defect of Clearspan: {failure.error()}")
            case success:
                return success.value

    async def _reject(self, chunk: Chunk, failure: DecoderFailed) -> DecodedChunk:
        """Reject the only record of a chunk. Raises ``DecoderFailed`` if an empty chunk fails too."""
        await self._decode(replace(chunk, records=[]))
        (record,) = chunk.records
        _log.error(
            "A record cannot be decoded; it becomes a dead letter.",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=str(failure),
        )
        return reject_records(chunk, self._rules, REASON)


def from_parts(decoded: DecodedChunk, rows: Any, events: Any) -> DecodedChunk:
    """Return the chunk with its rows and events, which are read in place."""
    return decoded._replace(rows=read_stream(rows), events=read_stream(events))


def read_stream(rows: Any) -> pa.Table:
    """Return the rows of an Arrow IPC stream, which are read in place."""
    return pa.ipc.open_stream(pa.py_buffer(rows)).read_all()


def _joined(parts: list[DecodedChunk]) -> DecodedChunk:
    """Return the result of a chunk whose records were decoded one by one."""
    projects = {project for part in parts for project in part.masked}
    return DecodedChunk(
        outcomes=[outcome for part in parts for outcome in part.outcomes],
        claimed=frozenset().union(*(part.claimed for part in parts)),
        rows=pa.concat_tables([part.rows for part in parts]),
        seconds=sum(part.seconds for part in parts),
        masked={project: sum(part.masked.get(project, 0) for part in parts) for project in projects},
        events=pa.concat_tables([part.events for part in parts]),
    )


def _described(chunk: Chunk) -> str:
    extents: dict[str, tuple[int, int]] = {}
    for record in chunk.records:
        partition_id = chunk.partition_ids[record.source]
        extents[partition_id] = (extents.get(partition_id, (record.offset, 0))[0], record.offset)
    return ", ".join(f"{partition_id} {first}–{last}" for partition_id, (first, last) in extents.items())
