"""The lines of two texts that differ, and the words within them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from query_api.registry.alignment import ComparisonBudget, common_places

Row: TypeAlias = dict[str, Any]
"""Members of ``LineChange``."""

SIMILAR_SHARE: Final = 0.4
"""Lines that have at least this share of their words in common are one line that changed."""

LINES_AHEAD: Final = 5
"""How many of the next lines a removed line is compared with."""

_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")


def line_changes(before: str, after: str, budget: ComparisonBudget) -> list[Row]:
    """Return what leads from the lines of one text to those of the other, as ``LineChange`` describes it."""
    old, new = before.split("\n"), after.split("\n")
    rows: list[Row] = []
    place = other = 0
    for one, another in [*common_places(old, new, budget), (len(old), len(new))]:
        rows += _replaced(old[place:one], new[other:another], place + 1, other + 1, budget)
        if one < len(old):
            _append_same(rows, one + 1, another + 1)
        place, other = one + 1, another + 1
    return rows


def _append_same(rows: list[Row], old_number: int, new_number: int) -> None:
    if rows and rows[-1]["op"] == "same":
        rows[-1]["count"] += 1
    else:
        rows.append({"op": "same", "from": old_number, "to": new_number, "count": 1})


def _replaced(
    old: Sequence[str], new: Sequence[str], old_number: int, new_number: int, budget: ComparisonBudget
) -> Iterator[Row]:
    """Yield the rows of lines that differ; the numbers are those of the first lines."""
    newer = _Lines(new, budget)
    taken = 0
    for place, line in enumerate(old):
        partner = newer.most_similar(line, taken)
        words = [] if partner is None else word_changes(line, new[partner], budget)
        if partner is None or not words:
            yield {"op": "removed", "from": old_number + place, "text": line}
            continue
        yield from _added(new, taken, partner, new_number)
        yield {"op": "changed", "from": old_number + place, "to": new_number + partner, "words": words}
        taken = partner + 1
    yield from _added(new, taken, len(new), new_number)


def _added(new: Sequence[str], start: int, end: int, number: int) -> Iterator[Row]:
    return ({"op": "added", "to": number + place, "text": new[place]} for place in range(start, end))


class _Words(NamedTuple):
    """The words and signs of a line, with their number."""

    counts: Counter[str]
    total: int


class _Lines:
    """Lines among which a similar one is searched. The words of each are counted once, and only if they are needed."""

    def __init__(self, lines: Sequence[str], budget: ComparisonBudget) -> None:
        self._lines = lines
        self._budget = budget
        self._words: dict[int, _Words] = {}

    def most_similar(self, line: str, start: int) -> int | None:
        """Return the place of the line ahead that has most words in common; none if no line is similar, or once the
        budget is spent.
        """
        if self._budget.steps < 0:
            return None
        words = self._counted(line)
        best, best_share = None, SIMILAR_SHARE
        for place in range(start, min(start + LINES_AHEAD, len(self._lines))):
            if place not in self._words:
                self._words[place] = self._counted(self._lines[place])
            if self._budget.steps < 0:
                return None
            other = self._words[place]
            self._budget.steps -= 1 + len(words.counts)
            share = 2 * (words.counts & other.counts).total() / max(1, words.total + other.total)
            if share > best_share:
                best, best_share = place, share
        return best

    def _counted(self, line: str) -> _Words:
        counts = Counter(token for token in _tokens(line, self._budget) if not token.isspace())
        return _Words(counts, counts.total())


def _tokens(line: str, budget: ComparisonBudget) -> list[str]:
    """Return the words, spaces and signs of a line; none if they are more than the steps that are left."""
    tokens = [match[0] for match in islice(_TOKEN.finditer(line), max(0, budget.steps) + 1)]
    budget.steps -= len(tokens)
    return tokens if budget.steps >= 0 else []


def word_changes(before: str, after: str, budget: ComparisonBudget) -> list[dict[str, str]]:
    """Return the parts of two lines in order, as ``{op, text}``; none if the budget is spent.

    `same` and `removed` together are the older line, `same` and `added` the newer one.
    """
    old, new = _tokens(before, budget), _tokens(after, budget)
    pairs = common_places(old, new, budget)
    if budget.steps < 0:
        return []
    parts: list[tuple[list[str], list[str], str]] = [([], [], "")]
    place = other = 0
    for one, another in [*pairs, (len(old), len(new))]:
        removed, added = old[place:one], new[other:another]
        same = old[one] if one < len(old) else ""
        if removed or added or len(parts) == 1:
            parts.append((removed, added, same))
        else:
            parts[-1] = (*parts[-1][:2], parts[-1][2] + same)
        place, other = one + 1, another + 1
    return list(_joined(parts))


def _joined(parts: Sequence[tuple[list[str], list[str], str]]) -> Iterator[dict[str, str]]:
    """Yield the parts; spaces alone between two changes belong to both."""
    removed = added = ""
    for place, (old, new, same) in enumerate(parts):
        removed, added = removed + "".join(old), added + "".join(new)
        is_between = same.isspace() and (removed or added) and place + 1 < len(parts)
        if is_between and any(parts[place + 1][:2]):
            removed, added = removed + same, added + same
            continue
        texts = {"removed": removed, "added": added, "same": same}
        yield from ({"op": op, "text": text} for op, text in texts.items() if text)
        removed = added = ""
