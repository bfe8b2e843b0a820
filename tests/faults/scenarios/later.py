"""g. Log events, scores, starts and ends, in any order, while workers get SIGKILL."""

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
from tests.faults.running import EndWatch, end_of, start_of, wrong_states
from tests.faults.scenarios.kills import kill


def events_come_later(played: Round) -> None:
    """A log record for each span, in any order, some twice: each span shows its event once."""
    _produce(played, (event_of,), wrong_events)
    _kill_some(played)


def scores_come_later(played: Round) -> None:
    """An evaluation and an annotation for each span, likewise: each span has both scores, once."""
    _produce(played, (evaluation_of, annotation_of), wrong_scores)
    _kill_some(played)


def spans_run_and_end(played: Round) -> None:
    """A start and an end of further spans, likewise: none is shown as running after its end was stored."""
    producer = _produce(played, (start_of, end_of), wrong_states)
    watch = EndWatch(played.client, producer)
    played.checks.append(lambda _client: watch.finish())
    _kill_some(played)


def _produce(
    played: Round,
    kinds: tuple[Callable[[Plan, int], Record], ...],
    wrong: Callable[[ApiClient, range], Iterator[str]],
) -> LateProducer:
    """Send the spans of the round, and records of these kinds about each."""
    played.size /= 4  # each record about a span is one of Kafka
    played.produce()
    plan = played.plan
    numbers = range(plan.spans_count)
    records = [record_of(plan, number) for number in numbers for record_of in kinds]
    producer = LateProducer(played.installation.bootstrap, played.project_id, plan, records)
    played.producers.append(producer)
    played.checks.append(lambda client: wrong(client, numbers))
    return producer


def _kill_some(played: Round) -> None:
    for _ in range(3):
        played.pause(1.0)
        kill([played.random.choice(played.installation.workers)])


SCENARIOS: tuple[Scenario, ...] = (events_come_later, scores_come_later, spans_run_and_end)
