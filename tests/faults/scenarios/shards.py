"""c. Tables that are divided among two shards, of which the second one fails: an installation of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.faults.installation import installation
from tests.faults.round import Outcome, Round, play

HANGS_S: Final = 7.0
"""Longer than the time of an insert."""


def one_of_two_shards_fails(seed: int, *, size: float = 1.0) -> Outcome:
    """The second shard is killed and started again, or stands still, or never takes certain spans."""
    with (
        TemporaryDirectory(prefix="clearspan-faults-shards-") as directory,
        installation(Path(directory), shards_count=2) as found,
    ):
        return replace(play(found, _fault, seed, size=size), scenario=one_of_two_shards_fails.__name__)


def _fault(played: Round) -> None:
    faults: list[Callable[[Round], None]] = [_is_killed, _hangs, _rejects]
    played.random.choice(faults)(played)


def _is_killed(played: Round) -> None:
    played.produce()
    for _ in range(2):
        played.pause(2.0)
        played.installation.shards[1].stop()
        played.pause(2.0)
        played.installation.shards[1].start()


def _hangs(played: Round) -> None:
    played.produce()
    played.pause(1.5)
    played.installation.shards[1].freeze()
    time.sleep(HANGS_S)


def _rejects(played: Round) -> None:
    played.produce(bad_span_share=0.01, faults=("poison",))
