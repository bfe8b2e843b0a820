"""OTLP/JSON: every spelling that is accepted, and the reasons of rejections."""

from __future__ import annotations

import base64
import json

import pytest

from common.codec.decoded import Decoded, Rejections
from common.codec.otlp_json import decode, lay_out
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from common.span import SpanKind, StatusCode
from tests.strategies import NOW_NS

LIMITS = SpanLimits()
TRACE_ID = "a0000003000000000000000000000abc"
SPAN_ID = "00000000000000ab"


def a_span(**members):
    return {
        "traceId": TRACE_ID,
        "spanId": SPAN_ID,
        "startTimeUnixNano": str(NOW_NS),
        "endTimeUnixNano": str(NOW_NS),
        **members,
    }


def record(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def read(*spans):
    return decode(record(*spans), limits=LIMITS, now_ns=NOW_NS)


def the_span(**members):
    decoded = read(a_span(**members))
    assert decoded.rejections.in_full == []
    return decoded.spans[0]


def the_rejection(**members):
    decoded = read(a_span(**members))
    assert decoded.spans == []
    return decoded.rejections.in_full[0]


def attribute(**value):
    return [{"key": "k", "value": value}]


@pytest.mark.parametrize("spelling", [TRACE_ID, TRACE_ID.upper()])
def test_ids_are_hexadecimal_in_any_case(spelling):
    assert the_span(traceId=spelling).trace_id.hex() == TRACE_ID


@pytest.mark.parametrize("padding", ["==", ""])
def test_base64_ids_of_the_right_length_are_accepted_and_counted(padding):
    trace_id = base64.b64encode(bytes.fromhex(TRACE_ID)).decode().rstrip("=") + padding
    span_id = base64.b64encode(bytes.fromhex(SPAN_ID)).decode()

    decoded = read(a_span(traceId=trace_id, spanId=span_id))

    assert decoded.spans[0].trace_id.hex() == TRACE_ID
    assert decoded.spans[0].span_id.hex() == SPAN_ID * 2
    assert decoded.base64_ids_count == 2


@pytest.mark.parametrize("found", ["g" * 32, "ab", 7, True, [], "a" * 31 + " ", "AAAA"])
def test_id_of_another_form_is_rejected(found):
    rejection = the_rejection(traceId=found)

    assert rejection.code is RejectionCode.INVALID_TRACE_ID
    assert "32 hexadecimal digits" in rejection.reason


@pytest.mark.parametrize("time", [NOW_NS, str(NOW_NS)])
def test_times_are_numbers_or_texts_of_digits(time):
    assert the_span(startTimeUnixNano=time).start_ns == NOW_NS


@pytest.mark.parametrize("time", ["now", -1, 1.5, str(2**64), [], True])
def test_time_of_another_form_is_rejected(time):
    assert the_rejection(startTimeUnixNano=time).code is RejectionCode.INVALID_TYPE


def test_missing_time_is_zero_and_rejected():
    rejection = the_rejection(startTimeUnixNano=None)

    assert rejection.code is RejectionCode.ABSURD_TIME
    assert "1970-01-01T00:00:00Z; allowed: 2000-01-01T00:00:00Z to" in rejection.reason


@pytest.mark.parametrize("kind", [2, "SPAN_KIND_SERVER"])
def test_enums_are_numbers_or_names(kind):
    assert the_span(kind=kind).kind == SpanKind.SPAN_KIND_SERVER
    assert the_span(status={"code": "STATUS_CODE_ERROR"}).status_code == StatusCode.STATUS_CODE_ERROR


@pytest.mark.parametrize("kind", [6, -1, "SERVER", "span_kind_server", 2.0, True])
def test_unknown_enum_is_rejected(kind):
    assert the_rejection(kind=kind).code is RejectionCode.UNKNOWN_ENUM


def test_unknown_members_are_ignored_and_snake_case_is_read():
    span = a_span(later_addition={"x": 1}, parent_span_id="00000000000000cd", dropped_events_count=3)
    span["trace_id"] = span.pop("traceId")
    span["events"] = [{"time_unix_nano": "5", "name": "e", "attributes": [{"key": "k", "value": {"int_value": "7"}}]}]
    value = {"resource_spans": [{"scope_spans": [{"spans": [span], "schema_url": "s"}], "new": 1}]}

    (read_span,) = decode(json.dumps(value).encode(), limits=LIMITS, now_ns=NOW_NS).spans

    assert read_span.trace_id.hex() == TRACE_ID
    assert read_span.parent_id == bytes.fromhex("00000000000000cd" * 2)
    assert read_span.dropped_events_count == 3
    assert read_span.events[0].time_ns == 5
    assert read_span.events[0].attributes == {"k": 7}
    assert read_span.scope.schema_url == "s"
    assert len(decode(lay_out(json.dumps(value).encode()).cut([0]), limits=LIMITS, now_ns=NOW_NS).spans) == 1


@pytest.mark.parametrize(
    ("spans", "library"),
    [
        ("instrumentationLibrarySpans", "instrumentationLibrary"),
        ("instrumentation_library_spans", "instrumentation_library"),
    ],
)
@pytest.mark.parametrize("name", ["a", "\udc80"], ids=["whole", "split"])
def test_scopes_are_read_by_their_former_names(spans, library, name):
    scopes = [{library: {"name": "tracer", "version": "1"}, "spans": [a_span(), a_span(spanId="cd" * 8, name=name)]}]
    value = json.dumps({"resourceSpans": [{"scopeSpans": None, spans: scopes}]}).encode()

    decoded = decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert len(decoded.spans) + len(decoded.rejections.in_full) == 2
    assert (decoded.spans[0].scope.name, decoded.spans[0].scope.version) == ("tracer", "1")
    assert decode(lay_out(value).cut([0]), limits=LIMITS, now_ns=NOW_NS).spans == decoded.spans[:1]


@pytest.mark.parametrize(
    "names", [("scopeSpans", "instrumentationLibrarySpans"), ("scope_spans", "instrumentation_library_spans")]
)
def test_scopes_sent_under_both_names_are_read_once(names):
    now, former = names
    request = {
        "resourceSpans": [{now: [{"spans": [a_span(name="now")]}], former: [{"spans": [a_span(name="former")]}]}]
    }
    value = json.dumps(request).encode()

    (span,) = decode(value, limits=LIMITS, now_ns=NOW_NS).spans

    assert span.name == "now"
    assert b"former" not in lay_out(value).cut([0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, None),
        (None, None),
        ({"stringValue": None}, None),
        ({"stringValue": "a"}, "a"),
        ({"stringValue": "a", "later": 1}, "a"),
        ({"intValue": "9223372036854775807"}, 2**63 - 1),
        ({"intValue": -9223372036854775808}, -(2**63)),
        ({"intValue": 5.0}, 5),
        ({"boolValue": False}, False),
        ({"doubleValue": 5.0}, 5),
        ({"doubleValue": -0.0}, 0),
        ({"doubleValue": "1.5e3"}, 1500),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({"doubleValue": 2**53 + 1}, 2**53),
        ({"bytesValue": "APv/"}, "APv/"),
        ({"bytesValue": "APv_"}, "APv/"),
        ({"bytesValue": "AA"}, "AA=="),
        ({"bytesValue": ""}, ""),
        ({"arrayValue": {}}, []),
        ({"arrayValue": {"values": [{}, {"intValue": 1}]}}, [None, 1]),
        ({"kvlistValue": {"values": [{"key": "a.b", "value": {"boolValue": True}}]}}, {"a.b": True}),
    ],
)
def test_value_of_each_kind_is_json_ready(value, expected):
    assert repr(the_span(attributes=[{"key": "k", "value": value}]).attributes) == repr({"k": expected})


@pytest.mark.parametrize(
    "value",
    [
        {"stringValue": 5},
        {"intValue": "9223372036854775808"},
        {"intValue": 9223372036854775808},
        {"intValue": 1e300},
        {"intValue": 1.5},
        {"intValue": "1.0"},
        {"intValue": " 1"},
        {"intValue": True},
        {"boolValue": "true"},
        {"doubleValue": "inf"},
        {"doubleValue": "1_0"},
        {"doubleValue": True},
        {"doubleValue": "1e400"},
        {"doubleValue": "-1e400"},
        {"bytesValue": "A"},
        {"bytesValue": "%%%%"},
        {"bytesValue": 5},
        {"arrayValue": []},
        {"arrayValue": {"values": {}}},
        {"kvlistValue": {"values": [5]}},
        {"stringValue": "a", "intValue": 1},
        {"text": "a"},
        "bare",
        5,
        [],
    ],
)
def test_value_of_another_type_rejects_only_its_span(value):
    decoded = read(a_span(attributes=[{"key": "k", "value": value}]), a_span())

    assert [rejection.code for rejection in decoded.rejections.in_full] == [RejectionCode.INVALID_TYPE]
    assert "attributes.k" in decoded.rejections.in_full[0].reason
    assert len(decoded.spans) == 1


def test_attributes_as_an_object_are_rejected_with_the_valid_form():
    assert the_rejection(attributes={"gen_ai.system": "openai"}).reason == (
        'attributes is an object; it must be a list of {"key": …, "value": {"stringValue": …}}.'
    )


@pytest.mark.parametrize(
    "members",
    [
        {"name": 5},
        {"attributes": ["a"]},
        {"attributes": [{"key": 5, "value": {}}]},
        {"events": {}},
        {"events": [5]},
        {"links": "a"},
        {"status": []},
        {"flags": 2**32},
        {"droppedLinksCount": -1},
        {"traceState": {}},
    ],
    ids=str,
)
def test_member_of_another_type_is_named(members):
    rejection = the_rejection(**members)

    assert rejection.code is RejectionCode.INVALID_TYPE
    assert next(iter(members)).removesuffix("s") in rejection.reason.lower() or next(iter(members)) in rejection.reason


@pytest.mark.parametrize("span", [None, 5, "a", []])
def test_element_that_is_not_an_object_is_rejected_at_its_index(span):
    decoded = read(a_span(), span)

    assert [(rejection.span_index, rejection.code) for rejection in decoded.rejections.in_full] == [
        (1, RejectionCode.INVALID_TYPE)
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"nonsense",
        b"[]",
        b"5",
        b'{"resourceSpans":5}',
        b'{"resourceSpans":[5]}',
        b'{"resourceSpans":[{"scopeSpans":{}}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":5}]}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{',
        b'{"resourceSpans":[]} {}',
        b'{"resourceLogs":[]}',
        b'{"trace_id":"a"}',
    ],
)
def test_other_document_rejects_the_record(value):
    with pytest.raises(Rejected) as rejected:
        decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert rejected.value.rejection in (RejectionCode.UNDECODABLE, RejectionCode.INVALID_TYPE)


def test_export_of_logs_is_named_in_the_reason():
    with pytest.raises(Rejected, match="no resourceSpans but “resourceLogs”"):
        decode(b'{"resourceLogs":[{}]}', limits=LIMITS, now_ns=NOW_NS)


@pytest.mark.parametrize(
    "value", [b"{}", b'{"resourceSpans":[]}', b'{"resourceSpans":null}', b'{"resourceSpans":[{}]}']
)
def test_empty_requests_have_no_spans(value):
    assert decode(value, limits=LIMITS, now_ns=NOW_NS) == Decoded([], [], Rejections())


@pytest.mark.parametrize(
    ("name", "repaired"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"a\\ude00\\ud83d"', "a\ufffd\ufffd"),
        (b'"\\ud83d\\ude00\xff"', "\U0001f600\ufffd"),
        (b'"\xff"', "\ufffd"),
        (b'"\xf0\x9f\x98"', "\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd" * 3),
        (b'"a\0b"', "a\ufffdb"),
        (b'"\\\\ud800\xff"', "\\ud800\ufffd"),
    ],
)
def test_text_that_is_not_unicode_is_repaired(name, repaired):
    value = record(a_span(name="@@"), a_span(spanId="00000000000000cd")).replace(b'"@@"', name)

    decoded = decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert [(span.name, span.repaired) for span in decoded.spans] == [(repaired, ("span_name",)), ("", ())]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"nonsense", RejectionCode.UNDECODABLE),
        (b'"\xff\n"', RejectionCode.UNDECODABLE),
        (b'"\xff" \0', RejectionCode.UNDECODABLE),
        (b'"\\\xff"', RejectionCode.UNDECODABLE),
        (b"[" * 2_000 + b"]" * 2_000, RejectionCode.INVALID_TYPE),
        (b"[" * 2_000 + b"NaN" + b"]" * 2_000, RejectionCode.UNDECODABLE),
        (b"[" * 2_000 + b"1 2" + b"]" * 2_000, RejectionCode.UNDECODABLE),
        (b"[" * 2_000 + b'{"a" 2}' + b"]" * 2_000, RejectionCode.UNDECODABLE),
        (b"[" * 2_000 + b"{2}" + b"]" * 2_000, RejectionCode.UNDECODABLE),
    ],
)
def test_unparsable_span_is_rejected_alone(name, code):
    value = record(a_span(), a_span(name="@@"), a_span(spanId="00000000000000cd")).replace(b'"@@"', name)

    decoded = decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert decoded.span_indexes == [0, 2]
    assert [(rejection.span_index, rejection.code) for rejection in decoded.rejections.in_full] == [(1, code)]


def test_enum_that_is_an_array_of_many_levels_is_rejected():
    for levels in (10, 990, 5_000):
        value = record(a_span(kind="@@")).replace(b'"@@"', b"[" * levels + b"]" * levels)

        (rejection,) = decode(value, limits=LIMITS, now_ns=NOW_NS).rejections.in_full

        assert rejection.code is RejectionCode.UNKNOWN_ENUM


@pytest.mark.parametrize("text", ["\0", "@@"])
def test_place_in_a_resource_is_named_by_its_own_spans_alone(text):
    bad = {
        "resource": {"attributes": [{"key": "k.l", "value": {"stringValue": text}}]},
        "scopeSpans": [{"spans": [a_span()]}],
    }
    good = {"scopeSpans": [{"spans": [a_span(spanId="00000000000000cd")]}]}
    value = json.dumps({"resourceSpans": [bad, good]}).encode().replace(b"@@", b"\xff")

    decoded = decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert decoded.spans[0].resource.attributes == {"k": {"l": "\ufffd"}}
    assert [span.repaired for span in decoded.spans] == [("resource.attributes.k.l",), ()]


def test_resource_of_the_wrong_type_rejects_only_its_own_spans():
    bad = {"resource": {"attributes": 5}, "scopeSpans": [{"spans": [a_span()]}]}
    good = {"scopeSpans": [{"spans": [a_span(spanId="00000000000000cd")]}]}

    decoded = decode(json.dumps({"resourceSpans": [bad, good]}).encode(), limits=LIMITS, now_ns=NOW_NS)

    assert decoded.span_indexes == [1]
    assert decoded.rejections.in_full[0].span_index == 0


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"stringValue": None, "intValue": "5", "arrayValue": None}, 5),
        ({"intValue": None, "stringValue": "text"}, "text"),
        ({"stringValue": None, "intValue": None}, None),
    ],
)
def test_null_kind_is_absent(value, found):
    assert the_span(attributes=attribute(**value)).attributes == {"k": found}
