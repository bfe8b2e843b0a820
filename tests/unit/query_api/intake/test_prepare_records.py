"""From placed spans to records: what is published can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.codec import span_json
from common.errors import InvalidInput, TooLarge
from common.limits import SpanLimits
from query_api.intake.prepare import PlacedSpan, TraceSpans, to_records
from query_api.request.route import PrepareContext
from tests.strategies import NOW_NS

UNTIMED = [PlacedSpan(f"spans[{at}]", {"trace_id": "a" * 32, "span_id": f"{at + 1:016x}"}, True) for at in range(50)]


def _records(placed: Sequence[PlacedSpan], *, limits: SpanLimits) -> TraceSpans:
    return to_records(placed, PrepareContext({}, None, limits, NOW_NS))


def test_record_too_large_with_its_times_is_rejected() -> None:
    (record,) = _records(UNTIMED, limits=SpanLimits()).records
    at_limit = replace(SpanLimits(), record_bytes_max=len(record.value))
    one_past = replace(at_limit, record_bytes_max=len(record.value) - 1)

    assert _records(UNTIMED, limits=at_limit).records == [record]
    assert len(span_json.decode(record.value, limits=at_limit, now_ns=NOW_NS).spans) == 50
    with pytest.raises(TooLarge, match="Send fewer"):
        _records(UNTIMED, limits=one_past)


def test_span_too_large_with_its_times_is_rejected() -> None:
    untimed = PlacedSpan("spans[0]", {"trace_id": "a" * 32, "span_id": "b" * 16, "span_name": "n" * 200}, True)
    (record,) = _records([untimed], limits=SpanLimits()).records
    at_limit = replace(SpanLimits(), span_bytes_max=len(record.value) - len('{"spans":[]}'))
    one_past = replace(at_limit, span_bytes_max=at_limit.span_bytes_max - 1)

    assert _records([untimed], limits=at_limit).records == [record]
    assert span_json.decode(record.value, limits=at_limit, now_ns=NOW_NS).rejections.in_full == []
    with pytest.raises(TooLarge, match="with its times"):
        _records([untimed], limits=one_past)


def test_rejected_spans_are_named_by_path() -> None:
    spans = [
        each._replace(span={**each.span, "span_id": "none"}) if at >= 38 else each for at, each in enumerate(UNTIMED)
    ]
    past_64_bits = UNTIMED[7]._replace(span={**UNTIMED[7].span, "attributes": {"n": 2**64}})

    with pytest.raises(InvalidInput, match=r"^spans\[38\]: span_id.* spans\[47\]: span_id.* And 2 more\.$"):
        _records(spans, limits=SpanLimits())
    with pytest.raises(InvalidInput, match=r"^spans\[7\]: .*2\^64-1"):
        _records([past_64_bits], limits=SpanLimits())
