"""Nested attributes as dotted keys, and values of every kind as OTLP."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from common.codec import otlp_protobuf
from common.dotted import KEYS_LENGTH_MAX, dotted
from common.limits import SpanLimits
from common.nesting import SEGMENTS_MAX, nest
from query_api.delivery.targets.otlp_message import export_request

NOW_NS = 1_795_300_000_000_000_000
SPAN = {
    "trace_id": "ab" * 16,
    "span_id": "cd" * 8,
    "span_name": "n",
    "start_time_unix_nano": str(NOW_NS),
    "end_time_unix_nano": str(NOW_NS + 1),
}

segments = st.sampled_from(["a", "b", "0", "1", ""])
keys = st.lists(segments, min_size=1, max_size=4).map(".".join)
values = st.recursive(
    st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)


def _reaches_into_an_array(value: Any) -> bool:
    """Return whether a key was displaced by an array at its beginning: the only shape that no keys give again."""
    if isinstance(value, list):
        return any(map(_reaches_into_an_array, value))
    if not isinstance(value, dict):
        return False
    meets = any("." in name and isinstance(value.get(name.partition(".")[0]), list | dict) for name in value)
    return meets or any(map(_reaches_into_an_array, value.values()))


@given(st.dictionaries(keys, values, max_size=6))
@example({"a.a.a": 0, "a": None})
@example({"a": {"0": 1, "1": 2}})
@example({"a": {"b.c": 1}})
@example({"a.0.b": 1, "a.1.b": 2})
@example({"x" + ".x" * SEGMENTS_MAX: 1})
def test_dotted_keys_nest_to_the_same_attributes(flat: dict[str, Any]) -> None:
    nested = nest(flat)
    assume(not _reaches_into_an_array(nested))

    again: dict[str, Any] = {}
    for key, value in nested.items():
        again.update(dotted(key, value))

    assert nest(again) == nested


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": {"c": 1}, "d": "x"}, {"a.b.c": 1, "a.d": "x"}),
        ([{"b": 1}, {"b": 2}], {"a.0.b": 1, "a.1.b": 2}),
        ([1, "x", {"b": 1}], {"a": [1, "x", {"b": 1}]}),
        ({"b": {}, "c": []}, {"a.b": {}, "a.c": []}),
        ({"0": 1, "1": 2}, {"a": {"0": 1, "1": 2}}),
        ({"b.c": 1}, {"a": {"b.c": 1}}),
        ({"b": 1, "b.c": 2}, {"a.b": 1, "a.b.c": 2}),
    ],
)
def test_map_becomes_keys_where_it_can(value: Any, expected: dict[str, Any]) -> None:
    assert dotted("a", value) == expected


def test_long_key_is_not_repeated_for_each_leaf() -> None:
    value = {str(number): {"x": number} for number in range(3, 2_000)}

    assert dotted("k" * 1_000, value) == {"k" * 1_000: value}
    assert sum(map(len, dotted("k", value))) < KEYS_LENGTH_MAX


def _read_again(*spans: dict[str, Any], ag: bool = False) -> Any:
    value = export_request(spans, ag=ag).SerializeToString()
    return otlp_protobuf.decode(value, limits=SpanLimits(), now_ns=NOW_NS)


def test_value_that_parsers_refuse_is_sent_as_text() -> None:
    deep: Any = "leaf"
    for _ in range(60):
        deep = [deep]
    attributes = {"deep": deep, "large": 2**63, "small": -(2**63), "null": None}

    [span] = _read_again({**SPAN, "attributes": attributes}).spans

    assert span.attributes == {
        "deep": "[" * 60 + '"leaf"' + "]" * 60,
        "large": str(2**63),
        "small": -(2**63),
        "null": None,
    }


def test_ag_is_only_sent_on_request() -> None:
    empty: dict[str, Any] = {"duration": {}, "errors": {}, "tokens": {}, "costs": {}}
    ag = {"type": {"trace": "invocation"}, "data": {}, "metrics": {**empty, "errors": {"incremental": 1}}}
    span = {**SPAN, "attributes": {"x": 1, "ag": ag}}

    assert _read_again(span).spans[0].attributes == {"x": 1}
    assert _read_again(span, ag=True).spans[0].attributes == {
        "x": 1,
        "ag.type.trace": "invocation",
        "ag.metrics.errors.incremental": 1,
    }


def test_spans_are_grouped_by_resource_and_scope() -> None:
    one, two = {"attributes": {"service": {"name": "a"}}}, {"attributes": {"service": {"name": "b"}}}
    scope = {"name": "s", "version": "1", "schema_url": "u", "attributes": {"k": True}, "dropped_attributes_count": 2}
    spans = [
        {**SPAN, "span_id": f"{number:016x}", "resource": resource, **members}
        for number, (resource, members) in enumerate([(one, {}), (two, {}), (one, {"scope": scope}), (one, {})], 1)
    ]

    request = ExportTraceServiceRequest.FromString(export_request(spans).SerializeToString())

    groups = [
        [[span.span_id[-1] for span in scope_spans.spans] for scope_spans in resource_spans.scope_spans]
        for resource_spans in request.resource_spans
    ]
    assert groups == [[[1, 4], [3]], [[2]]]
    assert request.resource_spans[0].scope_spans[1].schema_url == "u"
    assert request.resource_spans[0].scope_spans[1].scope.attributes[0].value.bool_value is True
