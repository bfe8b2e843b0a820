"""Evaluations that are events of the span they judge, as scores (contract §3.6).

OpenTelemetry's GenAI conventions call the event ``gen_ai.evaluation.result``. The event stays as it was sent; one that
cannot be read gives no score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from common.json_values import scalar_text
from common.judgement import is_score_name, judgement_of
from common.log_record import EVALUATION
from common.score import EVENT_SOURCE, Score, ScoreSource, newest_scores
from common.span import Attributes, Event

SCORE_KEYS: Final[Mapping[str, str]] = {
    "name": "gen_ai.evaluation.name",
    "value": "gen_ai.evaluation.score.value",
    "label": "gen_ai.evaluation.score.label",
    "explanation": "gen_ai.evaluation.explanation",
}
"""The attributes of the event by the fields of a score. Rules of masks for them hold for scores, however these came."""


def with_evaluations(scores: tuple[Score, ...], events: Iterable[Event]) -> tuple[Score, ...]:
    """Return these scores and those of evaluations among ``events``: the newest of each name and source, newest
    first.
    """
    evaluations = [event for event in events if event.name == EVALUATION]
    if not (scores or evaluations):
        return ()
    said = (score_of(event.attributes, EVENT_SOURCE, event.time_ns) for event in evaluations)
    return newest_scores([*scores, *filter(None, said)])


def score_of(said: Attributes, source: ScoreSource, time_ns: int) -> Score | None:
    """Return the score that the attributes of an evaluation say; ``None`` if it has no name, neither value nor label,
    or one that is not finite or no scalar.
    """
    name, value, label, explanation = map(said.get, SCORE_KEYS.values())
    judgement = judgement_of(value, label)
    if judgement is None or not is_score_name(name):
        return None
    return Score(name, *judgement, scalar_text(explanation) or None, source, time_ns // 1_000 * 1_000)
