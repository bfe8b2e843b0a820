"""How the command line and the tools of MCP name and show scores."""

from __future__ import annotations

import pytest

from clearspan.client.alerts import _group, _measure
from clearspan.client.requests import windowing_of
from clearspan.client.span_values import read_columns, value_of
from clearspan.mcp_server.texts import SCORES_MAX, short_span
from clearspan.options import OrderOptions, WindowOptions

SPAN = {
    "trace_id": "1" * 32,
    "span_id": "2" * 16,
    "scores": [
        {"name": "Relevance", "value": 0.9, "label": "good"},
        {"name": "Relevance", "value": 0.1},
        {"name": "tone.first", "label": "polite"},
    ],
}
RELEVANCE = {"field": "scores", "key": "Relevance"}


def test_columns_show_the_newest_score_of_a_name() -> None:
    assert read_columns("scores,scores.Relevance") == ["scores", "scores.Relevance"]
    assert [value_of(SPAN, name) for name in ("scores.Relevance", "scores.tone.first", "scores.other")] == [
        0.9,
        "polite",
        None,
    ]
    assert value_of(SPAN, "scores") == SPAN["scores"]
    assert value_of({}, "scores.Relevance") is None


@pytest.mark.parametrize(("named", "by"), [("scores.Relevance", RELEVANCE), ("cost", "cost"), ("scores", "scores")])
def test_ranking_by_a_score_is_an_object(named: str, by: object) -> None:
    assert windowing_of(WindowOptions(), OrderOptions(sort=named)) == {"sort": {"by": by}}


def test_alert_measures_and_groups_by_scores() -> None:
    assert _measure("scores.Relevance:avg") == {"of": RELEVANCE, "as": "avg"}
    assert _measure("cost:sum") == {"of": "cost", "as": "sum"}
    assert _group("scores.tone.first") == {"field": "scores", "key": "tone.first"}


def test_models_read_few_scores_by_name() -> None:
    many = {**SPAN, "scores": [{"name": f"n{number}", "value": number} for number in range(100)]}

    assert short_span(SPAN)["scores"] == {"Relevance": 0.9, "tone.first": "polite"}
    assert len(short_span(many)["scores"]) == SCORES_MAX
    assert "scores" not in short_span({**SPAN, "scores": []})
