"""Decode chunks outside the event loop: in a thread, or in processes with an interpreter of their own (ADR 0006).

A process holds nothing that could be lost: if one ends unexpectedly, another is started and gets the same chunks again.
The responses of one process come in the order of its chunks, and the worker awaits chunks in the order in which it sent
them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from common.fair_share import shielded
from common.limits import MIB
from common.telemetry import DECODER_RESTARTS, get_logger
from ingest.decode import Rules
from ingest.decoding.child import DecodingFailure, receive, send
from ingest.decoding.chunk import Chunk, DecodedChunk, decode_chunk

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

PIPE_BYTES: Final = MIB
"""The largest size that Linux allows any user: fewer switches between the two ends, each of which costs the event loop
time.
"""

ROOT: Final = Path(__file__).parents[2]

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

    async def close(self) -> None:
        """Release threads and processes; chunks that are being decoded are dropped. Safe to call twice."""
        ...


class ThreadDecoder:
    """Decodes in a thread of this process, one chunk at a time; the thread shares the interpreter lock."""

    chunks_max = 1

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk."""
        return await asyncio.to_thread(decode_chunk, chunk, self._rules)

    async def close(self) -> None:
        """Do nothing: nothing is held."""


class DecoderFailed(Exception):
    """A defect: decoding raised in the process, or ends the process each time. The message says what and where."""


class _ChildEnded(Exception):
    """The process ended before it responded."""


class ProcessDecoder:
    """Decodes in child processes; a chunk goes to the one with the fewest.

    The first process starts at once and stays. The others start, in about a second, when the ones before have a chunk,
    and end when they have had none for ``idle_s``.
    """

    def __init__(
        self, rules: Rules, *, processes: int, response_s_max: float = RESPONSE_S_MAX, idle_s: float = IDLE_S
    ) -> None:
        self._processes = [
            _DecoderProcess(rules, response_s_max=response_s_max, idle_s=idle_s if place else None)
            for place in range(processes)
        ]

    @property
    def chunks_max(self) -> int:
        """How many chunks at once keep all processes busy."""
        return CHUNKS_PER_PROCESS * len(self._processes)

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes that run now."""
        return [process.process_id for process in self._processes if process.process_id is not None]

    async def decode(self, chunk: Chunk, /) -> DecodedChunk:
        """Decode a chunk in the process that has the fewest. Raises ``DecoderFailed``."""
        return await min(self._processes, key=lambda process: process.chunks_count).decode(chunk)

    async def close(self) -> None:
        """End the processes. Safe to call twice."""
        for process in self._processes:
            await process.close()


class _DecoderProcess:
    """Decodes in one child at a time; a child that ends unexpectedly or hangs is replaced.

    With ``idle_s`` there is a child only while there are chunks, and for as long afterwards.
    """

    def __init__(self, rules: Rules, *, response_s_max: float, idle_s: float | None) -> None:
        self._rules = rules
        self._response_s_max = response_s_max
        self._idle_s = idle_s
        self._child = _Child(rules) if idle_s is None else None
        self._ending: asyncio.Task[None] | None = None
        self.chunks_count = 0

    @property
    def process_id(self) -> int | None:
        return None if self._child is None else self._child.process_id

    async def decode(self, chunk: Chunk) -> DecodedChunk:
        if self._ending is not None:
            self._ending.cancel()
        self.chunks_count += 1
        try:
            return await self._decode(chunk)
        finally:
            self.chunks_count -= 1
            if not self.chunks_count and self._idle_s is not None:
                self._ending = asyncio.create_task(self._end_idle(self._idle_s), name="end-idle-decoder")

    async def _end_idle(self, idle_s: float) -> None:
        await asyncio.sleep(idle_s)
        child, self._child, self._ending = self._child, None, None  # no longer cancelled: it must be waited for
        if child is not None:
            await child.close()

    async def _decode(self, chunk: Chunk) -> DecodedChunk:
        for _ in range(TRIES_MAX):
            self._child = child = self._child or _Child(self._rules)
            try:
                return await self._response(child, chunk)
            except (_ChildEnded, TimeoutError):
                await self._replace(child)
        raise DecoderFailed(f"The decoder ended or hung {TRIES_MAX} times over the same records: {_described(chunk)}.")

    async def _response(self, child: _Child, chunk: Chunk) -> DecodedChunk:
        """Return the response of the child. Its time limit starts after the responses to the chunks before it."""
        begun_s, response_s_max = time.monotonic(), self._response_s_max * max(1.0, _size(chunk) / CHUNK_BYTES_MAX)
        decoding = asyncio.ensure_future(child.decode(chunk))
        try:
            while not decoding.done():
                left_s = max(begun_s, child.responded_s) + response_s_max - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                await asyncio.wait({decoding}, timeout=left_s)
            return decoding.result()
        finally:
            decoding.cancel()

    async def close(self) -> None:
        self._idle_s = None
        if self._ending is not None:
            self._ending.cancel()
        if self._child is not None:
            await self._child.close()

    async def _replace(self, ended: _Child) -> None:
        if self._child is not ended:  # another chunk was in it, and has replaced it already
            return
        self._child = _Child(self._rules)
        DECODER_RESTARTS.inc()
        _log.warning("A decoder ended or hung; replaced it.", exit_code=await ended.close())


class _Child:
    """One process and the two pipes to it. Each pipe has a thread that may block on it."""

    def __init__(self, rules: Rules) -> None:
        request_end, to_child = os.pipe()
        from_child, response_end = os.pipe()
        for pipe in (to_child, from_child):
            _widen(pipe)
        program = "from ingest.decoding.child import main; main()"
        self._process = subprocess.Popen(  # noqa: S603 - this program itself, no input of a user
            [sys.executable, "-c", program, str(request_end), str(response_end)],
            stdin=subprocess.DEVNULL,
            pass_fds=(request_end, response_end),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
            process_group=0,  # Ctrl-C is for the worker, which needs its decoder while it drains
        )
        os.close(request_end)
        os.close(response_end)
        self._requests = os.fdopen(to_child, "wb")
        self._responses = os.fdopen(from_child, "rb")
        self.responded_s = time.monotonic()
        self._sending = ThreadPoolExecutor(1, thread_name_prefix="to-decoder")
        self._receiving = ThreadPoolExecutor(1, thread_name_prefix="from-decoder")
        self._sending.submit(send, self._requests, rules)

    @property
    def process_id(self) -> int:
        return self._process.pid

    async def decode(self, chunk: Chunk) -> DecodedChunk:
        """Return the decoded chunk. Shielded: a response must be read even if the caller is cancelled. Raises
        ``DecoderFailed``.
        """
        loop = asyncio.get_running_loop()
        try:
            sent = loop.run_in_executor(self._sending, send, self._requests, chunk)
            received = loop.run_in_executor(self._receiving, receive, self._responses)
            received.add_done_callback(self._note_response)
            _, response = await shielded(asyncio.gather(sent, received))
        except (OSError, EOFError) as exc:
            raise _ChildEnded from exc
        if isinstance(response, DecodingFailure):
            raise DecoderFailed(f"Decoding failed, which is a defect of Clearspan:\n{response.trace}")
        decoded: DecodedChunk = response
        return decoded

    def _note_response(self, _received: object) -> None:
        self.responded_s = time.monotonic()

    async def close(self) -> int:
        """Kill the process, which has nothing to lose; return its exit code."""
        self._process.kill()
        code = await asyncio.to_thread(self._process.wait)
        # The other end of the pipes is closed now, so the threads return.
        await asyncio.to_thread(self._sending.shutdown)
        await asyncio.to_thread(self._receiving.shutdown)
        with suppress(OSError):
            self._requests.close()
        self._responses.close()
        return code


def _widen(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's pipe pages may be used up; the default size works too
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _size(chunk: Chunk) -> int:
    return sum(len(record.value or b"") for record in chunk.records)


def _described(chunk: Chunk) -> str:
    extents: dict[str, tuple[int, int]] = {}
    for record in chunk.records:
        partition_id = chunk.partition_ids[record.source]
        extents[partition_id] = (extents.get(partition_id, (record.offset, 0))[0], record.offset)
    return ", ".join(f"{partition_id} {first}–{last}" for partition_id, (first, last) in extents.items())
