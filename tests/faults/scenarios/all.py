"""Every scenario, by kind, and how to play one by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.installation import Installation
from tests.faults.round import Outcome, Scenario, play
from tests.faults.scenarios import clickhouse, kafka, kills, later, members, memory, postgres, spans
from tests.faults.scenarios.embedded import kill_the_embedded_stack
from tests.faults.scenarios.shards import one_of_two_shards_fails

EMBEDDED: Final = kill_the_embedded_stack.__name__
SHARDS: Final = one_of_two_shards_fails.__name__
ALONE: Final = {EMBEDDED: kill_the_embedded_stack, SHARDS: one_of_two_shards_fails}
"""The scenarios that bring what they run on."""

KINDS: Final[Mapping[str, tuple[Scenario, ...]]] = {
    "kills": kills.SCENARIOS,
    "members": members.SCENARIOS,
    "clickhouse": clickhouse.SCENARIOS,
    "kafka": kafka.SCENARIOS,
    "postgres": postgres.SCENARIOS,
    "spans": spans.SCENARIOS,
    "memory": memory.SCENARIOS,
    "later": later.SCENARIOS,
}
_BY_NAME: Final = {scenario.__name__: scenario for kind in KINDS.values() for scenario in kind}
NAMES: Final = (*_BY_NAME, *ALONE)


def play_named(found: Installation, name: str, seed: int, *, size: float = 1.0) -> Outcome:
    """Play one round of the scenario with this name."""
    if name in ALONE:
        return ALONE[name](seed, size=size)
    return play(found, _BY_NAME[name], seed, size=size)
