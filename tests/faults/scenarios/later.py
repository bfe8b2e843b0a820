"""g. Log events and scores that come before or after their spans, while workers get SIGKILL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.faults.client import ApiClient
from tests.faults.later import (
    LateProducer,
    Record,
    annotation_of,
    evaluation_of,
    event_of,
    wrong_events,
    wrong_scores,
)
from tests.faults.producer import Plan
from tests.faults.round import Round, Scenario
from tests.faults.scenarios.kills import kill


def events_come_later(played: Round) -> None:
    """A log record for each span, in any order, some twice: each span shows its event once."""
    _kill_meanwhile(played, (event_of,), wrong_events)


def scores_come_later(played: Round) -> None:
    """An evaluation and an annotation for each span, likewise: each span has both scores, once."""
    _kill_meanwhile(played, (evaluation_of, annotation_of), wrong_scores)


def _kill_meanwhile(
    played: Round,
    kinds: tuple[Callable[[Plan, int], Record], ...],
    wrong: Callable[[ApiClient, range], Iterator[str]],
) -> None:
    played.size /= 4  # each record about a span is one of Kafka
    played.produce()
    plan = played.plan
    numbers = range(plan.spans_count)
    records = [record_of(plan, number) for number in numbers for record_of in kinds]
    played.producers.append(LateProducer(played.installation.bootstrap, played.project_id, plan, records))
    played.checks.append(lambda client: wrong(client, numbers))
    for _ in range(3):
        played.pause(1.0)
        kill([played.random.choice(played.installation.workers)])


SCENARIOS: tuple[Scenario, ...] = (events_come_later, scores_come_later)
