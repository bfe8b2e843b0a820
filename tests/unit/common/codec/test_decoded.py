"""Gathering spans and rejections: the first in full, the others counted; a rejection affects only its span."""

from __future__ import annotations

from common.codec.decoded import IN_FULL_MAX, REASONS_MAX, Group, Rejection, Rejections, gather, guarded, missing_id
from common.codec.protobuf_cut import lay_out_request
from common.errors import Rejected, RejectionCode
from common.span import NO_RESOURCE, NO_SCOPE, Span


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


REFUSED = Rejection(None, RejectionCode.INVALID_TYPE, "The resource is bad.")


def read(number, resource, scope):
    if number < 0:
        raise missing_id(b"", trace_id_form="16 bytes", span_id_form="8 bytes")
    return Span(b"t", bytes([number]), None, "", 0, 0, 0, 0, None, {}, resource=resource, scope=scope)


def test_indexes_count_all_groups_and_rejected_spans():
    decoded = gather([Group(NO_RESOURCE, NO_SCOPE, [1, -1]), Group(NO_RESOURCE, NO_SCOPE, [2])], read)

    assert decoded.span_indexes == [0, 2]
    assert [rejection.span_index for rejection in decoded.rejections.in_full] == [1]


def test_rejected_wrapper_rejects_only_its_own_spans():
    decoded = gather(
        [Group(REFUSED, NO_SCOPE, [1, 2]), Group(NO_RESOURCE, REFUSED, [3]), Group(NO_RESOURCE, NO_SCOPE, [4])], read
    )

    assert decoded.span_indexes == [3]
    assert {rejection.reason for rejection in decoded.rejections.in_full} == {"The resource is bad."}


def test_rejected_wrapper_is_kept_without_its_traceback():
    def refuse() -> None:
        raise Rejected(RejectionCode.INVALID_TYPE, "The resource is bad.")

    assert guarded(refuse) == REFUSED


def test_rejected_spans_of_equal_bytes_are_read_once():
    reads = []

    def read_bytes(raw, resource, scope):
        reads.append(raw)
        if raw.startswith(b"bad"):
            raise missing_id(b"", trace_id_form="16 bytes", span_id_form="8 bytes")
        return read(raw[0], resource, scope)

    members = [b"bad", b"a", b"bad", b"a", b"bad too"]
    decoded = gather([Group(NO_RESOURCE, NO_SCOPE, members)], read_bytes, layout=lay_out_request(b""))

    assert reads == [b"bad", b"a", b"a", b"bad too"]
    assert (decoded.span_indexes, [rejection.span_index for rejection in decoded.rejections.in_full]) == (
        [1, 3],
        [0, 2, 4],
    )


def test_later_of_two_equal_spans_is_kept_at_its_position():
    decoded = gather([Group(NO_RESOURCE, NO_SCOPE, [1, 2, 1, 3])], read)

    assert decoded.span_indexes == [0, 1, 2, 3]
    assert decoded.without_repeats().span_indexes == [1, 2, 3]


def test_hint_is_given_only_if_no_span_has_a_trace_id():
    all_missing = gather([Group(NO_RESOURCE, NO_SCOPE, [-1, -1])], read)
    one_missing = gather([Group(NO_RESOURCE, NO_SCOPE, [-1, 1])], read)

    assert all("logs or metrics" in rejection.reason for rejection in all_missing.rejections.in_full)
    assert "logs or metrics" not in one_missing.rejections.in_full[0].reason
