"""c. ClickHouse refuses, hangs, answers with errors, restarts, is slow, or rejects a row for ever."""

from __future__ import annotations

import time
from typing import Final

from tests.faults.round import Round, Scenario
from tests.support.faulty_proxy import HttpFault

AWAY_S: Final = 3.0
HANGS_S: Final = 7.0
"""Longer than the time of an insert."""

READ_ONLY: Final = 242
OUT_OF_DISK: Final = 243
LOGICAL_ERROR: Final = 49
ALWAYS: Final = 1_000_000
"""More statements than there are in a round."""


def clickhouse_refuses(played: Round) -> None:
    """Every connection is cut, new ones are refused."""
    played.produce()
    played.pause(1.5)
    played.installation.clickhouse_link.refuse()
    time.sleep(AWAY_S)


def clickhouse_hangs(played: Round) -> None:
    """No byte passes, or the process stands still (SIGSTOP), for longer than an insert may take."""
    played.produce()
    played.pause(1.5)
    if played.random.random() < 0.5:
        played.installation.clickhouse_link.hang()
    else:
        played.installation.engine.freeze()
    time.sleep(HANGS_S)


def clickhouse_is_killed(played: Round) -> None:
    """The engine gets SIGKILL and is started again over its data."""
    played.produce()
    played.pause(2.0)
    played.installation.engine.stop()
    played.pause(2.0)
    played.installation.engine.start()


def clickhouse_resets_after_inserts(played: Round) -> None:
    """Inserts take effect, and the connection is reset before the response."""
    played.installation.fail_inserts(HttpFault("reset", after=True, times=played.random.randint(2, 6)))
    played.produce()
    time.sleep(AWAY_S)


def clickhouse_cuts_connections(played: Round) -> None:
    """Every open connection is reset, again and again, wherever its statement is."""
    producer = played.produce()
    played.repeat(played.installation.clickhouse_link.cut, producer, longest_s=0.4)


def clickhouse_is_slow(played: Round) -> None:
    """Every response comes two seconds later."""
    played.installation.clickhouse_link.delay(2.0)
    played.produce(lasting_s=2.0)
    time.sleep(6.0)


def _fails(name: str, code: int, *, times: int) -> Scenario:
    def scenario(played: Round) -> None:
        played.may_end = code == LOGICAL_ERROR
        played.produce()
        played.pause(1.0)
        played.installation.fail_inserts(HttpFault("error", code=code, times=times))
        time.sleep(AWAY_S)

    scenario.__name__ = f"clickhouse_{name}"
    scenario.__doc__ = f"Inserts fail with the code {code}; a worker ends at one that is no fault of the engine."
    return scenario


def clickhouse_rejects_a_span(played: Round) -> None:
    """The engine never accepts certain spans that the worker accepted: a constraint of the table keeps them out."""
    played.produce(bad_span_share=0.01, faults=("poison",))


SCENARIOS: tuple[Scenario, ...] = (
    clickhouse_refuses,
    clickhouse_hangs,
    clickhouse_is_killed,
    clickhouse_resets_after_inserts,
    clickhouse_cuts_connections,
    clickhouse_is_slow,
    _fails("answers_500", LOGICAL_ERROR, times=1),
    _fails("is_read_only", READ_ONLY, times=ALWAYS),
    _fails("is_out_of_disk", OUT_OF_DISK, times=ALWAYS),
    clickhouse_rejects_a_span,
)
