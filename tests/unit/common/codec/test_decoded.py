"""Rejections: the first in full, the others counted."""

from __future__ import annotations

from common.codec.decoded import IN_FULL_MAX, REASONS_MAX, Rejection, Rejections
from common.errors import RejectionCode


def rejections(count: int) -> Rejections:
    found = Rejections()
    for index in range(count):
        code = RejectionCode.ABSURD_TIME if index % 2 else RejectionCode.INVALID_LINK
        found.add(index, code, f"reason {index}")
    return found


def test_first_rejections_are_kept_in_full_and_others_counted() -> None:
    found = rejections(IN_FULL_MAX + 51)

    assert len(found) == IN_FULL_MAX + 51
    assert found.in_full[-1] == Rejection(IN_FULL_MAX - 1, RejectionCode.ABSURD_TIME, f"reason {IN_FULL_MAX - 1}")
    assert list(found.further_indexes) == list(range(IN_FULL_MAX, IN_FULL_MAX + 51))
    assert found.further_codes == {RejectionCode.INVALID_LINK: 26, RejectionCode.ABSURD_TIME: 25}
    assert [example.span_index for example in found.further_examples] == list(
        range(IN_FULL_MAX, IN_FULL_MAX + REASONS_MAX)
    )


def test_adding_rejections_returns_a_new_value() -> None:
    found = rejections(IN_FULL_MAX - 1)

    more = found.plus([Rejection(700, RejectionCode.OUR_FAILURE, "r"), Rejection(3, RejectionCode.OUR_FAILURE, "r")])

    assert (len(found), len(more)) == (IN_FULL_MAX - 1, IN_FULL_MAX + 1)
    assert more.in_full[-1].span_index == 700
    assert list(more.further_indexes) == [3]
    assert not found.further_indexes


def test_record_is_rejected_as_a_whole_or_by_its_spans() -> None:
    assert Rejections.of_record(RejectionCode.UNDECODABLE, "r").is_of_record
    assert not rejections(1).is_of_record
    assert not Rejections().is_of_record
    assert not Rejections()
