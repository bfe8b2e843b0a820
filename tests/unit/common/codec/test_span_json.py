"""``span_json``: every member of a response and every spelling of the reference is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.codec.decoded import Decoded, Rejections
from common.codec.span_json import decode, lay_out
from common.errors import Rejected, RejectionCode
from common.limits import SpanLimits
from common.score import EVENT_SOURCE, Score, ScoreSource
from common.span import Event, Link, Resource, Scope, SpanKind, StatusCode
from tests.strategies import NOW_NS

LIMITS = SpanLimits()
TRACE_ID = "a0000003000000000000000000000abc"
SPAN_ID = "00000000000000ab"
NOON_NS = 1_714_564_800_000_000_000  # 2024-05-01T12:00:00Z

ANSWER = {
    "created_at": "2026-01-02T03:04:05.678901Z",
    "created_by_id": "00000000-0000-7000-8000-0000000000aa",
    "trace_id": TRACE_ID,
    "span_id": SPAN_ID,
    "parent_id": "00000000000000cd",
    "trace_type": "annotation",
    "span_type": "llm",
    "span_kind": "SPAN_KIND_CLIENT",
    "span_name": "chat",
    "start_time": "2024-05-01T12:00:00Z",
    "end_time": "2024-05-01T12:00:01Z",
    "start_time_unix_nano": str(NOON_NS + 7),
    "end_time_unix_nano": str(NOON_NS + 10**9 + 9),
    "status_code": "STATUS_CODE_ERROR",
    "status_message": "boom",
    "session_id": "s",
    "user_id": "u",
    "agent_id": "g",
    "attributes": {"ag": {"data": {"inputs": {"a.b": [1, 2.0, None, True, "x"]}}}, "n": 1.5},
    "references": [{"id": "019d952f594571b1b8cbd6d8e675c18d", "slug": "app", "attributes": {"key": "application"}}],
    "links": [{"trace_id": TRACE_ID, "span_id": SPAN_ID, "attributes": {"key": "k"}, "trace_state": "t", "flags": 256}],
    "hashes": [{"id": "d3c8a323-8abe-92a5-d1d4-bb89e23f10ed", "attributes": {"key": "indirect"}}],
    "events": [
        {
            "name": "exception",
            "timestamp": "2024-05-01T12:00:00Z",
            "time_unix_nano": str(NOON_NS + 1),
            "attributes": {"exception.message": "x"},
            "dropped_attributes_count": 4,
        }
    ],
    "trace_state": "v=1",
    "flags": 257,
    "dropped_attributes_count": 1,
    "dropped_events_count": 2,
    "dropped_links_count": 3,
    "dropped_scores_count": 4,
    "resource": {"attributes": {"service": {"name": "shop"}}, "dropped_attributes_count": 5, "schema_url": "r"},
    "scope": {"name": "lib", "version": "1", "attributes": {"a": 1}, "dropped_attributes_count": 6, "schema_url": "c"},
    "repaired": ["attributes.n"],
    "scores": [
        {
            "name": "Relevance",
            "value": 2.0,
            "label": "good",
            "explanation": "because",
            "source": {"kind": "annotation", "trace_id": TRACE_ID, "span_id": SPAN_ID, "evaluator": "judge"},
            "at": "2024-05-01T12:00:00.000001Z",
        }
    ],
}


def a_span(**members):
    return {"trace_id": TRACE_ID, "span_id": SPAN_ID, **members}


def read(document):
    return decode(json.dumps(document).encode(), limits=LIMITS, now_ns=NOW_NS)


def the_span(**members):
    decoded = read(a_span(**members))
    assert decoded.rejections.in_full == []
    return decoded.spans[0]


def the_rejection(**members):
    decoded = read(a_span(**members))
    assert decoded.spans == []
    return decoded.rejections.in_full[0]


def test_every_member_of_a_response_is_read():
    (span,) = read(ANSWER).spans

    assert span._asdict() == {
        "trace_id": bytes.fromhex(TRACE_ID),
        "span_id": bytes.fromhex(SPAN_ID * 2),
        "parent_id": bytes.fromhex("00000000000000cd" * 2),
        "name": "chat",
        "kind": SpanKind.SPAN_KIND_CLIENT,
        "start_ns": NOON_NS + 7,
        "end_ns": NOON_NS + 10**9 + 9,
        "status_code": StatusCode.STATUS_CODE_ERROR,
        "status_message": "boom",
        "attributes": {"ag": {"data": {"inputs": {"a.b": [1, 2, None, True, "x"]}}}, "n": 1.5},
        "events": (Event("exception", NOON_NS + 1, {"exception.message": "x"}, 4),),
        "links": (Link(bytes.fromhex(TRACE_ID), bytes.fromhex(SPAN_ID * 2), {"key": "k"}, "t", 256),),
        "trace_state": "v=1",
        "flags": 257,
        "dropped_attributes_count": 1,
        "dropped_events_count": 2,
        "dropped_links_count": 3,
        "dropped_scores_count": 4,
        "resource": Resource({"service": {"name": "shop"}}, 5, "r"),
        "scope": Scope("lib", "1", {"a": 1}, 6, "c"),
        "references": [
            {"id": "019d952f-5945-71b1-b8cb-d6d8e675c18d", "slug": "app", "attributes": {"key": "application"}}
        ],
        "hashes": [{"id": "d3c8a323-8abe-92a5-d1d4-bb89e23f10ed", "attributes": {"key": "indirect"}}],
        "is_running": False,
        "session_id": "s",
        "user_id": "u",
        "agent_id": "g",
        "repaired": ("attributes.n",),
        "scores": (
            Score(
                "Relevance",
                2,
                "good",
                "because",
                ScoreSource("annotation", bytes.fromhex(TRACE_ID), bytes.fromhex(SPAN_ID * 2), "judge"),
                NOON_NS + 1_000,
            ),
        ),
    }


def test_response_of_several_spans_is_a_record():
    other = {**ANSWER, "span_id": "00000000000000ef"}

    decoded = read({"count": 2, "spans": [ANSWER, other], "windowing": {"next": "x"}})

    assert decoded.span_indexes == [0, 1]
    assert decoded.spans[0].resource is decoded.spans[1].resource


def test_equal_resources_are_shared_only_if_their_types_are_equal():
    spans = [a_span(resource={"attributes": {"a": value}}) for value in (1, True)]
    spans[1]["span_id"] = "00000000000000ef"

    decoded = read({"spans": spans})

    assert [repr(span.resource.attributes) for span in decoded.spans] == ["{'a': 1}", "{'a': True}"]


@pytest.mark.parametrize(
    ("members", "start_ns", "end_ns"),
    [
        ({}, NOW_NS, NOW_NS),
        ({"start_time": "2024-05-01T12:00:00Z"}, NOON_NS, NOON_NS),
        ({"end_time": "2024-05-01"}, NOON_NS - 43_200 * 10**9, NOON_NS - 43_200 * 10**9),
        ({"start_time": 1_714_564_800, "end_time": "1714564800001"}, NOON_NS, NOON_NS + 10**6),
        ({"start_time": 1_714_564_800.5}, NOON_NS + 5 * 10**8, NOON_NS + 5 * 10**8),
        ({"start_time": "2020-01-01", "start_time_unix_nano": NOON_NS}, NOON_NS, NOON_NS),
        ({"start_time": None, "end_time": None}, NOW_NS, NOW_NS),
    ],
)
def test_times_default_to_each_other_and_then_to_now(members, start_ns, end_ns):
    span = the_span(**members)

    assert (span.start_ns, span.end_ns) == (start_ns, end_ns)


def test_missing_name_comes_from_the_id_so_redelivery_is_equal():
    assert the_span().name == "0000000000ab"
    assert the_span(span_name="").name == ""


@pytest.mark.parametrize("integer", ["18446744073709551616", "-9223372036854775809", "1" * 300])
def test_integer_beyond_64_bits_is_rejected_and_such_a_double_is_kept(integer):
    span = json.dumps({**ANSWER, "attributes": {"n": "N", "text": f'"{integer}"'}})
    values = [integer, f"[{integer}]", f"{float(integer):e}", f"{integer}.0", f"{integer}e-0", "0.12345678901234567890"]
    spans = ",".join(span.replace('"N"', value) for value in values)

    decoded = decode(f'{{"spans":[{spans}]}}'.encode(), limits=LIMITS, now_ns=NOW_NS)

    assert decoded.span_indexes == [2, 3, 4, 5]
    assert [(rejection.span_index, rejection.code) for rejection in decoded.rejections.in_full] == [
        (0, RejectionCode.INVALID_TYPE),
        (1, RejectionCode.INVALID_TYPE),
    ]
    assert "attributes.n is an integer beyond 64 bits" in decoded.rejections.in_full[0].reason


@pytest.mark.parametrize("links", [None, []])
def test_no_links_and_an_empty_list_of_links_differ(links):
    assert the_span(links=links).links == (None if links is None else ())


def test_link_needs_no_attributes_and_event_needs_no_time():
    span = the_span(
        start_time=NOON_NS,
        links=[{"trace_id": TRACE_ID, "span_id": SPAN_ID}],
        events=[{"name": "e", "timestamp": None}],
    )

    assert span.links[0].attributes == {}
    assert span.events[0].time_ns == NOON_NS


@pytest.mark.parametrize(
    ("members", "code", "words"),
    [
        ({"trace_id": None}, RejectionCode.INVALID_TRACE_ID, "no trace_id"),
        ({"trace_id": 5}, RejectionCode.INVALID_TRACE_ID, "trace_id is the number 5"),
        ({"trace_id": "xyz"}, RejectionCode.INVALID_TRACE_ID, "“xyz” is not a trace id"),
        ({"span_id": None}, RejectionCode.INVALID_SPAN_ID, "no span_id"),
        ({"span_id": "0" * 16}, RejectionCode.INVALID_SPAN_ID, "zeros"),
        ({"parent_id": "xyz"}, RejectionCode.INVALID_PARENT_ID, "parent_id"),
        ({"links": [{"trace_id": TRACE_ID}]}, RejectionCode.INVALID_LINK, "links.span_id is null"),
        ({"links": [{"trace_id": "x", "span_id": SPAN_ID}]}, RejectionCode.INVALID_LINK, "links.trace_id"),
        ({"links": {}}, RejectionCode.INVALID_TYPE, "links is an object; it must be an array"),
        ({"events": [5]}, RejectionCode.INVALID_TYPE, "An event is the number 5"),
        ({"events": [{"timestamp": "9999-01-01"}]}, RejectionCode.ABSURD_TIME, "time of an event"),
        ({"attributes": []}, RejectionCode.INVALID_TYPE, "attributes is an array; it must be an object"),
        ({"references": [{"id": "app"}]}, RejectionCode.INVALID_TYPE, "references.id is the text “app”"),
        ({"references": ["app"]}, RejectionCode.INVALID_TYPE, "An element of references"),
        ({"resource": "r"}, RejectionCode.INVALID_TYPE, "resource is the text"),
        ({"scope": {"name": 1}}, RejectionCode.INVALID_TYPE, "scope.name"),
        ({"session_id": 7}, RejectionCode.INVALID_TYPE, "session_id is the number 7; it must be text"),
        ({"span_kind": "CLIENT"}, RejectionCode.UNKNOWN_ENUM, "span_kind is “CLIENT”"),
        ({"status_code": 3}, RejectionCode.UNKNOWN_ENUM, "status_code is 3"),
        ({"start_time": "noon"}, RejectionCode.INVALID_TYPE, "start_time: Timestamp “noon” cannot be read"),
        ({"start_time": 17}, RejectionCode.INVALID_TYPE, "ambiguous"),
        ({"start_time": {}}, RejectionCode.INVALID_TYPE, "start_time is an object"),
        (
            {"start_time": "2024-05-01", "end_time": "1999-12-31"},
            RejectionCode.ABSURD_TIME,
            "The end time is 1999-12-31",
        ),
        (
            {"start_time": "1970-01-01T00:00:01Z"},
            RejectionCode.ABSURD_TIME,
            " In nanoseconds since 1970 this is 1000000000, which looks like seconds.",
        ),
        ({"spans": {"child": {}}}, RejectionCode.INVALID_TYPE, "next to it"),
    ],
)
def test_bad_member_is_named(members, code, words):
    rejection = the_rejection(**members)

    assert rejection.code is code
    assert words in rejection.reason


@pytest.mark.parametrize(
    "value", [b"5", b"[]", b'"a"', b"null", b"{", b'{"spans":5}', b'{"resourceSpans":[]}', b"nonsense"]
)
def test_other_document_rejects_the_record(value):
    with pytest.raises(Rejected) as rejected:
        decode(value, limits=LIMITS, now_ns=NOW_NS)

    assert rejected.value.rejection is RejectionCode.UNDECODABLE


@pytest.mark.parametrize("value", [b"{}", b'{"spans":[]}', b'{"spans":null}', b'{"count":0,"spans":[]}'])
def test_empty_records_have_no_spans(value):
    assert decode(value, limits=LIMITS, now_ns=NOW_NS) == Decoded([], [], Rejections())


def test_levels_added_by_normalization_do_not_count():
    deep = json.loads("[" * 24 + "]" * 24)

    assert the_span(attributes={"ag": {"data": {"inputs": {"x": deep}}}}).attributes
    assert the_span(attributes={"ag": {"data": {"inputs": {"x": [deep]}}}}).repaired == ("attributes.ag.data.inputs.x",)


@pytest.mark.parametrize("found", [5, {}, "attributes.a", [5], [[]]])
def test_repaired_is_a_list_of_texts(found):
    assert the_rejection(repaired=found).code is RejectionCode.INVALID_TYPE


def test_places_that_were_repaired_before_come_first():
    span = the_span(span_name="\0", repaired=["attributes.a", "\0", "span_name", *map(str, range(30))])

    assert span.repaired[:4] == ("attributes.a", "\ufffd", "span_name", "0")
    assert len(span.repaired) == 20


def test_further_members_are_repaired_too():
    deep = json.loads("[" * 23 + '["\\u0000"]' + "]" * 23)
    resource, scope = {"attributes": {"a": {"b": "\ud800"}}}, {"name": "\ud800", "attributes": {"c": deep}}
    reference = {"slug": "\ud800", "attributes": {"key": "k", "d": [deep]}}
    promoted = dict.fromkeys(("session_id", "user_id", "agent_id"), "\ud800")

    span = the_span(resource=resource, scope=scope, references=[reference], hashes=[{"a": "\ud800"}], **promoted)

    assert span.repaired == (
        *("references.slug", "references.attributes.d", "hashes.a", "session_id", "user_id", "agent_id"),
        *("resource.attributes.a.b", "scope.name", "scope.attributes.c"),
    )
    assert span.session_id == "\ufffd"
    assert span.resource.attributes == {"a": {"b": "\ufffd"}}


def test_integer_past_64_bits_is_rejected_in_a_span_that_is_repaired():
    for value in (2**64, [[2**64]], json.loads("[" * 30 + str(2**64) + "]" * 30)):
        assert the_rejection(span_name="\ud800", attributes={"n": value}).code is RejectionCode.INVALID_TYPE
        assert the_rejection(attributes={"n": value}).code is RejectionCode.INVALID_TYPE


def test_numbers_in_the_text_of_a_deep_value_are_those_of_other_values():
    value: Any = {"a": [2.0, -0.0, 1.5, 1e300, 2**63, True, None, "é\ud800"]}
    for _ in range(24):
        value = [value]

    text = the_span(attributes={"n": value}).attributes["n"]
    while type(text) is list:
        [text] = text

    assert text == '{"a":[2,0,1.5,1e+300,9223372036854775808,true,null,"é\ufffd"]}'


def test_single_span_is_cut_to_the_whole_record():
    value = json.dumps(a_span(span_name="\0")).encode()

    assert lay_out(value).cut([0]) == value


def test_keys_that_are_equal_after_a_repair_keep_their_values():
    half = chr(0xD800)
    attributes = {"a\0": 1, "a\ufffd": 2, f"a{half}": 3, "a\ufffd1": 4, "b": {"\0": 5, half: 6}}
    span = {"trace_id": "1" * 32, "span_id": "2" * 16, "start_time": NOW_NS, "attributes": attributes}

    [decoded] = decode(json.dumps(span).encode(), limits=LIMITS, now_ns=NOW_NS, sent_ns=NOW_NS).spans

    kept = {"a\ufffd2": 1, "a\ufffd": 2, "a\ufffd3": 3, "a\ufffd1": 4, "b": {"\ufffd": 5, "\ufffd1": 6}}
    assert decoded.attributes == kept
    assert len(decoded.repaired) == 4


@pytest.mark.parametrize(
    ("said", "value", "label"),
    [
        ({"value": 0.5}, 0.5, None),
        ({"value": True}, 1, "true"),
        ({"value": False, "label": "no"}, 0, "no"),
        ({"value": "0.90"}, 0.9, None),
        ({"value": "good"}, None, "good"),
        ({"value": "high", "label": "good"}, None, "good"),
        ({"label": "good", "value": None}, None, "good"),
        ({"label": 3}, None, "3"),
        ({"value": 2**64 - 1}, 2**64 - 1, None),
    ],
)
def test_value_and_label_of_a_score(said, value, label):
    span = the_span(scores=[{"name": "n", **said}], end_time="2024-05-01T12:00:00Z")

    assert span.scores == (Score("n", value, label, None, EVENT_SOURCE, NOON_NS),)


@pytest.mark.parametrize(
    ("score", "place"),
    [
        ({"name": "n"}, "scores[1] has no value and no label"),
        ({"value": 1}, "scores[1].name is null; it must be a text of 1 to 500 characters"),
        ({"name": "", "value": 1}, "scores[1].name"),
        ({"name": "n" * 501, "value": 1}, "scores[1].name"),
        ({"name": "n", "value": "NaN"}, "scores[1].value is NaN; it must be a finite number, a boolean or a text"),
        ({"name": "n", "value": [1]}, "scores[1].value"),
        ({"name": "n", "value": 2**64}, "scores[1].value"),
        ({"name": "n", "value": 1, "label": {}}, "scores[1].label"),
        ({"name": "n", "value": 1, "explanation": 1}, "scores[1].explanation"),
        ({"name": "n", "value": 1, "at": "soon"}, "scores[1].at"),
        ({"name": "n", "value": 1, "at": "1950-01-01"}, "scores[1].at"),
        ({"name": "n", "value": 1, "source": "event"}, "scores[1].source"),
        ({"name": "n", "value": 1, "source": {"kind": "person"}}, "scores[1].source.kind"),
        ({"name": "n", "value": 1, "source": {"trace_id": "x"}}, "scores[1].source.trace_id"),
        ({"name": "n", "value": 1, "source": {"span_id": 1}}, "scores[1].source.span_id"),
        (5, "scores[1]"),
    ],
)
def test_bad_score_is_rejected_with_its_place(score, place):
    rejection = the_rejection(scores=[{"name": "n", "value": 1}, score])

    assert rejection.reason.startswith(place), rejection.reason


def test_texts_of_scores_are_repaired():
    span = the_span(scores=[{"name": "\0", "label": "\ud800", "explanation": "\0", "source": {"evaluator": "\0"}}])

    assert span.repaired == ("scores.name", "scores.label", "scores.explanation", "scores.source.evaluator")
    assert span.scores[0][:4] == ("\ufffd", None, "\ufffd", "\ufffd")


RUNNING = {name: value for name, value in ANSWER.items() if not name.startswith("end_time")}


@pytest.mark.parametrize("sent", [{"running": True}, {"state": "running"}, {"running": True, "state": "running"}])
def test_running_span_has_its_start_as_end(sent: dict[str, Any]):
    (span,) = read(RUNNING | sent).spans

    assert span.is_running
    assert span.end_ns == span.start_ns == NOON_NS + 7


@pytest.mark.parametrize("sent", [{}, {"running": False}, {"running": None, "state": None}])
def test_span_without_an_end_that_is_not_running_ended(sent: dict[str, Any]):
    (span,) = read(RUNNING | sent).spans

    assert not span.is_running


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"running": True, "end_time": 5}, "The span is running and has end_time. A running span has no end"),
        ({"state": "running", "end_time_unix_nano": "5"}, "The span is running and has end_time_unix_nano."),
        ({"running": 1}, "running"),
        ({"state": "done"}, "allowed: “running”"),
        ({"state": "running", "running": False}, "send one"),
    ],
)
def test_span_that_contradicts_itself_about_its_end_is_rejected(sent: dict[str, Any], reason: str):
    decoded = read(RUNNING | sent)

    assert not decoded.spans
    assert reason in decoded.rejections.in_full[0].reason
