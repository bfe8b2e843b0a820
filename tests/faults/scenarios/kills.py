"""a. Workers that get SIGKILL, at random moments and at each named point."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from tests.faults.dying_worker import POINTS
from tests.faults.processes import READY_S, ServerProcess
from tests.faults.round import Round, Scenario

DIES_WITHIN_S = 90.0
MOVES_AGAIN_S = 8.0
"""A worker that was joining when the partitions moved had nothing to give up: they must move again."""


def kill_workers(played: Round) -> None:
    """SIGKILL at random moments: three times for one worker or the other, or for both at once."""
    played.produce()
    if played.random.random() < 0.3:
        played.pause(2.0)
        kill(played.installation.workers)
        return
    for _ in range(3):
        played.pause(1.0)
        kill([played.random.choice(played.installation.workers)])


def kill(workers: Sequence[ServerProcess]) -> None:
    """SIGKILL workers at once, and start them again."""
    for worker in workers:
        worker.send(signal.SIGKILL)
    for worker in workers:
        worker.wait()
        worker.start()


def kill_both_apis(played: Round) -> None:
    """SIGKILL for both APIs, one after the other; readers repeat their requests."""
    played.produce()
    for api in played.installation.apis:
        played.pause(1.5)
        api.kill()
        api.start()


def end_workers_in_turn(played: Round) -> None:
    """SIGTERM for each worker in turn, as a rolling deploy does: each has a drain of its own."""
    played.produce()
    for worker in played.installation.workers:
        played.pause(1.5)
        code = worker.end(signal.SIGTERM)
        if code != 0:
            played.note(f"{worker.name} ended with {code} after SIGTERM")
        worker.start()


def _dies(played: Round, name: str, *, is_moved: bool) -> None:
    """Replace a worker by one that dies at a point; ``is_moved``: partitions must move, or it ends, to reach it."""
    worker = played.random.choice(played.installation.workers)
    worker.kill()
    nth = 1 if is_moved else played.random.randint(1, 2)
    _start_dying(played, worker, name, nth)
    has_bad_spans = name in ("after position", "after rows of dead letters", "after dead letters", "after commit")
    producer = played.produce(bad_span_share=0.02 if has_bad_spans else 0.0)
    if is_moved:
        played.until(lambda: producer.acknowledged_share > 0.3, "a third of the records is acknowledged")
        _move(played, name, worker)
    ends = time.monotonic() + DIES_WITHIN_S
    while not _has_died(worker, within_s=MOVES_AGAIN_S) and time.monotonic() < ends:
        if is_moved:
            _move(played, name, worker)
    if worker.is_running:
        played.note(f"{worker.name} did not reach the point {name!r}")
    worker.kill()
    worker.start()


def _start_dying(played: Round, worker: ServerProcess, name: str, nth: int, *, tries_left: int = 5) -> None:
    """Return when it is ready; one that reached its point before, while the group was settling, is started again."""
    worker.start("tests.faults.dying_worker", name, str(nth))
    played.until(lambda: not (worker.is_running and worker.waiting_for()), "the worker is ready", within_s=READY_S)
    if not worker.is_running:
        worker.wait()
        assert tries_left, f"{worker.name} dies before it is ready"
        _start_dying(played, worker, name, nth, tries_left=tries_left - 1)


def _has_died(worker: ServerProcess, *, within_s: float) -> bool:
    ends = time.monotonic() + within_s
    while worker.is_running and time.monotonic() < ends:
        time.sleep(0.02)
    return not worker.is_running


def _move(played: Round, name: str, worker: ServerProcess) -> None:
    if name == "in a drain":
        worker.send(signal.SIGTERM)
        return
    for other in played.installation.workers:
        if other is not worker:
            other.kill()
            other.start()


def _scenario(name: str) -> Scenario:
    def scenario(played: Round) -> None:
        _dies(played, name, is_moved=name.startswith("in a"))

    scenario.__name__ = f"kill_{name.replace(' ', '_')}"
    scenario.__doc__ = f"SIGKILL for a worker {name}."
    return scenario


SCENARIOS: tuple[Scenario, ...] = (
    kill_workers,
    kill_both_apis,
    end_workers_in_turn,
    *map(_scenario, POINTS),
)
