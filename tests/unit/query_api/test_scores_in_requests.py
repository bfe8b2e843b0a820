"""Scores in definitions that are stored: alerts and windows of saved queries."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import InvalidFilter, InvalidInput
from query_api.delivery.alerts.definitions import check_definition, shown_definition
from query_api.delivery.alerts.schemas import AlertDefinition
from query_api.pages.ranking import check_ranking
from query_api.request.errors import InvalidRequest
from query_api.request.json_body import validated
from query_api.spans.windowing import Windowing

RELEVANCE = {"field": "scores", "key": "Relevance"}


def definition(**members: Any) -> AlertDefinition:
    measure = {"of": RELEVANCE, "as": "avg"}
    return AlertDefinition.model_validate({"measure": measure, "below": 0.5, "window": "10m", **members})


def test_alert_measures_and_groups_by_scores() -> None:
    alert = definition(group_by=[RELEVANCE])

    check_definition(alert)

    assert shown_definition(alert)["measure"] == {"of": RELEVANCE, "as": "avg"}
    assert shown_definition(alert)["group_by"] == [RELEVANCE]
    assert AlertDefinition.model_validate(shown_definition(alert)) == alert


@pytest.mark.parametrize("group_by", [["scores"], [RELEVANCE, RELEVANCE]])
def test_alert_by_scores_without_a_name_or_twice_is_refused(group_by: list[Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^alert.group_by\[[01]\]"):
        check_definition(definition(group_by=group_by))


def test_window_that_sorts_by_a_score_is_stored_as_it_was_sent() -> None:
    sent = {"sort": {"by": RELEVANCE, "order": "ascending"}, "limit": 5}
    windowing = validated(Windowing, sent, at="body")

    check_ranking(windowing, at="windowing")

    stored = windowing.model_dump(mode="json", exclude_none=True, by_alias=True)
    assert stored == sent
    assert Windowing.model_validate(stored) == windowing


@pytest.mark.parametrize(
    "by",
    [
        {"field": "scores"},
        {"field": "scores", "key": ""},
        {"field": "attributes", "key": "a"},
        {"field": "scores", "key": "a", "other": 1},
        {"key": "a"},
        [],
        None,
        5,
    ],
)
def test_other_objects_to_sort_by_are_refused(by: Any) -> None:
    with pytest.raises(InvalidRequest):
        validated(Windowing, {"sort": {"by": by}}, at="body")


def test_field_with_scores_alone_cannot_be_sorted_by() -> None:
    with pytest.raises(InvalidFilter, match="spans cannot be sorted by 'scores'; allowed: duration, tokens, cost"):
        check_ranking(Windowing.model_validate({"sort": {"by": "scores"}}), at="windowing")
