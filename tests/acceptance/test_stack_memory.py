"""The memory of the whole embedded stack: at rest, and while it stores as fast as it can (ADR 0031)."""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bench.records import llm_records, plain_records
from clearspan.embedded.layout import Layout
from tests.support.memory import memory_bytes
from tests.support.produce import produce
from tests.support.scale import scaled
from tests.support.stack import RunningStack, running_stack

IDLE_BYTES_MAX: Final = 650_000_000

PEAK_BYTES_MAX: Final = 1_200_000_000
SPANS: Final = scaled(20_000, 400_000)
IDLE_S: Final = 10.0
WITHIN_S: Final = scaled(240.0, 1_800.0)


def _memory_bytes(stack: RunningStack, data_dir: Path) -> int:
    """Return the memory of all processes; Postgres runs outside the tree of the stack."""
    postmaster = int((Layout(data_dir).postgres / "postmaster.pid").read_text().split()[0])
    return memory_bytes(stack.process.pid) + memory_bytes(postmaster)


@contextmanager
def _peak_of(measure: Callable[[], int]) -> Iterator[list[int]]:
    """Yield a list whose only element is the largest value until the end of the block."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.1):
            peak[0] = max(peak[0], measure())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield peak
    finally:
        ended.set()
        watching.join()


@pytest.mark.scaled
def test_stack_stays_small_at_rest_and_below_its_limit_at_full_rate(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_stack(data_dir) as stack:
        time.sleep(IDLE_S)
        idle_bytes = _memory_bytes(stack, data_dir)
        with _peak_of(lambda: _memory_bytes(stack, data_dir)) as peak:
            produce(stack.kafka, "otlp_spans", list(plain_records(SPANS, spans_per_record=100)))
            produce(stack.kafka, "otlp_spans", list(llm_records(SPANS // 5)))
            _wait_until_stored(stack, SPANS + SPANS // 5)
    logging.getLogger(__name__).info("At rest %d MB, peak %d MB.", idle_bytes // 1_000_000, peak[0] // 1_000_000)
    assert 100_000_000 < idle_bytes < IDLE_BYTES_MAX
    assert idle_bytes < peak[0] < PEAK_BYTES_MAX


def _wait_until_stored(stack: RunningStack, count: int) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while (stored := _stored(stack)) < count:
        assert time.monotonic() < deadline_s, f"only {stored} of {count} spans are stored in time"
        time.sleep(0.2)


def _stored(stack: RunningStack) -> float:
    with urllib.request.urlopen(f"{stack.worker}/metrics", timeout=60) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("clearspan_spans_stored_total "))
