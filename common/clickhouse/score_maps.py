"""The columns ``score_values`` and ``score_labels`` of the table ``spans``: what filters and groups read of scores.

Each is a map from the name of a score to the typed text (``leaves.py``) of the newest one of that name. The maps of
nearly all spans are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from common.arrow_views import empty_maps
from common.clickhouse.leaves import typed_text
from common.score import Score, newest_by_name

SCORE_VALUES: Final = "score_values"
"""The value, or the label if there is no value."""

SCORE_LABELS: Final = "score_labels"
"""The label, or the value if there is no label."""

SCORE_MAPS: Final = (SCORE_VALUES, SCORE_LABELS)


class ScoreMaps:
    """Both columns, while they are Python lists: scores by the number of their row."""

    def __init__(self) -> None:
        self._rows_count = 0
        self._by_row: dict[int, dict[str, Score]] = {}

    def extend(self, rows: Sequence[tuple[Score, ...]]) -> None:
        """Append the rows of spans with these scores."""
        if any(rows):
            for number, scores in enumerate(rows, self._rows_count):
                if scores:
                    self._by_row[number] = newest_by_name(scores)
        self._rows_count += len(rows)

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns by name."""
        if not self._by_row:
            return dict.fromkeys(SCORE_MAPS, empty_maps(self._rows_count))
        names = [name for by_name in self._by_row.values() for name in by_name]
        scores = [score for by_name in self._by_row.values() for score in by_name.values()]
        counts = np.zeros(self._rows_count + 1, np.int32)
        for number, by_name in self._by_row.items():
            counts[number + 1] = len(by_name)
        offsets = pa.array(np.cumsum(counts, dtype=np.int32))
        texts = {SCORE_VALUES: map(value_text, scores), SCORE_LABELS: map(label_text, scores)}
        return {column: _map(offsets, names, of_scores) for column, of_scores in texts.items()}


def _map(offsets: pa.Array, names: Iterable[str], texts: Iterable[str]) -> pa.MapArray:
    return pa.MapArray.from_arrays(offsets, pa.array(list(names), pa.string()), pa.array(list(texts), pa.string()))


def value_text(score: Score) -> str:
    """Return the typed text of the value, or of the label if there is no value."""
    return _typed(score.value, score.label)


def label_text(score: Score) -> str:
    """Return the typed text of the label, or of the value if there is no label."""
    return _typed(score.label, score.value)


def _typed(first: str | float | None, second: str | float | None) -> str:
    chosen = second if first is None else first
    return "" if chosen is None else typed_text(chosen)
