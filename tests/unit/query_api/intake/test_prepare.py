"""Flattening trees of spans, and the records that are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from common.codec import span_json
from common.errors import InvalidInput, TooLarge
from common.limits import SpanLimits
from query_api.intake.prepare import PlacedSpan, TraceSpans, flatten, flatten_node, to_records
from query_api.intake.records import partition_of
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


def test_traces_of_a_partition_share_records_up_to_the_largest_size() -> None:
    """Of 40 traces, about half belong to each of two partitions."""
    placed = [
        PlacedSpan(f"spans[{at}]", {"trace_id": f"{at % 40 + 1:032x}", "span_id": f"{at + 1:016x}"}, True)
        for at in range(80)
    ]
    context = PrepareContext({}, None, SpanLimits(), NOW_NS, span_partitions=2)
    whole = to_records(placed, context).records
    sent_bytes = sum(len(orjson.dumps(place.span)) + 1 for place in placed) + len('{"spans":[]}')

    split = to_records(placed, replace(context, limits=replace(SpanLimits(), record_bytes_max=sent_bytes))).records

    assert [record.partition for record in whole] == [0, 1]
    assert [record.partition for record in split] == [0, 0, 1, 1]  # with their times, spans take twice the bytes
    assert max(len(record.value) for record in split) <= sent_bytes < min(len(record.value) for record in whole)
    for records in (whole, split):
        decoded = [(record, span_json.decode(record.value, limits=SpanLimits(), now_ns=NOW_NS)) for record in records]
        assert sum(len(each.spans) for _, each in decoded) == 80
        for record, each in decoded:
            assert record.key == each.spans[0].trace_id
            assert {partition_of(span.trace_id, 2) for span in each.spans} == {record.partition}
        traces = [{span.trace_id for span in each.spans} for _, each in decoded]
        assert sum(map(len, traces)) == 40  # no trace is in two records


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


@pytest.mark.parametrize("levels", [25, 300, 5_000])
def test_deep_values_and_null_characters_are_published_as_they_were_sent(levels: int) -> None:
    value: object = "a\0b"
    for _ in range(levels):
        value = [value]
    deep = UNTIMED[7]._replace(span={**UNTIMED[7].span, "attributes": {"deep": value}})

    (record,) = _records([*UNTIMED[:7], deep], limits=SpanLimits()).records

    spans = span_json.decode(record.value, limits=SpanLimits(), now_ns=NOW_NS).spans
    assert [span.repaired for span in spans] == [*[()] * 7, ("attributes.deep",)]
    assert str(spans[7].attributes["deep"]).count("[") == levels


def _node(span_id: str, **members):
    return {"trace_id": "t", "span_id": span_id, **members}


def test_children_precede_their_parent_with_their_paths() -> None:
    tree = {"root": _node("1", spans={"a": _node("2", spans={"b": _node("3")}), "c": _node("4")})}

    placed = list(flatten(tree, path="trace.spans"))

    assert [(place.span["span_id"], place.path) for place in placed] == [
        ("3", "trace.spans.root.spans.a.spans.b"),
        ("2", "trace.spans.root.spans.a"),
        ("4", "trace.spans.root.spans.c"),
        ("1", "trace.spans.root"),
    ]


def test_lists_of_one_name_work_for_roots_and_siblings() -> None:
    tree = {"root": [_node("1", spans={"a": [_node("2"), _node("3")]}), _node("4")]}

    placed = list(flatten(tree, path="spans"))

    assert [place.span["span_id"] for place in placed] == ["2", "3", "1", "4"]
    assert [place.path for place in placed][0::3] == ["spans.root[0].spans.a[0]", "spans.root[1]"]


def test_nested_span_gets_its_parent_id() -> None:
    tree = _node("1", spans={"a": _node("2"), "b": _node("3", parent_id="9")})

    placed = list(flatten_node(tree, path="spans[0]"))

    assert [place.span.get("parent_id") for place in placed] == ["1", "9", None]
    assert [place.is_top for place in placed] == [False, False, True]


def test_nodes_are_unchanged_except_for_their_children() -> None:
    node = _node("1", anything={"a": None}, spans={})

    (place,) = flatten_node(node, path="spans[0]")

    assert place.span == {"trace_id": "t", "span_id": "1", "anything": {"a": None}}
    assert "spans" in node


def test_nothing_is_an_empty_tree() -> None:
    assert list(flatten(None, path="spans")) == []
    assert list(flatten({"root": []}, path="spans")) == []
