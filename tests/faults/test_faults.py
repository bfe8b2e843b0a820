"""One round of each kind of fault, over the real processes; ``make faults`` plays all scenarios, many times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.installation import Installation, installation
from tests.faults.scenarios.all import EMBEDDED, KINDS, SHARDS, play_named

SIZE = 0.25
"""Of the spans of a usual round."""

FIRST = "kill_after_dead_letters"
"""Played by `make test`; the others take long."""

ONE_OF_EACH_KIND = (
    FIRST,
    "clickhouse_resets_after_inserts",
    "postgres_cuts_transactions",
    "sleeping_workers_wake_up",
    "kafka_is_unreachable",
    "bad_records_and_spans",
    "backlog_and_slow_engine",
    "events_come_later",
    "scores_come_later",
    "spans_run_and_end",
    EMBEDDED,
    SHARDS,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installation(tmp_path_factory.mktemp("faults")) as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_of_each_kind_is_played_here(kind: str) -> None:
    assert any(scenario.__name__ in ONE_OF_EACH_KIND for scenario in KINDS[kind])


@pytest.mark.kafka
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == FIRST else pytest.mark.long) for name in ONE_OF_EACH_KIND]
)
def test_nothing_is_lost_or_seen_twice(found: Installation, name: str) -> None:
    outcome = play_named(found, name, 1, size=SIZE)

    assert outcome.notes == ()
    assert (outcome.lost, outcome.seen_twice) == (0, 0)
    assert outcome.stored + outcome.admitted == outcome.produced > 0
