"""b. Workers that join, leave, and wake up after the group has given them up."""

from __future__ import annotations

import signal
import time

from tests.faults.installation import SESSION_S
from tests.faults.round import Round, Scenario


def third_worker_joins_and_leaves(played: Round) -> None:
    """A third worker joins and leaves while spans arrive."""
    played.produce(lasting_s=8.0)
    third = played.installation.new_worker()
    try:
        third.start()
        third.wait_until_ready()
        played.pause(1.0)
        if (code := third.end(signal.SIGTERM)) != 0:
            played.note(f"the third worker ended with {code} after SIGTERM")
    finally:
        third.kill()


def workers_come_and_go(played: Round) -> None:
    """Workers leave in an orderly way or not, and come back, in random order."""
    played.produce(lasting_s=5.0)
    for _ in range(4):
        worker = played.random.choice(played.installation.workers)
        worker.end(played.random.choice((signal.SIGTERM, signal.SIGKILL)))
        played.pause(1.0)
        worker.start()


def sleeping_workers_wake_up(played: Round) -> None:
    """One worker or both are stopped (SIGSTOP) for longer than their sessions, then insert what they held.

    If both are, the first one takes over everything before the second wakes up.
    """
    producer = played.produce(lasting_s=4.0)
    played.until(lambda: producer.acknowledged_share > 0.1, "the producer has begun")
    played.pause(1.0)
    sleepers = played.random.sample(played.installation.workers, played.random.randint(1, 2))
    for worker in sleepers:
        worker.send(signal.SIGSTOP)
    time.sleep(SESSION_S * 1.5)
    for worker in sleepers:
        worker.send(signal.SIGCONT)
        time.sleep(SESSION_S)


SCENARIOS: tuple[Scenario, ...] = (
    third_worker_joins_and_leaves,
    workers_come_and_go,
    sleeping_workers_wake_up,
)
