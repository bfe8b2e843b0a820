"""Cutting spans out of protobuf: fields of every wire type are skipped, broken ones are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.codec.protobuf_cut import GROUPS_MAX, BrokenWire, encode_delimited, fields, lay_out_request

GROUP = b"\x1b\x08\x01\x23\x0a\x01x\x24\x1c"  # group 3 { varint 1, group 4 { bytes 1 } }


def test_fields_of_every_wire_type_are_skipped():
    value = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1a\x03abc" + b"\x25" + bytes(4) + GROUP

    found = list(fields(value, 0, len(value)))

    assert [(number, wire_type) for number, wire_type, *_ in found] == [(1, 0), (2, 1), (3, 2), (4, 5), (3, 3)]
    assert [value[start:end] for *_, start, end in found][2] == b"abc"
    assert found[-1][-1] == len(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"\x08", "end inside a number"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "too long"),
        (b"\x11\x00", "cut off"),
        (b"\x25\x00", "cut off"),
        (b"\x1a\x05abc", "cut off"),
        (b"\x00\x01", "number 0"),
        (b"\x0e\x01", "wire type 6"),
        (b"\x0c", "wire type 4"),
        (b"\x1b\x08\x01", "end inside"),
        (b"\x1b\x24", "does not end"),
    ],
)
def test_broken_field_is_reported(value, words):
    with pytest.raises(BrokenWire, match=words):
        list(fields(value, 0, len(value)))


def test_groups_are_read_down_to_the_limit_and_no_deeper():
    at_limit = b"\x1b" * GROUPS_MAX + b"\x1c" * GROUPS_MAX
    past_limit = b"\x1b" + at_limit + b"\x1c"

    assert len(list(fields(at_limit, 0, len(at_limit)))) == 1
    with pytest.raises(BrokenWire):
        list(fields(past_limit, 0, len(past_limit)))


def test_wrappers_are_copied_unchanged_in_any_order():
    scope = b"\x1a\x01u" + b"\x12\x02\x0a\x00" + b"\x0a\x00" + b"\x12\x02\x12\x00"
    resource = b"\x12" + bytes([len(scope)]) + scope + b"\x0a\x02\x10\x07" + GROUP
    value = b"\x0a" + bytes([len(resource)]) + resource + b"\x0a\x00"

    cut_scope = b"\x1a\x01u" + b"\x0a\x00" + b"\x12\x02\x12\x00"
    cut_resource = b"\x0a\x02\x10\x07" + GROUP + b"\x12" + bytes([len(cut_scope)]) + cut_scope
    assert lay_out_request(value).cut([1]) == b"\x0a" + bytes([len(cut_resource)]) + cut_resource


@given(st.binary(max_size=60))
def test_any_bytes_have_a_layout_or_are_broken(value):
    try:
        lay_out_request(value)
    except BrokenWire as broken:
        assert str(broken)  # noqa: PT017 - either outcome is allowed


@given(
    st.lists(
        st.sampled_from([b"", b"x", b"y" * 0x7F, b"z" * 0x80, b"w" * 0x3FFF, b"v" * 0x4000]) | st.none(), max_size=8
    )
)
def test_spans_of_every_size_are_found_between_other_fields(contents):
    """``None`` stands for another field. Sizes of one, two and three bytes are read by different code."""
    scope = b"".join(b"\x18\x01" if content is None else encode_delimited(2, content) for content in contents)

    layout = lay_out_request(encode_delimited(1, encode_delimited(2, scope)))

    assert [layout.content(part) for part in layout.spans] == [each for each in contents if each is not None]
    assert [part.wrapper for part in layout.scopes] == ([b"\x18\x01" * contents.count(None)] if layout.spans else [])


@pytest.mark.parametrize("span", [b"\x12", b"\x12\x01", b"\x12\x80", b"\x12\x80\x01", b"\x12\xff\xff"])
def test_span_that_is_cut_off_after_others_is_reported(span):
    scope = encode_delimited(2, b"whole") * 2 + span

    with pytest.raises(BrokenWire):
        lay_out_request(encode_delimited(1, encode_delimited(2, scope)))
