"""Processor time and memory of another process with all its children, such as a stack or a peer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from bench.harness import cpu_s
from tests.support.memory import memory_bytes
from tests.support.process_guard import ProcessGuard

SAMPLE_S: Final = 0.25
QUIET_S: Final = 3.0
QUIET_STEP_S: Final = 0.5
QUIET_CORES: Final = 0.15
"""A process that uses less is idle: background tasks of an idle stack use about half of it."""

SETTLE_S_MAX: Final = 1_800.0


@dataclass
class Watched:
    """Processes whose memory is sampled while they work, each with its children."""

    process_ids: Sequence[int]
    peak_bytes: int = 0

    def cpu_s(self) -> float:
        """Return the processor time until now."""
        return sum(map(cpu_s, self.process_ids))

    def memory_mib(self) -> int:
        """Return the memory now; pages that processes share count once."""
        return round(sum(map(memory_bytes, self.process_ids)) / 2**20)

    @property
    def peak_mib(self) -> int:
        """Return the largest sample so far."""
        return round(self.peak_bytes / 2**20)

    async def quiet(self, quiet_s: float = QUIET_S) -> float:
        """Return when the processes have been idle for some seconds: the monotonic time since when they are.

        Raises ``TimeoutError``.
        """
        since_s, before_s = time.monotonic(), self.cpu_s()
        async with asyncio.timeout(SETTLE_S_MAX):
            while time.monotonic() - since_s < quiet_s:
                began_s = time.monotonic()
                await asyncio.sleep(QUIET_STEP_S)
                now_s = self.cpu_s()
                if now_s - before_s > QUIET_CORES * (time.monotonic() - began_s):
                    since_s = time.monotonic()
                before_s = now_s
        return since_s

    async def _sample(self) -> None:
        while True:
            with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                self.peak_bytes = max(self.peak_bytes, sum(map(memory_bytes, self.process_ids)))
            await asyncio.sleep(SAMPLE_S)


@asynccontextmanager
async def watching(*process_ids: int) -> AsyncIterator[Watched]:
    """Watch processes inside the context."""
    watched = Watched(process_ids)
    sampling = asyncio.create_task(watched._sample(), name="sample-memory")
    try:
        yield watched
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})


@contextmanager
def guarded() -> Iterator[None]:
    """End every process that is started inside the context at its end, also if this process is killed."""
    guard = ProcessGuard()
    try:
        yield
    finally:
        guard.close()


def disk_bytes(directory: Path) -> int:
    """Return the size of all files below a directory."""
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
