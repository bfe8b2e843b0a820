"""Sequences are divided into parts of a number of items, or of a size."""

from __future__ import annotations

from common.parts import parts_of, parts_of_size


def test_parts_have_a_number_of_items() -> None:
    assert list(parts_of([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]


def test_parts_have_a_size() -> None:
    items = [(number, 34) for number in range(5)]

    parts = list(parts_of_size(items, 100, lambda item: item[1]))

    assert [len(part) for part in parts] == [2, 2, 1]
    assert [item for part in parts for item in part] == items


def test_item_that_is_larger_than_a_part_is_a_part_of_its_own() -> None:
    assert list(parts_of_size([3, 200, 4], 100, lambda item: item)) == [[3], [200], [4]]


def test_nothing_has_no_parts() -> None:
    assert [*parts_of([], 2), *parts_of_size([], 2, lambda item: item)] == []
