"""b. Workers that join, leave, and wake up after the group has given them up."""

from __future__ import annotations

import signal
import time

from tests.faults.installation import SESSION_S
from tests.faults.round import Round, Scenario


def third_worker_joins_and_leaves(played: Round) -> None:
    """A third worker joins and leaves while spans arrive."""
    played.produce(lasting_s=8.0)
    third = played.found.new_worker()
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
        worker = played.random.choice(played.found.workers)
        worker.end(played.random.choice((signal.SIGTERM, signal.SIGKILL)))
        played.pause(1.0)
        worker.start()


def sleeping_worker_wakes_up(played: Round) -> None:
    """A worker is stopped (SIGSTOP) for longer than its session, then inserts what it held."""
    producer = played.produce(lasting_s=4.0)
    played.until(lambda: producer.acknowledged_share > 0.1, "the producer has begun")
    sleeper = played.random.choice(played.found.workers)
    played.pause(1.0)
    sleeper.send(signal.SIGSTOP)
    try:
        time.sleep(SESSION_S * 1.5)
    finally:
        sleeper.send(signal.SIGCONT)


def both_workers_sleep(played: Round) -> None:
    """Both workers are stopped for longer than their sessions; the first takes over all before the second wakes up."""
    producer = played.produce(lasting_s=4.0)
    played.until(lambda: producer.acknowledged_share > 0.1, "the producer has begun")
    for worker in played.found.workers:
        worker.send(signal.SIGSTOP)
    try:
        time.sleep(SESSION_S * 1.5)
    finally:
        for worker in played.found.workers:
            worker.send(signal.SIGCONT)
            time.sleep(SESSION_S)


SCENARIOS: tuple[Scenario, ...] = (
    third_worker_joins_and_leaves,
    workers_come_and_go,
    sleeping_worker_wakes_up,
    both_workers_sleep,
)
