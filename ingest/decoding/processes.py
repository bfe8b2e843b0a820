"""Chunks opened in processes of their own, so that decoding has an interpreter for itself (ADR 0006).

A process holds nothing that could be lost: when one ends unasked, another is started and gets the same chunk again.
Order is kept by who awaits: answers of one process come in the order of its chunks, and the worker takes them in the
order in which it handed them out.
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
from itertools import cycle
from pathlib import Path
from typing import Final

from common.limits import MIB
from common.telemetry import DECODER_RESTARTS, get_logger
from common.waiting import shielded
from ingest.consume import Rules
from ingest.decoding.chunk import Chunk, DecodedChunk
from ingest.decoding.ipc import Failure, receive, send

CHUNKS_OF_ONE: Final = 4
"""One is opened while the next one already lies in the pipe; more, so that it works on while a batch waits for the engine."""

TRIES_MAX: Final = 3
ANSWER_S_MAX: Final = 120.0
"""Four times what the worst record of 10 MiB takes, five million empty spans, start of the process included: who needs more hangs."""

CHUNK_BYTES_MAX: Final = 12 * MIB
"""A larger chunk, of records past the default limit, has more time in proportion."""

PIPE_BYTES: Final = MIB
"""As much as Linux gives to anybody: fewer turns between the two ends, each of which costs the loop's thread a moment."""

ROOT: Final = Path(__file__).parents[2]

_log = get_logger(__name__)


class DecoderFailed(Exception):
    """A bug of ours: what is opened in the process raised, or ends the process each time. The message says which."""


class _Ended(Exception):
    """The process has ended before it answered."""


class ProcessDecoder:
    """``processes`` of them, each with chunks in turn; they start at once and need a second until they are there."""

    def __init__(self, rules: Rules, *, processes: int, answer_s_max: float = ANSWER_S_MAX) -> None:
        self._lanes = [_Lane(rules, answer_s_max=answer_s_max) for _ in range(processes)]
        self._turns = cycle(self._lanes)

    @property
    def chunks_max(self) -> int:
        """So many at once keep them busy."""
        return CHUNKS_OF_ONE * len(self._lanes)

    @property
    def process_ids(self) -> list[int]:
        """Of those that run now."""
        return [lane.process_id for lane in self._lanes]

    async def open(self, chunk: Chunk, /) -> DecodedChunk:
        """The chunk, opened by the process whose turn it is. Raises ``DecoderFailed``."""
        return await next(self._turns).open(chunk)

    async def close(self) -> None:
        """End the processes. Safe to call twice."""
        for lane in self._lanes:
            await lane.close()


class _Lane:
    """One process after the other: when one ends unasked, or hangs, the next takes its place."""

    def __init__(self, rules: Rules, *, answer_s_max: float) -> None:
        self._rules = rules
        self._answer_s_max = answer_s_max
        self._child = _Child(rules)

    @property
    def process_id(self) -> int:
        return self._child.process_id

    async def open(self, chunk: Chunk) -> DecodedChunk:
        for _ in range(TRIES_MAX):
            child = self._child
            try:
                return await self._answer(child, chunk)
            except (_Ended, TimeoutError):
                await self._replace(child)
        raise DecoderFailed(f"The decoder ended or hung {TRIES_MAX} times over the same records: {_described(chunk)}.")

    async def _answer(self, child: _Child, chunk: Chunk) -> DecodedChunk:
        """The time that the chunk may take begins when the child has answered those before it."""
        begun_s, answer_s_max = time.monotonic(), self._answer_s_max * max(1.0, _size(chunk) / CHUNK_BYTES_MAX)
        decoding = asyncio.ensure_future(child.open(chunk))
        try:
            while not decoding.done():
                left_s = max(begun_s, child.answered_s) + answer_s_max - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                await asyncio.wait({decoding}, timeout=left_s)
            return decoding.result()
        finally:
            decoding.cancel()

    async def close(self) -> None:
        await self._child.close()

    async def _replace(self, ended: _Child) -> None:
        if self._child is not ended:  # another chunk was with it, and has seen to it already
            return
        self._child = _Child(self._rules)
        DECODER_RESTARTS.inc()
        _log.warning("A decoder has ended or hung; another takes its place.", exit_code=await ended.close())


class _Child:
    """One process and the two pipes to it, each with a thread of its own that may wait for it."""

    def __init__(self, rules: Rules) -> None:
        request_end, to_child = os.pipe()
        from_child, answer_end = os.pipe()
        for each in (to_child, from_child):
            _widen(each)
        self._process = subprocess.Popen(  # noqa: S603 - this program itself, no input of a user
            [sys.executable, "-m", "ingest.decoding.child", str(request_end), str(answer_end)],
            stdin=subprocess.DEVNULL,
            pass_fds=(request_end, answer_end),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
            process_group=0,  # Ctrl-C is for the worker, which drains with its decoder still there
        )
        os.close(request_end)
        os.close(answer_end)
        self._requests = os.fdopen(to_child, "wb")
        self._answers = os.fdopen(from_child, "rb")
        self.answered_s = time.monotonic()
        self._sending = ThreadPoolExecutor(1, thread_name_prefix="to-decoder")
        self._receiving = ThreadPoolExecutor(1, thread_name_prefix="from-decoder")
        self._sending.submit(send, self._requests, rules)

    @property
    def process_id(self) -> int:
        return self._process.pid

    async def open(self, chunk: Chunk) -> DecodedChunk:
        """Raises ``_Ended`` and ``DecoderFailed``. Shielded: an answer that nobody waits for must still be read."""
        loop = asyncio.get_running_loop()
        try:
            sent = loop.run_in_executor(self._sending, send, self._requests, chunk)
            received = loop.run_in_executor(self._receiving, receive, self._answers)
            received.add_done_callback(self._note_answer)
            _, answer = await shielded(asyncio.gather(sent, received))
        except (OSError, EOFError) as exc:
            raise _Ended from exc
        if isinstance(answer, Failure):
            raise DecoderFailed(f"The decoder met a bug of ours:\n{answer.trace}")
        decoded: DecodedChunk = answer
        return decoded

    def _note_answer(self, _received: object) -> None:
        self.answered_s = time.monotonic()

    async def close(self) -> int:
        """End the process at once, it has nothing to lose; the exit code."""
        self._process.kill()
        code = await asyncio.to_thread(self._process.wait)
        # Their threads are at the pipes, which have no other end now.
        await asyncio.to_thread(self._sending.shutdown)
        await asyncio.to_thread(self._receiving.shutdown)
        with suppress(OSError):
            self._requests.close()
        self._answers.close()
        return code


def _widen(pipe: int) -> None:
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's pipes may be used up; it works without
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _size(chunk: Chunk) -> int:
    return sum(len(each.value or b"") for each in chunk.records)


def _described(chunk: Chunk) -> str:
    extents: dict[str, tuple[int, int]] = {}
    for record in chunk.records:
        partition_id = chunk.partition_ids[record.source]
        extents[partition_id] = (extents.get(partition_id, (record.offset, 0))[0], record.offset)
    return ", ".join(f"{partition_id} {first}–{last}" for partition_id, (first, last) in extents.items())
