"""c. Postgres stops, starts again, cuts connections inside transactions, and is slow."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.committer import Committer
from tests.faults.round import Round, Scenario


def _produce_around(played: Round, fail: Callable[[], None]) -> None:
    """Let Postgres fail before the first span of the project, or while spans arrive."""
    if played.random.random() < 0.5:
        fail()
        played.produce()
    else:
        played.produce()
        played.pause(1.5)
        fail()


def postgres_is_restarted(played: Round) -> None:
    """The server closes all connections, ends, and is started again."""
    _produce_around(played, played.found.postgres.stop)
    time.sleep(3.0)
    played.found.postgres.start()


def postgres_refuses(played: Round) -> None:
    """Every connection is cut, new ones are refused."""
    _produce_around(played, played.found.postgres_link.refuse)
    time.sleep(3.0)
    played.found.postgres_link.restore()


def postgres_cuts_transactions(played: Round) -> None:
    """Every open connection is reset, again and again, while revisions are committed and spans arrive."""
    committer = Committer(played.found.client(f"ApiKey {played.key}"))
    producer = played.produce()
    while producer.acknowledged_share < 1.0:
        played.pause(0.3)
        played.found.postgres_link.cut()
    for wrong in committer.finish():
        played.note(wrong)


def postgres_is_slow(played: Round) -> None:
    """Every response comes two seconds later."""
    played.found.postgres_link.delay(2.0)
    played.produce()
    time.sleep(6.0)
    played.found.postgres_link.restore()


SCENARIOS: tuple[Scenario, ...] = (
    postgres_is_restarted,
    postgres_refuses,
    postgres_cuts_transactions,
    postgres_is_slow,
)
