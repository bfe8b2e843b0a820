"""Lines and words that differ between two texts."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query_api.registry import text_diff
from query_api.registry.alignment import ComparisonBudget, common_places
from query_api.registry.text_diff import line_changes, word_changes
from tests.support.steps import steps_of


def _lines(before: str, after: str, *, steps: int = 10_000) -> list[dict[str, Any]]:
    return line_changes(before, after, ComparisonBudget(steps))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb", "a\nb", [{"op": "same", "from": 1, "to": 1, "count": 2}]),
        (
            "a\nc",
            "a\nb\nc",
            [
                {"op": "same", "from": 1, "to": 1, "count": 1},
                {"op": "added", "to": 2, "text": "b"},
                {"op": "same", "from": 2, "to": 3, "count": 1},
            ],
        ),
        (
            "Be kind.\nend",
            "Be kind and brief.\nend",
            [
                {"op": "changed", "from": 1, "to": 1, "words": [
                    {"op": "same", "text": "Be kind"}, {"op": "added", "text": " and brief"},
                    {"op": "same", "text": "."}]},
                {"op": "same", "from": 2, "to": 2, "count": 1},
            ],
        ),
        ("Be kind.", "Answer now", [
            {"op": "removed", "from": 1, "text": "Be kind."}, {"op": "added", "to": 1, "text": "Answer now"}]),
        ("a", "", [{"op": "removed", "from": 1, "text": "a"}, {"op": "added", "to": 1, "text": ""}]),
        ("Use short words.", "First.\nUse short sentences.", [
            {"op": "added", "to": 1, "text": "First."},
            {"op": "changed", "from": 1, "to": 2, "words": [
                {"op": "same", "text": "Use short "}, {"op": "removed", "text": "words"},
                {"op": "added", "text": "sentences"}, {"op": "same", "text": "."}]}]),
    ],
)  # fmt: skip
def test_lines_are_compared(before: str, after: str, expected: list[dict[str, Any]]):
    assert _lines(before, after) == expected


def test_words_beside_each_other_are_one_change():
    assert word_changes("one two three", "four five three", ComparisonBudget()) == [
        {"op": "removed", "text": "one two"},
        {"op": "added", "text": "four five"},
        {"op": "same", "text": " three"},
    ]


TEXTS = st.lists(st.sampled_from(["a", "b", "a b c", "a b d", "", "x, y"]), max_size=8).map("\n".join)


@given(before=TEXTS, after=TEXTS, steps=st.sampled_from([0, 5, 10_000]))
def test_both_texts_are_in_the_comparison(before: str, after: str, steps: int):
    rows = _lines(before, after, steps=steps)

    assert (_side(rows, "from", "removed", before), _side(rows, "to", "added", after)) == (before, after)


def _side(rows: list[dict[str, Any]], number: str, op: str, text: str) -> str:
    lines: list[str] = []
    for row in (row for row in rows if row["op"] in {"same", "changed", op}):
        assert row[number] == len(lines) + 1
        if row["op"] == "same":
            lines += text.split("\n")[len(lines) : len(lines) + row["count"]]
        elif row["op"] == "changed":
            lines.append("".join(part["text"] for part in row["words"] if part["op"] in {"same", op}))
        else:
            lines.append(row["text"])
    return "\n".join(lines)


@given(old=st.text("ab", max_size=9), new=st.text("ab", max_size=9))
def test_longest_common_subsequence_is_kept(old: str, new: str):
    pairs = common_places(old, new, ComparisonBudget())

    assert all(old[place] == new[other] for place, other in pairs)
    assert sorted(set(pairs)) == pairs
    assert len({place for place, _ in pairs}) == len({other for _, other in pairs}) == len(pairs)
    assert len(pairs) == _longest(old, new)


def _longest(old: str, new: str) -> int:
    row = [0] * (len(new) + 1)
    for letter in old:
        before = row[:]
        for place, other in enumerate(new):
            row[place + 1] = before[place] + 1 if letter == other else max(before[place + 1], row[place])
    return row[-1]


def test_lines_are_not_searched_for_similar_ones_after_the_budget():
    before, after = "a b\n" * 5_000 + "c\n" * 5_000, "c\n" * 5_000 + "a b\n" * 5_000

    steps = steps_of(lambda: _lines(before, after, steps=20_000))

    assert steps < 400_000


class _Measured(Counter[str]):
    """Counts the elements that are read."""

    reads: ClassVar[int] = 0

    def total(self) -> int:
        type(self).reads += len(self)
        return super().total()

    def __and__(self, other: Counter[str]) -> Counter[str]:
        type(self).reads += len(self)
        return super().__and__(other)


DISTINCT = [chr(0xE000 + number) for number in range(6_000)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a"] * 150, ["".join(DISTINCT)] * 5),
        (["".join(DISTINCT)] * 5, ["a"] * 150),
        (["".join(DISTINCT[:200])] * 100, ["".join(DISTINCT[200:400])] * 100),
    ],
)
def test_words_are_read_within_the_budget(monkeypatch: pytest.MonkeyPatch, before: list[str], after: list[str]):
    monkeypatch.setattr(text_diff, "Counter", _Measured)
    monkeypatch.setattr(_Measured, "reads", 0)

    _lines("\n".join(before), "\n".join(after), steps=20_000)

    assert _Measured.reads < 40_000


def test_line_longer_than_the_budget_has_no_words():
    steps = steps_of(lambda: _lines("a " * 50_000, "b " * 50_000, steps=100))

    assert steps < 5_000


def test_comparison_ends_with_its_budget():
    old, new = ["a", "b"] * 20_000, ["b", "c", "a"] * 20_000
    outcomes = []

    steps = steps_of(lambda: outcomes.append(common_places(old, new, ComparisonBudget(20_000))))

    assert outcomes == [[]]
    assert steps < 400_000
