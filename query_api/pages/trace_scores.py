"""The scores of traces: of each name the one that a ranking sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from common.clickhouse.score_maps import SCORE_LABELS, SCORE_VALUES
from query_api.spans.versions import Integers, values_of

SCORES: Final = (
    f"if(empty({SCORE_VALUES}), '', concat('[', toJSONString({SCORE_VALUES}), ',', toJSONString({SCORE_LABELS}), ']'))"
)
"""Both maps of a span as JSON, ``''`` if it has no score."""


def trace_scores(rows: pa.Table, ends: Integers) -> list[list[dict[str, Any]] | None]:
    """Return the scores of each trace by name: the highest value over its spans, else the label of the earliest.

    ``rows`` are by trace and start, ``ends`` the first row after each trace.
    """
    texts = values_of(rows, "scores")
    begin, scores = 0, []
    for end in ends.tolist():
        maps = [orjson.loads(text) for text in texts[begin:end] if text]
        scores.append(_scores(maps) or None)
        begin = end
    return scores


def _scores(maps: Iterable[tuple[Mapping[str, str], Mapping[str, str]]]) -> list[dict[str, Any]]:
    chosen: dict[str, dict[str, Any]] = {}
    for values, labels in maps:
        for name, typed in values.items():
            score = _score(name, typed, labels.get(name, ""))
            if name not in chosen or _is_higher(score, chosen[name]):
                chosen[name] = score
    return [chosen[name] for name in sorted(chosen)]


def _score(name: str, value: str, label: str) -> dict[str, Any]:
    score: dict[str, Any] = {"name": name}
    if value.startswith("n"):
        score["value"] = orjson.loads(value[1:])
    if label.startswith("s"):
        score["label"] = label[1:]
    return score


def _is_higher(score: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return "value" in score and ("value" not in other or score["value"] > other["value"])
