"""From placed spans to records: what is published can be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.codec import span_json
from common.errors import InvalidInput, TooLarge
from common.limits import SpanLimits
from query_api.intake.span_records import prepare
from query_api.intake.trees import Placed
from tests.strategies import NOW_NS

UNTIMED = [Placed(f"spans[{at}]", {"trace_id": "a" * 32, "span_id": f"{at + 1:016x}"}, True) for at in range(50)]


def test_a_record_that_its_times_make_too_large_is_refused_before_it_is_published() -> None:
    (record,) = prepare(UNTIMED, limits=SpanLimits(), now_ns=NOW_NS).records
    at_limit = replace(SpanLimits(), record_bytes_max=len(record.value))
    one_past = replace(at_limit, record_bytes_max=len(record.value) - 1)

    assert prepare(UNTIMED, limits=at_limit, now_ns=NOW_NS).records == [record]
    assert len(span_json.decode(record.value, limits=at_limit, now_ns=NOW_NS).spans) == 50
    with pytest.raises(TooLarge, match="send fewer"):
        prepare(UNTIMED, limits=one_past, now_ns=NOW_NS)


def test_a_span_that_its_time_makes_too_large_is_refused_before_it_is_published() -> None:
    untimed = Placed("spans[0]", {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": "n" * 200}, True)
    (record,) = prepare([untimed], limits=SpanLimits(), now_ns=NOW_NS).records
    at_limit = replace(SpanLimits(), span_bytes_max=len(record.value) - len('{"spans":[]}'))
    one_past = replace(at_limit, span_bytes_max=at_limit.span_bytes_max - 1)

    assert prepare([untimed], limits=at_limit, now_ns=NOW_NS).records == [record]
    assert span_json.decode(record.value, limits=at_limit, now_ns=NOW_NS).rejections.in_full == []
    with pytest.raises(TooLarge, match="with its time"):
        prepare([untimed], limits=one_past, now_ns=NOW_NS)


def test_what_cannot_be_kept_is_told_of_where_it_stood() -> None:
    spans = [
        each._replace(span={**each.span, "span_id": "none"}) if at >= 38 else each for at, each in enumerate(UNTIMED)
    ]
    past_64_bits = UNTIMED[7]._replace(span={**UNTIMED[7].span, "attributes": {"n": 2**64}})

    with pytest.raises(InvalidInput, match=r"^spans\[38\]: span_id.* spans\[47\]: span_id.* And 2 more\.$"):
        prepare(spans, limits=SpanLimits(), now_ns=NOW_NS)
    with pytest.raises(InvalidInput, match=r"^spans\[7\]: .*2\^64-1"):
        prepare([past_64_bits], limits=SpanLimits(), now_ns=NOW_NS)
