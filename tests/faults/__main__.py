"""The proof: ``python -m tests.faults --rounds 200``; ``make faults ROUNDS=200`` calls it.

Plays rounds, prints a line for each and a table of all scenarios, and ends with what was produced, stored, lost and seen
twice. The exit code is 0 only if nothing was lost or seen twice.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from tests.faults.installation import Installation, installation
from tests.faults.round import Outcome
from tests.faults.scenarios.all import NAMES, play_named
from tests.support.process_guard import ProcessGuard


def draw(rounds: int, seed: int, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return scenarios with their seeds: each scenario as often as any other, give or take one, in random order."""
    source = random.Random(seed)
    drawn: list[str] = []
    while len(drawn) < rounds:
        drawn += source.sample(list(names), len(names))
    return [(name, source.randrange(10**6)) for name in drawn[:rounds]]


def total(outcomes: Sequence[Outcome], scenario: str = "") -> Outcome:
    """Add up outcomes."""
    return Outcome(
        scenario=scenario,
        seed=0,
        seconds=sum(each.seconds for each in outcomes),
        produced=sum(each.produced for each in outcomes),
        stored=sum(each.stored for each in outcomes),
        lost=sum(each.lost for each in outcomes),
        seen_twice=sum(each.seen_twice for each in outcomes),
        dead_letters=sum(each.dead_letters for each in outcomes),
        admitted=sum(each.admitted for each in outcomes),
        notes=tuple(note for each in outcomes for note in each.notes),
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table of all scenarios, as Markdown."""
    lines = [
        "| scenario | rounds | failed | produced | stored | admitted | lost | seen twice | dead letters | s a round |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in NAMES:
        played = [each for each in outcomes if each.scenario == name]
        if played:
            added = total(played, name)
            lines.append(
                f"| {name.replace('_', ' ')} | {len(played)} | {failed(played)} | {added.produced} | {added.stored} |"
                f" {added.admitted} | {added.lost} | {added.seen_twice} | {added.dead_letters} |"
                f" {added.seconds / len(played):.1f} |"
            )
    return "\n".join(lines)


def failed(outcomes: Sequence[Outcome]) -> int:
    """Count the rounds that have failed; one that could not be finished has counted nothing."""
    return sum(not each.is_good for each in outcomes)


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)  # noqa: T201 - a command of developers


def main() -> int:
    """Play the rounds; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, help="how many; by default one of each scenario")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats the order and the random moments")
    parser.add_argument("--only", nargs="+", choices=sorted(NAMES), metavar="SCENARIO", help="only these scenarios")
    parser.add_argument("--stop", action="store_true", help="end after the first round that fails")
    parser.add_argument("--keep", type=Path, help="keep data and logs in this directory")
    options = parser.parse_args()
    names = options.only or list(NAMES)
    rounds = draw(options.rounds or len(names), options.seed, names)
    say(f"seed {options.seed}, {len(rounds)} rounds")
    with tempfile.TemporaryDirectory(prefix="clearspan-faults-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        outcomes = played(rounds, directory, stops=options.stop)
    say(f"\n{table(outcomes)}\n")
    say(f"{len(outcomes)} rounds, {failed(outcomes)} failed")
    say(str(total(outcomes)))
    return 1 if failed(outcomes) else 0


def played(rounds: Sequence[tuple[str, int]], directory: Path, *, stops: bool) -> list[Outcome]:
    """Play rounds, given as names of scenarios with seeds, in one installation; print each.

    ``stops``: end after the first one that fails.
    """
    outcomes = []
    with installation(directory) as found:
        for at, (name, seed) in enumerate(rounds, 1):
            outcome = attempted(found, name, seed)
            outcomes.append(outcome)
            say(f"{at:4d}  {name} (seed {seed}, {outcome.seconds:.1f} s): {outcome}")
            for note in outcome.notes:
                say(f"      {note}")
            if stops and not outcome.is_good:
                break
    return outcomes


def attempted(found: Installation, name: str, seed: int) -> Outcome:
    """Play one round; one that cannot be finished has failed, and says why."""
    began_s = time.monotonic()
    try:
        return play_named(found, name, seed)
    except Exception as exc:  # noqa: BLE001 - whatever it is, the round has failed and the next one is played
        seconds = time.monotonic() - began_s
        return Outcome(name, seed, seconds, 0, 0, 0, 0, 0, notes=(f"not finished: {type(exc).__name__}: {exc}",))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    guard = ProcessGuard()
    try:
        code = main()
    finally:
        guard.close()
    sys.exit(code)
