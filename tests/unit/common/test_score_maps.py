"""The maps of scores that filters and groups read."""

from __future__ import annotations

from typing import Any

from common.clickhouse.score_maps import SCORE_MAPS, ScoreMaps
from common.score import EVENT_SOURCE, Score, ScoreSource


def score(name: str, value: Any, label: str | None, source: ScoreSource = EVENT_SOURCE) -> Score:
    return Score(name, value, label, None, source, 0)


def columns_of(*batches: list[tuple[Score, ...]]) -> dict[str, list[Any]]:
    maps = ScoreMaps()
    for batch in batches:
        maps.extend(batch)
    return {name: column.to_pylist() for name, column in maps.columns().items()}


def test_newest_of_a_name_is_in_the_maps() -> None:
    newer, older = score("a.b", 0.5, "good"), score("a.b", 1, None, ScoreSource("annotation"))
    columns = columns_of([(), (newer, older, score("c", None, "x"))], [(score("c", 2, None),), ()])

    assert columns == {
        "score_values": [[], [("a.b", "n0.5"), ("c", "sx")], [("c", "n2")], []],
        "score_labels": [[], [("a.b", "sgood"), ("c", "sx")], [("c", "n2")], []],
    }


def test_maps_of_spans_without_scores_are_empty() -> None:
    assert columns_of([(), ()]) == {name: [[], []] for name in SCORE_MAPS}
    assert columns_of() == {name: [] for name in SCORE_MAPS}
