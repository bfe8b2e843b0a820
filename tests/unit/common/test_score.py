"""Scores: the newest of each name and source counts, in whatever order they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.score import EVENT_SOURCE, Score, ScoreSource, newest_by_name, newest_scores

ANNOTATION = ScoreSource("annotation", b"a" * 16, b"b" * 16, "judge")

scores = st.builds(
    Score,
    name=st.sampled_from(["a", "b"]),
    value=st.none() | st.integers(0, 2) | st.sampled_from([0.5]),
    label=st.none() | st.sampled_from(["", "x"]),
    explanation=st.none() | st.just("e"),
    source=st.sampled_from([EVENT_SOURCE, ANNOTATION, ScoreSource("annotation")]),
    at_ns=st.integers(0, 3).map(lambda number: number * 1_000),
)


def score(name: str = "n", at_us: int = 0, source: ScoreSource = EVENT_SOURCE, value: float = 1) -> Score:
    return Score(name, value, None, None, source, at_us * 1_000)


def test_newest_of_each_name_and_source_is_kept_newest_first() -> None:
    given_scores = [score("a", 1), score("a", 3), score("b", 2), score("a", 1, ANNOTATION)]

    assert newest_scores(given_scores) == (score("a", 3), score("b", 2), score("a", 1, ANNOTATION))
    assert newest_by_name(newest_scores(given_scores)) == {"a": score("a", 3), "b": score("b", 2)}


@given(st.lists(scores, max_size=6), st.randoms(use_true_random=False), st.integers(0, 6))
def test_order_of_arrival_changes_nothing(found: list[Score], source: object, count: int) -> None:
    shuffled = list(found)
    source.shuffle(shuffled)  # type: ignore[attr-defined]

    assert newest_scores(shuffled) == newest_scores(found)
    assert newest_scores([*newest_scores(shuffled[:count]), *shuffled[count:]]) == newest_scores(found)
    assert newest_scores([*found, *found]) == newest_scores(found)


def test_newest_scores_are_first() -> None:
    found = newest_scores(score(f"n{number}", number) for number in range(10_000))

    assert [each.name for each in found] == [f"n{number}" for number in reversed(range(10_000))]
