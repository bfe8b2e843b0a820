"""Cutting spans out of JSON: byte for byte, with any white space, order and names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.codec.json_cut import lay_out_request, lay_out_spans
from common.errors import Rejected

REQUEST = b"""
{ "later" : [1, {"spans":[9]}] ,
  "resourceSpans" : [
    { "schemaUrl":"a\\"]}", "scopeSpans" : [ { "spans" : [ {"name" : "1.0", "x":1.50} , {"name":"}]"} ], "scope" : {"name":"s"} } ] ,
      "resource" : { } },
    { "scope_spans" : [ {"spans":[]}, {"spans":[ {"n\\u0061me":2e5} ]} ] }
  ] }
"""


def test_span_is_cut_with_its_wrappers_unchanged():
    assert lay_out_request(REQUEST).cut([0]) == (
        b'{"resourceSpans":[{"schemaUrl":"a\\"]}","resource" : { },"scopeSpans":'
        b'[{"scope" : {"name":"s"},"spans":[{"name" : "1.0", "x":1.50}]}]}]}'
    )


def test_span_indexes_continue_across_resources():
    assert lay_out_request(REQUEST).cut([1, 2]).count(b'"spans"') == 2
    assert b'{"n\\u0061me":2e5}' in lay_out_request(REQUEST).cut([2])
    assert lay_out_request(REQUEST).cut([]) == b'{"resourceSpans":[]}'
    assert lay_out_request(REQUEST).cut([7]) == b'{"resourceSpans":[]}'


def test_last_of_duplicate_members_counts_as_in_the_parser():
    value = b'{"resourceSpans":[{}],"resourceSpans":[{"scopeSpans":[{"spans":[1],"spans":[2,3]}]}]}'

    assert lay_out_request(value).cut([0]) == b'{"resourceSpans":[{"scopeSpans":[{"spans":[2]}]}]}'


def test_escapes_in_a_member_name_are_read():
    assert b"[7]" in lay_out_request(b'{"resource\\u0053pans":[{"scopeSpans":[{"spans":[7]}]}]}').cut([0])


def test_bytes_that_are_not_text_are_copied_unchanged():
    value = b'{"spans":[{"trace_id":"\xff\xfe"},{"b":"\x00"}]}'

    assert lay_out_spans(value).cut([0]) == b'{"spans":[{"trace_id":"\xff\xfe"}]}'
    assert lay_out_spans(value).cut([1]) == b'{"spans":[{"b":"\x00"}]}'


def test_record_of_one_span_object_is_cut_to_itself():
    value = b' {"trace_id":"a", "spans":[]} '

    assert lay_out_spans(value).cut([0]) == value


@pytest.mark.parametrize("levels", [10, 2_000, 100_000])
def test_layout_is_found_at_any_depth(levels):
    deep = b"[" * levels + b"]" * levels

    assert lay_out_spans(b'{"spans":[' + deep + b",1]}").cut([1]) == b'{"spans":[1]}'


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[",
        b"{",
        b'{"spans"',
        b'{"spans":',
        b'{"spans":[',
        b'{"spans":[1',
        b'{"spans":[1 2]}',
        b'{"spans":[]}x',
        b'{"spans":{}}',
        b"{1:2}",
        b'{"a":}',
    ],
)
def test_unclosed_frame_is_broken(value):
    with pytest.raises(Rejected, match="byte"):
        lay_out_spans(value)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\ spanu0', max_size=40).map(str.encode))
def test_any_bytes_have_a_layout_or_are_broken(value):
    for lay_out in (lay_out_request, lay_out_spans):
        try:
            lay_out(value)
        except Rejected as broken:
            assert str(broken)  # noqa: PT017 - either outcome is allowed
