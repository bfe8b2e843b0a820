"""One round: a project, a producer, a fault, and what is found afterwards."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.faults.checker import Findings, Follower, Seen, check, dead_letters_of
from tests.faults.client import ApiClient
from tests.faults.installation import Installation
from tests.faults.later import LateProducer
from tests.faults.producer import ACKNOWLEDGED_S, Place, Plan, Producer, Sent

FOLLOWED_S: Final = 120.0
SPANS_COUNT: Final = 2_000
LASTING_S: Final = 3.0
CLOCKS_APART: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class Outcome:
    """What a round counted. ``produced`` are distinct good spans; ``admitted`` is the loss that the documents admit."""

    scenario: str
    seed: int
    seconds: float
    produced: int
    stored: int
    lost: int
    seen_twice: int
    dead_letters: int
    admitted: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, seen twice, or otherwise wrong."""
        return not (self.lost or self.seen_twice or self.notes)

    def __str__(self) -> str:
        admitted = f" admitted {self.admitted}" if self.admitted else ""
        return (
            f"produced {self.produced} stored {self.stored} lost {self.lost}{admitted}"
            f" seen twice {self.seen_twice} dead letters {self.dead_letters}"
        )


@dataclass
class Round:
    """What a scenario is given: the installation, a source of chance, and the producer that it starts.

    ``refused`` are places of records that the scenario itself has published and that must become dead letters.
    ``admitted`` are spans that Kafka itself has dropped before a worker read them.
    ``may_end``: the fault is one at which a worker ends, to be started again by its supervisor.
    ``checks`` say what else is wrong once everything is committed.
    ``failures`` are the responses of status 500 that any client of the round got.
    """

    installation: Installation
    name: str
    seed: int
    size: float = 1.0
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    may_end: bool = False

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.project_id, self.key = self.installation.new_project()
        self.producers: list[Producer | LateProducer] = []
        self.checks: list[Callable[[ApiClient], Iterable[str]]] = []
        self.admitted: set[int] = set()
        self.refused: set[Place] = set()
        self.began_at = datetime.now(UTC)

    def produce(self, **changes: object) -> Producer:
        """Start a producer of this round; ``changes`` are members of its plan."""
        plan: dict[str, object] = {
            "round_name": f"{self.name}/{self.seed}/{self.project_id}",
            "spans_count": int(SPANS_COUNT * self.size),
            "seed": self.seed,
            "lasting_s": LASTING_S,
            **changes,
        }
        self.plan = Plan(**plan)  # type: ignore[arg-type] # each scenario passes members of a plan
        producer = Producer(self.installation.bootstrap, self.project_id, self.plan)
        self.producers.append(producer)
        return producer

    @property
    def client(self) -> ApiClient:
        """A client of the project of this round."""
        return self.installation.client(f"ApiKey {self.key}", self.failures)

    def join_producers(self) -> None:
        """Return when everything is acknowledged."""
        for producer in self.producers:
            producer.join()

    def sent(self) -> Sent:
        """Return what all producers have sent, as the log has it; a later one replaces spans."""
        united = Sent()
        for producer in self.producers:
            united.add(producer.finish())
        return united

    def pause(self, longest_s: float = LASTING_S) -> None:
        """Wait for a random time."""
        time.sleep(self.random.random() * longest_s)

    def until(self, condition: Callable[[], bool], what: str, *, within_s: float = 60.0) -> None:
        """Wait for a condition. Raises ``AssertionError`` that says what did not happen."""
        until(condition, what, within_s=within_s)

    def repeat(self, fail: Callable[[], None], producer: Producer, *, longest_s: float) -> None:
        """Fail at random moments until everything is acknowledged, or the time of the producer has passed."""
        ends_s = time.monotonic() + ACKNOWLEDGED_S
        while producer.acknowledged_share < 1.0 and time.monotonic() < ends_s:
            self.pause(longest_s)
            fail()

    def note(self, text: str) -> None:
        """Report something else that is wrong: the round has failed."""
        self.notes.append(text)


Scenario = Callable[[Round], None]


def until(condition: Callable[[], bool], what: str, *, within_s: float) -> None:
    """Wait for a condition. Raises ``AssertionError`` that says what did not happen."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.02)


def play(installation: Installation, scenario: Scenario, seed: int, *, size: float = 1.0) -> Outcome:
    """Play one round: the scenario makes its fault, ``heal`` ends it; then everything is committed and compared."""
    installation.wait_until_ready()
    installation.crashes()
    began_s = time.monotonic()
    name = scenario.__name__
    played = Round(installation, name, seed, size)
    follower = Follower(played.client)
    try:
        scenario(played)
    finally:
        installation.heal()
    installation.wait_until_ready()
    played.join_producers()
    installation.wait_until_committed()
    sent = played.sent()
    followed = follower.finish(lambda seen: has_all(seen, sent, played.admitted), within_s=FOLLOWED_S)
    findings = check(played.client, played.plan.round_name, sent, followed)
    findings.admitted = findings.lost & played.admitted
    dead_letters = dead_letters_of(installation.admin(played.failures), oldest=played.began_at - CLOCKS_APART)
    _compare_dead_letters(findings, sent.refused | played.refused, dead_letters)
    played.notes += [note for check_also in played.checks for note in check_also(played.client)]
    played.notes += [f"a response of status 500: {failure}" for failure in played.failures]
    crashes = installation.crashes()
    played.notes += [] if played.may_end else crashes
    return outcome_of(name, seed, began_s, sent, findings, dead_letters=len(set(dead_letters)), notes=played.notes)


def outcome_of(
    scenario: str,
    seed: int,
    began_s: float,
    sent: Sent,
    findings: Findings,
    *,
    dead_letters: int = 0,
    notes: Sequence[str] = (),
) -> Outcome:
    """Return what was counted."""
    return Outcome(
        scenario=scenario,
        seed=seed,
        seconds=time.monotonic() - began_s,
        produced=len(sent.latest),
        stored=len(findings.stored(sent)),
        lost=len(findings.lost),
        seen_twice=findings.seen_twice,
        dead_letters=dead_letters,
        admitted=len(findings.admitted),
        notes=(*findings.notes, *notes),
    )


def has_all(seen: Counter[Seen], sent: Sent, admitted: set[int]) -> bool:
    return all(Seen(number, attempt) in seen for number, attempt in sent.latest.items() if number not in admitted)


def _compare_dead_letters(findings: Findings, refused: set[Place], found: list[Place]) -> None:
    """Every refused span and record has a dead letter, and nothing else has one."""
    missing, extra = refused - set(found), set(found) - refused
    if missing:
        findings.others.append(f"{len(missing)} dead letters are missing, such as {next(iter(missing))}")
    if extra:
        findings.others.append(f"{len(extra)} dead letters of good spans, such as {next(iter(extra))}")
