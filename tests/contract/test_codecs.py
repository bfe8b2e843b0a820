"""What every codec promises: equal spans from equal records, a bad span is rejected alone, bytes are never re-encoded."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from common.codec import otlp_json, otlp_protobuf, span_json
from common.errors import Rejected, RejectionCode
from common.limits import NESTING_DEPTH_BOUND, SpanLimits
from tests.strategies import NOW_NS, otlp_requests
from tests.support.otlp_json import request_json, span_object

LIMITS = SpanLimits()
SAMPLES = Path(__file__).parents[1] / "data" / "samples"
SAMPLE_NAMES = sorted(path.name.removesuffix(".otlp_proto.bin") for path in SAMPLES.glob("*.bin"))
CODECS = {"otlp_proto": otlp_protobuf, "otlp_json": otlp_json, "span_json": span_json}
TRACE_ID = bytes.fromhex("a0000003000000000000000000000abc")


def decode(codec, value, limits=LIMITS):
    return codec.decode(value, limits=limits, now_ns=NOW_NS)


# Equal spans from equal records


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_protobuf_and_json_of_a_sample_give_equal_spans(name):
    from_protobuf = decode(otlp_protobuf, (SAMPLES / f"{name}.otlp_proto.bin").read_bytes())
    from_json = decode(otlp_json, (SAMPLES / f"{name}.otlp_json.json").read_bytes())

    assert repr(from_json) == repr(from_protobuf)  # repr: 1 is not True, and 1 is not 1.0


def test_every_span_of_the_samples_is_kept():
    manifest = json.loads((SAMPLES / "manifest.json").read_text())
    sent = sum(one["spans"] for one in manifest["files"] if one["file"].endswith(".bin"))

    decoded = [decode(otlp_protobuf, path.read_bytes()) for path in SAMPLES.glob("*.bin")]

    assert sum(len(one.spans) for one in decoded) == sent
    assert not [rejection for one in decoded for rejection in one.rejections.in_full]


@given(otlp_requests())
def test_protobuf_and_json_give_equal_spans(request):
    from_protobuf = decode(otlp_protobuf, request.SerializeToString())
    from_json = decode(otlp_json, request_json(request))

    assert repr(from_json) == repr(from_protobuf)
    assert not from_json.rejections


@given(otlp_requests())
def test_spans_read_alone_equal_spans_read_as_a_whole(request):
    for codec, value in ((otlp_protobuf, request.SerializeToString()), (otlp_json, request_json(request))):
        whole = decode(codec, value)
        alone = [decode(codec, codec.lay_out(value).cut([index])) for index in whole.span_indexes]

        assert [repr(one.spans[0]) for one in alone] == [repr(span) for span in whole.spans]
        assert all(len(one.spans) == 1 for one in alone)


def test_spans_of_one_scope_share_their_resource():
    for codec in CODECS.values():
        first, second = decode(codec, record_of(codec, [{}, {}])).spans

        assert first.resource is second.resource
        assert first.scope is second.scope
        assert first.resource.attributes == {"service": {"name": "shop"}}


def test_later_of_two_spans_with_the_same_ids_is_kept():
    for codec in CODECS.values():
        spans = [{"number": 1, "name": "early"}, {}, {"number": 1, "name": "late"}]

        decoded = decode(codec, record_of(codec, spans)).without_repeats()

        assert decoded.span_indexes == [1, 2]
        assert decoded.spans[1].name == "late"


# A bad span is rejected alone

BAD = {
    "trace id missing": ({"trace_id": b""}, RejectionCode.INVALID_TRACE_ID),
    "trace id too short": ({"trace_id": b"\x01" * 15}, RejectionCode.INVALID_TRACE_ID),
    "trace id of zeros": ({"trace_id": bytes(16)}, RejectionCode.INVALID_TRACE_ID),
    "span id missing": ({"span_id": b""}, RejectionCode.INVALID_SPAN_ID),
    "span id too long": ({"span_id": b"\x01" * 9}, RejectionCode.INVALID_SPAN_ID),
    "span id of zeros": ({"span_id": bytes(8)}, RejectionCode.INVALID_SPAN_ID),
    "parent id too short": ({"parent_id": b"\x01" * 7}, RejectionCode.INVALID_PARENT_ID),
    "link id too short": ({"link_id": b"\x01" * 7}, RejectionCode.INVALID_LINK),
    "start of long ago": ({"start_ns": LIMITS.past_ns_min - 1}, RejectionCode.ABSURD_TIME),
    "end far ahead": ({"end_ns": NOW_NS + LIMITS.ahead_ns_max + 1}, RejectionCode.ABSURD_TIME),
    "kind unknown": ({"kind": 6}, RejectionCode.UNKNOWN_ENUM),
    "status unknown": ({"status_code": 3}, RejectionCode.UNKNOWN_ENUM),
}
KEPT = {
    "nested 24 levels": {"levels": 24},
    "start at the limit": {"start_ns": LIMITS.past_ns_min},
    "end at the limit": {"end_ns": NOW_NS + LIMITS.ahead_ns_max},
    "end before start": {"start_ns": NOW_NS, "end_ns": NOW_NS - 1},
    "parent of zeros": {"parent_id": bytes(8)},
    "text of many scripts": {"value": "żółć 漢字 🚀 \u0001 \\u0000 \\\\"},
    "link without ids": {"link_id": bytes(8)},
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("bad", BAD)
def test_ten_bad_spans_of_a_thousand_are_ten_rejections(codec, bad):
    members, code = BAD[bad]
    bad_indexes = list(range(0, 1_000, 100))

    decoded = decode(codec, record_of(codec, [members if index in bad_indexes else {} for index in range(1_000)]))

    assert len(decoded.spans) == 990
    assert [rejection.span_index for rejection in decoded.rejections.in_full] == bad_indexes
    assert {rejection.code for rejection in decoded.rejections.in_full} == {code}
    assert all(rejection.reason.endswith((".", "…")) for rejection in decoded.rejections.in_full)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("bad", BAD)
def test_bad_span_is_cut_out_whole_and_rejected_again(codec, bad):
    members, code = BAD[bad]
    value = record_of(codec, [{}, members, {}])

    buried = codec.lay_out(value).cut([1])

    assert [rejection.code for rejection in decode(codec, buried).rejections.in_full] == [code]
    assert codec.lay_out(buried).cut([0]) == buried


@pytest.mark.parametrize("bad", BAD)
def test_large_protobuf_record_read_span_by_span_gives_the_same_result(bad, monkeypatch):
    members, _ = BAD[bad]
    values = [record_of(otlp_protobuf, [{}, members, {"number": 1}, members])]
    values += [path.read_bytes() for path in SAMPLES.glob("*.bin")]
    whole = [decode(otlp_protobuf, value) for value in values]

    monkeypatch.setattr(otlp_protobuf, "WHOLE_BYTES_MAX", 0)

    split = [decode(otlp_protobuf, value) for value in values]
    assert all(decoded.layout is not None for decoded in split)
    assert [decoded._replace(layout=None) for decoded in split] == [decoded._replace(layout=None) for decoded in whole]


def test_large_protobuf_record_without_spans_is_empty_or_not_an_export(monkeypatch):
    monkeypatch.setattr(otlp_protobuf, "WHOLE_BYTES_MAX", 0)

    assert not decode(otlp_protobuf, b"\x0a\x02\x12\x00").rejections
    with pytest.raises(Rejected, match="no resource_spans"):
        decode(otlp_protobuf, b"\x12\x00")


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_layout_of_many_small_spans_takes_little_memory(codec):
    count = 50_000
    value = {
        otlp_protobuf: delimited(1, delimited(2, b"\x12\x00" * count)),
        otlp_json: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b",".join([b"{}"] * count) + b"]}]}]}",
        span_json: b'{"spans":[' + b",".join([b"{}"] * count) + b"]}",
    }[codec]

    tracemalloc.start()
    layout = codec.lay_out(value)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(layout.spans) == count
    assert peak_bytes < 50 * count


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("kept", KEPT)
def test_span_at_the_limit_is_kept(codec, kept):
    decoded = decode(codec, record_of(codec, [KEPT[kept]]))

    assert (len(decoded.spans), decoded.rejections.in_full) == (1, [])


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_valid_nesting_limit_is_applied_exactly(codec):
    limits = SpanLimits(nesting_depth_max=NESTING_DEPTH_BOUND)
    value = record_of(codec, [{"levels": NESTING_DEPTH_BOUND}, {"levels": NESTING_DEPTH_BOUND + 1}])

    decoded = decode(codec, value, limits)

    assert [span.repaired for span in decoded.spans] == [(), ("attributes.deep",)]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_record_above_its_size_limit_is_rejected_as_a_whole(codec):
    value = record_of(codec, [{}])
    decode(codec, value, SpanLimits(record_bytes_max=len(value)))

    with pytest.raises(Rejected, match="bytes") as rejected:
        decode(codec, value, SpanLimits(record_bytes_max=len(value) - 1))

    assert rejected.value.rejection is RejectionCode.RECORD_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_span_above_its_size_limit_is_rejected_alone(codec):
    value = record_of(codec, [{}, {"value": "x" * 10_000}, {}])
    big = len(codec.lay_out(value).cut([1]))

    decoded = decode(codec, value, SpanLimits(span_bytes_max=5_000))

    assert decoded.span_indexes == [0, 2]
    assert [rejection.code for rejection in decoded.rejections.in_full] == [RejectionCode.SPAN_TOO_LARGE]
    assert not decode(codec, value, SpanLimits(span_bytes_max=big)).rejections


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("member", ["start_ns", "end_ns"])
@pytest.mark.parametrize(("unit", "ns"), [("seconds", 10**9), ("milliseconds", 10**6), ("microseconds", 10**3)])
def test_reason_of_an_absurd_time_says_what_the_number_looks_like(codec, member, unit, ns):
    [rejection] = decode(codec, record_of(codec, [{member: NOW_NS // ns}])).rejections.in_full

    assert rejection.code is RejectionCode.ABSURD_TIME
    assert f" In nanoseconds since 1970 this is {NOW_NS // ns}, which looks like {unit}." in rejection.reason


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("time_ns", [0, 5, LIMITS.past_ns_min - 1, NOW_NS + LIMITS.ahead_ns_max + 1])
def test_reason_of_another_absurd_time_says_nothing_about_units(codec, time_ns):
    [rejection] = decode(codec, record_of(codec, [{"start_ns": time_ns}])).rejections.in_full

    assert "looks like" not in rejection.reason


# What can be repaired is kept

REPAIRED = {
    "null in a name": ({"name": "a\0b"}, {"name": "a\ufffdb"}, "span_name"),
    "null in a value": ({"value": "a\0b"}, {"value": "a\ufffdb"}, "attributes.key"),
    "null in a key": ({"key": "a\0b"}, {"key": "a\ufffdb"}, "attributes.a\ufffdb"),
    "null in a nested value": ({"nested": "a\0b"}, {"nested": "a\ufffdb"}, "attributes.nested"),
    "name not UTF-8": ({"name": "@@"}, {"name": "\ufffd\ufffd"}, "span_name"),
    "value not UTF-8": ({"value": "a@@b"}, {"value": "a\ufffd\ufffdb"}, "attributes.key"),
    "key not UTF-8": ({"key": "a@@"}, {"key": "a\ufffd\ufffd"}, "attributes.a\ufffd\ufffd"),
    "nested value not UTF-8": ({"nested": "@@"}, {"nested": "\ufffd\ufffd"}, "attributes.nested"),
}
DEEP = (25, 40, 1_000, 5_000)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("fault", REPAIRED)
def test_span_with_a_character_that_no_text_may_hold_is_repaired(codec, fault):
    members, clean, place = REPAIRED[fault]
    [expected, _] = decode(codec, record_of(codec, [clean, {}])).spans

    decoded = decode(codec, record_of(codec, [members, {}]))

    assert not decoded.rejections
    assert repr(decoded.spans[0]) == repr(expected._replace(repaired=(place,)))
    assert decoded.spans[1].repaired == ()


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("levels", DEEP)
def test_value_below_the_deepest_level_becomes_its_json_text(codec, levels):
    decoded = decode(codec, record_of(codec, [{"levels": levels}, {}]))

    assert not decoded.rejections
    value, depth = decoded.spans[0].attributes["deep"], 0
    while type(value) is list:
        [value], depth = value, depth + 1
    assert (depth, value) == (24, "[" * (levels - 24) + '"x"' + "]" * (levels - 24))
    assert type(value) is str
    assert decoded.spans[0].repaired == ("attributes.deep",)
    assert decoded.spans[1].repaired == ()


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_value_with_absurdly_many_levels_is_too_large(codec):
    decoded = decode(codec, record_of(codec, [{"levels": 60_000}, {}]))

    assert decoded.span_indexes == [1]
    assert [rejection.code for rejection in decoded.rejections.in_full] == [RejectionCode.SPAN_TOO_LARGE]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("bad", ["trace id too short", "start of long ago", "kind unknown"])
def test_span_that_can_be_repaired_is_rejected_for_other_reasons(codec, bad):
    members: Any
    members, code = BAD[bad]

    decoded = decode(codec, record_of(codec, [members | {"value": "@@", "levels": 5_000}, {"value": "\0"}]))

    assert decoded.span_indexes == [1]
    assert [rejection.code for rejection in decoded.rejections.in_full] == [code]


# Only rejections are raised


@given(st.data())
def test_broken_bytes_raise_only_rejections(data):
    codec = data.draw(st.sampled_from(list(CODECS.values())))
    value = bytearray(record_of(codec, [{}, {"levels": 3}, {"link_id": b"\x02" * 8}]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(value) - 1, 0)))
        match data.draw(st.sampled_from(["change", "cut", "insert", "remove"])):
            case "change":
                value[at : at + 1] = bytes([data.draw(st.integers(0, 255))])
            case "cut":
                del value[at:]
            case "insert":
                value[at:at] = data.draw(st.binary(max_size=4) | st.sampled_from([b'"', b"[", b"}", b"null", b"\xff"]))
            case _:
                del value[at : at + data.draw(st.integers(1, 8))]

    decode_all_ways(codec, bytes(value))


@given(st.sampled_from(list(CODECS.values())), st.binary(max_size=64))
def test_any_bytes_raise_only_rejections(codec, value):
    decode_all_ways(codec, value)


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "resource",
                    "scope",
                    "attributes",
                    "key",
                    "value",
                    "stringValue",
                    "intValue",
                    "arrayValue",
                    "values",
                    "traceId",
                    "trace_id",
                    "spanId",
                    "span_id",
                    "events",
                    "links",
                    "status",
                    "kind",
                    "span_kind",
                    "start_time",
                    "references",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
).map(lambda value: json.dumps(value).encode())


@given(st.sampled_from([otlp_json, span_json]), json_texts)
def test_any_json_raises_only_rejections(codec, value):
    decode_all_ways(codec, value)


def decode_all_ways(codec, value):
    """Decode, and cut every rejected span; both may raise only ``Rejected``."""
    try:
        decoded = decode(codec, value)
        for rejection in decoded.rejections.in_full:
            codec.lay_out(value).cut([rejection.span_index])
    except Rejected as rejected:
        assert rejected.detail  # noqa: PT017 - either outcome is allowed


# Hand-made records, the same in every encoding


def record_of(codec, specs):
    """One record whose n-th span differs from a plain one by ``specs[n]``."""
    write = {otlp_protobuf: protobuf_record, otlp_json: otlp_json_record, span_json: span_json_record}[codec]
    return write([{"number": 1_000_000 + index, **spec} for index, spec in enumerate(specs)])


def protobuf_record(specs):
    wrapped = b"".join(delimited(2, protobuf_span(spec)) for spec in specs)
    resource = KeyValue(key="service.name", value=AnyValue(string_value="shop")).SerializeToString()
    scope = delimited(1, delimited(1, b"hand"))
    return delimited(1, delimited(1, delimited(1, resource)) + delimited(2, scope + wrapped))


def protobuf_span(spec):
    span = span_message(spec).SerializeToString()
    if "levels" in spec:
        span += delimited(9, delimited(1, b"deep") + delimited(2, nested_value(spec["levels"])))
    return span.replace(b"@@", b"\xff\xfe")


def nested_value(levels):
    value = delimited(1, b"x")
    for _ in range(levels):
        value = delimited(5, delimited(1, value))
    return value


def span_message(spec):
    span = SpanMessage(
        trace_id=spec.get("trace_id", TRACE_ID),
        span_id=spec.get("span_id", spec["number"].to_bytes(8, "big")),
        parent_span_id=spec.get("parent_id", b""),
        name=spec.get("name", "chat"),
        kind=spec.get("kind", 3),
        start_time_unix_nano=spec.get("start_ns", NOW_NS - 5),
        end_time_unix_nano=spec.get("end_ns", NOW_NS),
    )
    span.status.code = spec.get("status_code", 0)
    span.attributes.add(key=spec.get("key", "key")).value.string_value = spec.get("value", "value")
    if "nested" in spec:
        span.attributes.add(key="nested").value.array_value.values.add().string_value = spec["nested"]
    if "link_id" in spec:
        trace_id = TRACE_ID if any(spec["link_id"]) else bytes(16)
        span.links.add(trace_id=trace_id, span_id=spec["link_id"])
    return span


def otlp_json_record(specs):
    spans = [otlp_json_span(spec) for spec in specs]
    resource = '{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}'
    scoped = ('{"scope":{"name":"hand"},"spans":[' + ",".join(spans) + "]}").encode()
    return b'{"resourceSpans":[{"resource":%s,"scopeSpans":[%s]}]}' % (
        resource.encode(),
        scoped.replace(b"@@", b"\xff\xfe"),
    )


def otlp_json_span(spec):
    span = span_object(span_message(spec))
    levels = spec.get("levels", 0)
    deep = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    return (
        with_deep_attribute(json.dumps(span), "[{", '[{"key":"deep","value":' + deep + "},{")
        if levels
        else json.dumps(span)
    )


def with_deep_attribute(text, at, replacement):
    head, _, tail = text.partition('"attributes": ' + at)
    return head + '"attributes": ' + replacement + tail


def span_json_record(specs):
    spans = ",".join(span_json_span(spec) for spec in specs).encode()
    return b'{"count":1,"spans":[' + spans.replace(b"@@", b"\xff\xfe") + b"]}"


def span_json_span(spec):
    message = span_message(spec)
    attributes = {spec.get("key", "key"): spec.get("value", "value")}
    if "nested" in spec:
        attributes["nested"] = [spec["nested"]]
    span = {
        "trace_id": message.trace_id.hex(),
        "span_id": message.span_id.hex(),
        "parent_id": message.parent_span_id.hex(),
        "span_name": message.name,
        "span_kind": message.kind,
        "status_code": message.status.code,
        "start_time_unix_nano": str(message.start_time_unix_nano),
        "end_time_unix_nano": str(message.end_time_unix_nano),
        "attributes": attributes,
        "resource": {"attributes": {"service": {"name": "shop"}}},
        "scope": {"name": "hand"},
    }
    if "link_id" in spec:
        span["links"] = [{"trace_id": link.trace_id.hex(), "span_id": link.span_id.hex()} for link in message.links]
    levels = spec.get("levels", 0)
    text = json.dumps(span)
    return with_deep_attribute(text, "{", '{"deep":' + "[" * levels + '"x"' + "]" * levels + ",") if levels else text


def delimited(number, content):
    """A length-delimited protobuf field, written without product code."""
    size = len(content)
    encoded = bytearray([number << 3 | 2])
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + content


def test_hand_made_records_are_what_they_claim():
    request = ExportTraceServiceRequest.FromString(protobuf_record([{"number": 1, "levels": 2}]))

    assert request.resource_spans[0].scope_spans[0].scope.name == "hand"
    assert request.resource_spans[0].scope_spans[0].spans[0].attributes[1].key == "deep"
