from __future__ import annotations

import pytest

from common.filter.ast import EVERYTHING, Condition, Group, GroupOperator, Node, Operator
from query_api.explain_hint import hint
from query_api.explain_plan import PRIMARY_KEY, IndexUse, TableRead

IS_A = Condition("attributes", Operator.IS, "a", ("a",))
UNINDEXED = Condition("status_message", Operator.IS, "a")


def _read(after_key: int, *, index: int | None = None, name: str = "leaf_items_index") -> TableRead:
    uses = [IndexUse(PRIMARY_KEY, "sparse", "", 2_441, after_key)]
    if index is not None:
        uses.append(IndexUse(name, "text", "", after_key, index))
    return TableRead("spans", 1, after_key if index is None else index, tuple(uses))


def _hint(read: TableRead, filtering: Node = EVERYTHING, granules_read: int | None = None) -> str:
    return hint([read], filtering, granules_read=granules_read)


def test_what_an_index_left_is_said_with_its_field() -> None:
    assert _hint(_read(2_441, index=3), IS_A) == "The index on attributes left 3 of 2,441 granules."
    assert "on content left" in _hint(_read(2_441, index=3, name="content_index"), IS_A)
    assert "on references left" in _hint(_read(2_441, index=3, name="references_index"), IS_A)


def test_stretches_of_a_walk_are_counted_together() -> None:
    reads = [_read(10, index=1), _read(20, index=2)]

    assert hint(reads, IS_A, granules_read=None) == "The index on attributes left 3 of 30 granules."


def test_an_index_that_excluded_nothing_is_not_praised() -> None:
    assert _hint(_read(9, index=9), IS_A, 9).endswith("what the index was asked for may stand in each granule.")


@pytest.mark.parametrize("granules_read", [9, None])
def test_a_whole_window_that_was_read_is_said_with_what_would_help(granules_read: int | None) -> None:
    said = _hint(_read(9), UNINDEXED, granules_read)

    assert said.startswith("Every span of the window was read: no condition could use an index.")
    assert "`oldest`" in said
    assert said.endswith("No index holds status_message.")


def test_references_are_not_said_to_be_without_an_index() -> None:
    said = _hint(_read(9), Condition("references", Operator.IN, ({"slug": "a"},)), 9)

    assert "No index holds" not in said


def test_a_bound_of_time_is_not_said_to_be_of_no_use() -> None:
    said = _hint(_read(9), Condition("start_time", Operator.GT, 1))

    assert said == "Every span of the window was read: it is what the conditions on `start_time` left."


def test_a_page_that_was_full_before_the_end_is_said() -> None:
    assert "until the page was full: 2 of 9 granules." in _hint(_read(9), UNINDEXED, 2)


def test_an_empty_window_is_said() -> None:
    assert hint([], EVERYTHING, granules_read=0) == "Nothing was read: there are no spans in the window."


@pytest.mark.parametrize("operator", [GroupOperator.NOT, GroupOperator.NAND, GroupOperator.NOR])
def test_negations_cannot_use_an_index_however_deep(operator: GroupOperator) -> None:
    filtering = Group(operator, (Group(GroupOperator.AND, (IS_A,)),))

    assert "`not` (and" in _hint(_read(9), filtering)
    assert "`not` (and" not in _hint(_read(9), Group(GroupOperator.OR, (IS_A,)))


def test_on_attributes_the_operators_without_an_index_are_named() -> None:
    asked = Group(GroupOperator.AND, (Condition("attributes", Operator.CONTAINS, "a"), IS_A))

    said = _hint(_read(9), asked)
    assert (
        "equality (`is`, `in`), and for `contains` at most the paths that there are; `content` finds whole words by index."
        in said
    )


def test_what_the_index_on_a_name_is_not_for_is_said() -> None:
    asked = Condition("span_name", Operator.CONTAINS, "a")

    assert _hint(_read(9), asked).endswith("The index on span_name is for equality (`is`, `in`), not for `contains`.")
    assert "span_name" not in _hint(_read(9, index=3, name="name_index"), Condition("span_name", Operator.IS, "a"))[30:]
