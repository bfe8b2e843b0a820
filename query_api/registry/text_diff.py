"""The lines of two texts that differ, and the words within them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

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
    others = [_words(line) for line in new] if budget.steps >= 0 else []
    taken = 0
    for place, line in enumerate(old):
        partner = _most_similar(_words(line), others, taken) if budget.steps >= 0 else None
        budget.steps -= LINES_AHEAD
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


def _words(line: str) -> Counter[str]:
    return Counter(token for token in _TOKEN.findall(line) if not token.isspace())


def _most_similar(words: Counter[str], others: Sequence[Counter[str]], start: int) -> int | None:
    """Return the place of the line ahead that has most words in common; none if no line is similar."""
    best, best_share = None, SIMILAR_SHARE
    for place in range(start, min(start + LINES_AHEAD, len(others))):
        share = 2 * (words & others[place]).total() / max(1, words.total() + others[place].total())
        if share > best_share:
            best, best_share = place, share
    return best


def word_changes(before: str, after: str, budget: ComparisonBudget) -> list[dict[str, str]]:
    """Return the parts of two lines in order, as ``{op, text}``; none if the budget is spent.

    `same` and `removed` together are the older line, `same` and `added` the newer one.
    """
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
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
