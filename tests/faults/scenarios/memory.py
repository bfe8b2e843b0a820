"""f. The memory of a worker: a backlog, a slow engine, large spans. It stays below ``MEMORY_BYTES_MAX``."""

from __future__ import annotations

import signal
import time
from typing import Final

from tests.faults.installation import SETTLED_S
from tests.faults.round import Round, Scenario
from tests.faults.spans import PROTO_TOPIC
from tests.support.memory import memory_bytes

MEMORY_BYTES_MAX: Final = 1_000_000_000
BACKLOG_SPANS: Final = 5_000
LARGE_SPANS: Final = 12
LARGE_BYTES: Final = 4 * 1024 * 1024 - 4_096
SLOW_S: Final = 0.3
MEASURE_S: Final = 0.2


def backlog_and_slow_engine(played: Round) -> None:
    """Everything has been published before the workers start, and each answer of the engine comes late."""
    for worker in played.installation.workers:
        worker.end(signal.SIGTERM)
    played.produce(spans_count=int(BACKLOG_SPANS * played.size), updated_share=0.02, lasting_s=0.0).finish()
    _start_and_measure(played)


def spans_of_4_mib(played: Round) -> None:
    """Spans of 4 MiB, the largest that are allowed, and a slow engine."""
    for worker in played.installation.workers:
        worker.end(signal.SIGTERM)
    played.produce(
        spans_count=LARGE_SPANS,
        spans_per_record=2,
        padding="word " * (LARGE_BYTES // 5),
        topics=(PROTO_TOPIC,),
        updated_share=0.0,
        lasting_s=0.0,
    ).finish()
    _start_and_measure(played)


def _start_and_measure(played: Round) -> None:
    """Start the workers before a slow engine, and note the one that takes too much memory until all is committed."""
    played.installation.clickhouse_link.delay(SLOW_S)
    for worker in played.installation.workers:
        worker.start()
    peak_bytes = 0
    deadline_s = time.monotonic() + SETTLED_S
    while played.installation.uncommitted() != 0 and time.monotonic() < deadline_s:
        for worker in played.installation.workers:
            if worker.process is not None:
                peak_bytes = max(peak_bytes, memory_bytes(worker.process.pid))
        time.sleep(MEASURE_S)
    if peak_bytes > MEMORY_BYTES_MAX:
        played.note(f"a worker took {peak_bytes // 1_000_000} MB; {MEMORY_BYTES_MAX // 1_000_000} are allowed")


SCENARIOS: tuple[Scenario, ...] = (backlog_and_slow_engine, spans_of_4_mib)
