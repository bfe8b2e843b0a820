"""c. Postgres stops, starts again, cuts connections inside transactions, and is slow."""

from __future__ import annotations

import time
from typing import Final

from tests.faults.committer import Committer
from tests.faults.round import Round, Scenario

AWAY_S: Final = 3.0


def postgres_is_away(played: Round) -> None:
    """It is stopped, or its connections are refused: before the first span of the project, or while spans arrive."""
    fail = played.random.choice((played.installation.postgres.stop, played.installation.postgres_link.refuse))
    if played.random.random() < 0.5:
        fail()
        played.produce()
    else:
        played.produce()
        played.pause(1.5)
        fail()
    time.sleep(AWAY_S)


def postgres_cuts_transactions(played: Round) -> None:
    """Connections are reset, at random moments and at a COMMIT, while revisions are committed and spans arrive."""
    link = played.installation.postgres_link
    committer = Committer(played.client)
    producer = played.produce()

    def cut() -> None:
        played.random.choice((link.cut, lambda: link.cut_at(b"COMMIT")))()

    played.repeat(cut, producer, longest_s=0.3)
    for wrong in committer.finish():
        played.note(wrong)


def postgres_is_slow(played: Round) -> None:
    """Every response comes two seconds later."""
    played.installation.postgres_link.delay(2.0)
    played.produce()
    time.sleep(6.0)


SCENARIOS: tuple[Scenario, ...] = (
    postgres_is_away,
    postgres_cuts_transactions,
    postgres_is_slow,
)
