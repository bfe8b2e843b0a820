"""Which elements of two sequences are the same: a shortest edit script (Myers, 1986), within a budget. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

STEPS_MAX: Final = 200_000
"""What one comparison of revisions may take: 200 ms at worst."""

Pairs: TypeAlias = list[tuple[int, int]]


@dataclass(slots=True)
class ComparisonBudget:
    """The steps that are left for aligning sequences, and for reading the words of lines. The result of a comparison
    depends on its input alone.
    """

    steps: int = STEPS_MAX


def common_places(old: Sequence[Hashable], new: Sequence[Hashable], budget: ComparisonBudget) -> Pairs:
    """Return the places of a longest common subsequence, in order.

    Elements at both ends are compared in any case; those between them pair with nothing once the budget is spent.
    """
    start = _equal_count(old, new, 0, reverse=False)
    end = _equal_count(old, new, start, reverse=True)
    middle = _middle(old[start : len(old) - end], new[start : len(new) - end], budget)
    return [
        *((place, place) for place in range(start)),
        *((start + one, start + other) for one, other in middle),
        *((len(old) - place, len(new) - place) for place in range(end, 0, -1)),
    ]


def _equal_count(old: Sequence[Hashable], new: Sequence[Hashable], start: int, *, reverse: bool) -> int:
    """Count the equal elements at the beginning, or at the end without the first ``start``."""
    longest = min(len(old), len(new)) - start
    for count in range(longest):
        if reverse and old[-1 - count] != new[-1 - count]:
            return count
        if not reverse and old[count] != new[count]:
            return count
    return max(longest, 0)


def _middle(old: Sequence[Hashable], new: Sequence[Hashable], budget: ComparisonBudget) -> Pairs:
    """Search the edit script with the fewest edits. ``furthest`` is the place in ``old`` that each diagonal reaches."""
    furthest = {1: 0}
    rounds: list[dict[int, int]] = []
    for edits in range(len(old) + len(new) + 1):
        rounds.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            place = _entry(furthest, diagonal, edits)
            begun = place
            while place < len(old) and 0 <= place - diagonal < len(new) and old[place] == new[place - diagonal]:
                place += 1
            budget.steps -= 1 + place - begun
            furthest[diagonal] = place
            if place >= len(old) and place - diagonal >= len(new):
                return _walked_back(rounds, len(old), len(new))
        if budget.steps < 0:
            return []
    return []


def _entry(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """Return the place at which the last edit enters a diagonal."""
    if _is_insertion(furthest, diagonal, edits):
        return furthest[diagonal + 1]
    return furthest[diagonal - 1] + 1


def _is_insertion(furthest: dict[int, int], diagonal: int, edits: int) -> bool:
    return diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])


def _walked_back(rounds: list[dict[int, int]], place: int, other: int) -> Pairs:
    """Return the pairs of the path that ends at these places."""
    pairs: Pairs = []
    for edits in range(len(rounds) - 1, -1, -1):
        diagonal = place - other
        entry = _entry(rounds[edits], diagonal, edits)
        pairs.extend((step, step - diagonal) for step in range(place - 1, entry - 1, -1))
        is_insertion = _is_insertion(rounds[edits], diagonal, edits)
        place = entry if is_insertion else entry - 1
        other = place - (diagonal + 1 if is_insertion else diagonal - 1)
    pairs.reverse()
    return pairs
