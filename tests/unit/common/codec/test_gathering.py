"""The loop of all codecs: order, indexes, and rejections that affect only their span."""

from __future__ import annotations

from common.codec.decoded import Group, gather, missing_id
from common.codec.protobuf_cut import lay_out_request
from common.errors import Rejected, RejectionCode
from common.span import NO_RESOURCE, NO_SCOPE, Span

REFUSED = Rejected(RejectionCode.INVALID_TYPE, "The resource is bad.")


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


def test_rejected_wrapper_is_not_raised_once_per_span():
    rejected = Rejected(RejectionCode.INVALID_TYPE, "The resource is bad.")

    gather([Group(rejected, NO_SCOPE, [1] * 1_000)], read)

    assert rejected.__traceback__ is None


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
