"""Ids in every spelling (reference §2.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.ids import parse_span_id, parse_trace_id, span_id_hex, trace_id_hex

TRACE = "a0000003000000000000000000000abc"
DASHED = "a0000003-0000-0000-0000-000000000abc"


@pytest.mark.parametrize(
    "spelling",
    [
        TRACE,
        TRACE.upper(),
        DASHED,
        f"0x{TRACE}",
        f"0X{TRACE}",
        f"{{{DASHED}}}",
        f"urn:uuid:{DASHED}",
        f"URN:UUID:{TRACE}",
    ],
)
def test_trace_id_in_every_form_of_a_uuid_is_read(spelling):
    assert trace_id_hex(parse_trace_id(spelling)) == TRACE


@pytest.mark.parametrize("spelling", ["00000000000000ab", "00000000000000AB", "0x00000000000000ab"])
def test_span_id_of_eight_bytes_is_doubled(spelling):
    assert parse_span_id(spelling).hex() == "00000000000000ab" * 2


@pytest.mark.parametrize("spelling", [TRACE, DASHED, f"0x{TRACE}"])
def test_span_id_of_16_bytes_is_kept_and_formatted_by_its_last_half(spelling):
    assert parse_span_id(spelling).hex() == TRACE
    assert span_id_hex(parse_span_id(spelling)) == TRACE[16:]


@pytest.mark.parametrize(
    "text", ["", "a", TRACE[:-1], TRACE + "0", "g" * 32, TRACE[:16], " " * 32, "0x", "0xzz", "é" * 32]
)
def test_trace_id_of_another_form_is_rejected(text):
    with pytest.raises(ValueError, match="is not a trace id"):
        parse_trace_id(text)


@pytest.mark.parametrize(
    "text", ["", "a", "a" * 15, "a" * 17, "g" * 16, "aa aa aa aa aa a", "1234-5678-90ab-cdef", "²" * 16]
)
def test_span_id_of_another_form_is_rejected(text):
    with pytest.raises(ValueError, match="is not a span id"):
        parse_span_id(text)


def test_ids_of_zeros_are_rejected():
    with pytest.raises(ValueError, match="zeros"):
        parse_trace_id("0" * 32)
    with pytest.raises(ValueError, match="zeros"):
        parse_span_id("0" * 16)


@given(st.text())
def test_any_text_is_an_id_or_raises_value_error(text):
    for parse in (parse_trace_id, parse_span_id):
        try:
            assert len(parse(text)) == 16
        except ValueError as rejected:
            assert str(rejected)  # noqa: PT017 - either outcome is allowed, silence is not


@given(st.binary(min_size=16, max_size=16).filter(any))
def test_written_trace_id_reads_back(trace_id):
    assert parse_trace_id(trace_id_hex(trace_id)) == trace_id
