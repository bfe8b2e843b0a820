"""Evaluations that are events of a span are its scores."""

from __future__ import annotations

from typing import Any

import pytest

from common.score import EVENT_SOURCE, Score, ScoreSource
from common.span import Event, LogMembers, Span
from ingest.normalize import normalize
from ingest.semconv.evaluations import with_evaluations

SENT = Score("other", 1, None, None, ScoreSource("annotation", b"t" * 16), 5_000)


def evaluation(time_ns: int = 7_000, **said: Any) -> Event:
    keys = {"value": "score.value", "label": "score.label"}
    return Event(
        "gen_ai.evaluation.result",
        time_ns,
        {f"gen_ai.evaluation.{keys.get(name, name)}": value for name, value in said.items()},
    )


def of_event(**fields: Any) -> Score:
    return Score(
        **{"name": "n", "value": None, "label": None, "explanation": None, "source": EVENT_SOURCE, "at_ns": 7_000}
        | fields
    )


@pytest.mark.parametrize(
    ("said", "fields"),
    [
        ({"value": 4.5, "label": "relevant", "explanation": "It is."}, {"value": 4.5, "label": "relevant"}),
        ({"value": True}, {"value": 1, "label": "true"}),
        ({"value": "0.9"}, {"value": 0.9}),
        ({"value": "good"}, {"label": "good"}),
        ({"label": "good"}, {"label": "good"}),
        ({"value": "", "label": "good"}, {"label": "good"}),
    ],
)
def test_evaluation_is_a_score(said: dict[str, Any], fields: dict[str, Any]) -> None:
    expected = of_event(**fields, explanation=said.get("explanation"))

    assert with_evaluations((), [evaluation(name="n", **said)]) == (expected,)


@pytest.mark.parametrize(
    "said",
    [
        {"name": "n"},
        {"value": 1},
        {"name": "", "value": 1},
        {"name": 5, "value": 1},
        {"name": "n" * 501, "value": 1},
        {"name": "n", "value": "NaN"},
        {"name": "n", "value": "-Infinity", "label": "x"},
        {"name": "n", "value": [1]},
        {"name": "n", "value": 1, "label": {"a": 1}},
        {"name": "n", "value": None, "label": ""},
    ],
)
def test_what_cannot_be_read_gives_no_score(said: dict[str, Any]) -> None:
    assert with_evaluations((), [evaluation(**said)]) == ()


def test_newest_evaluation_of_a_name_counts_beside_what_was_sent() -> None:
    log = evaluation(9_999, name="n", value=3)._replace(log=LogMembers())
    events = (evaluation(8_000, name="n", value=2), log, evaluation(name="n", value=1), Event("other", 0, {}))

    scores = with_evaluations((SENT,), events)

    assert scores == (of_event(value=3, at_ns=9_000), SENT)
    assert with_evaluations(scores, events) == scores


def test_scores_of_a_span_are_normalized() -> None:
    span = Span(b"t" * 16, b"s" * 16, None, "chat", 3, 0, 1, 0, None, {}, (evaluation(name="n", value=1),))
    bare = span._replace(events=())

    normalized, without = normalize([span._replace(scores=(SENT,)), bare])

    assert normalized.scores == (of_event(value=1), SENT)
    assert without.scores == ()
